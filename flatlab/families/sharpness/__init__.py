"""Average-case and worst-case sharpness of andriushchenko2023, Eq. 1: all definitions and radii.

L is the mean loss of a batch of m samples and w the vector of all trainable parameters. With a
scale c for each, which is 1 (standard) or |w| (adaptive),

    average: E[L(w + d) - L(w)], d = rho c e, where e is normal (l2) or uniform in [-1, 1] (linf),
    worst: max L(w + d) - L(w) over |d / c|_p <= rho, p = 2 (l2) or infinity (linf),

averaged over the batches. `normalized` is `adaptive` with normalized logits, Eq. 5. Average cases
may be negative. Worst cases are found by Auto-PGD: lower bounds, and never negative.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Key, Strict, means
from flatlab.derivatives.per_sample.memory import fitting
from flatlab.derivatives.per_sample.probe import check, run
from flatlab.families.sharpness.auto_pgd import (
    BatchLoss,
    Neighbourhood,
    Transform,
    ascend,
    laid_out,
    once,
)
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

SOURCE = "andriushchenko2023 Eq. 1, App. H"
DIMS = ("definition", "radius_index")
QUANTITIES = {
    "sharpness_at_radius": Quantity(
        "mean over batches of the average or largest L(theta + d) - L(theta)", "loss", SOURCE, DIMS
    ),
    "sharpness_at_radius_error": Quantity(
        "standard error of an average case over draws, for these batches", "loss", dims=DIMS
    ),
    "sharpness_radius": Quantity(
        "rho, of d or of d / |theta|", "parameter, or 1", "andriushchenko2023 Tables 3, 4", DIMS
    ),
    "sharpness_settled": Quantity("share of a worst case that half of the steps reach", dims=DIMS),
}

SMALLEST_RADII = {
    "average-standard-l2": (0.05, 0.005),
    "average-standard-linf": (0.1, 0.01),
    "average-adaptive-l2": (0.05, 0.1),
    "average-adaptive-linf": (0.1, 0.1),
    "average-normalized-l2": (0.05, 0.1),
    "average-normalized-linf": (0.1, 0.1),
    "worst-standard-l2": (0.25, 0.025),
    "worst-standard-linf": (0.0005, 0.00001),
    "worst-adaptive-l2": (0.25, 0.5),
    "worst-adaptive-linf": (0.001, 0.0005),
    "worst-normalized-l2": (0.25, 0.25),
    "worst-normalized-linf": (0.001, 0.0005),
}
"""By definition, in Tables 3 (ResNets) and 4 (ViTs); the others are 2, 4 and 8 times as large."""
NETWORKS = ("resnet", "vit")
TOKENS = True
LEAST = 1e-10
"""Normalized logits are divided by at least this, for outputs that are all the same."""


class Cell(NamedTuple):
    """One definition at one radius.

    place: in the results, (definition, index of the radius).
    case: average or worst.
    scale: standard, adaptive or normalized.
    norm: l2 or linf.
    radius: rho.
    """

    place: tuple[int, int]
    case: str
    scale: str
    norm: str
    radius: float


CHECKS = ("gradient",)


class Options(Strict, frozen=True):
    """The defaults are those of the paper's networks on CIFAR-10; in part the authors' code."""

    FOLDERS: ClassVar[dict[str, str]] = {"sharpness_loss": "losses"}

    sharpness_radii: Annotated[
        Literal["resnet", "vit"]
        | dict[str, Annotated[list[Annotated[float, Meta(gt=0)]], Meta(min_length=1)]],
        means("of the paper's networks, or lists by definition, such as worst-adaptive-linf"),
    ] = "resnet"
    sharpness_loss: Annotated[Key | None, means("null: the loss of training")] = "cross-entropy"
    sharpness_batch: Annotated[
        Annotated[int, Meta(ge=1)] | None, means("samples m of a batch; null: all in one")
    ] = 128
    sharpness_draws: Annotated[int, means("changes of the weights for each batch", ge=2)] = 20
    sharpness_steps: Annotated[int, means("of Auto-PGD", ge=1)] = 20
    sharpness_start: Annotated[
        Literal["zero", "random"], means("change of the weights at which Auto-PGD starts")
    ] = "zero"
    sharpness_ascent: Annotated[
        Literal["steepest", "printed"],
        means("Auto-PGD in the coordinates d / c, or with the l2 step of the text"),
    ] = "steepest"

    def contradiction(self) -> tuple[str, str] | None:
        known = ", ".join(SMALLEST_RADII)
        for name in self.sharpness_radii if isinstance(self.sharpness_radii, dict) else ():
            if name not in SMALLEST_RADII:
                return "sharpness_radii", f"{name!r} is not a definition; known: {known}"
        return None


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All definitions on one sample set; NaN for normalized logits of a network with one output.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> radii = {"worst-standard-linf": [0.001, 0.002]}
    >>> how = {"families": "sharpness", "sharpness_loss": None, "loss": "half-mse"}
    >>> report = flatlab.measure(network, x, classes, sharpness_radii=radii, **how)
    >>> report["sharpness_at_radius"].values.round(4).tolist()  # rho times 41, and more
    [[0.041, 0.0821]]
    """
    options: Options = settings.options
    check(model, samples.inputs)
    with torch.no_grad():
        outputs = run(model, samples.inputs[:2]).shape[1]
    loss = settings.loss_named(options.sharpness_loss)
    targets = samples.targets_for(outputs, loss)
    names, cells = cells_of(options.sharpness_radii)
    normalizable = (settings.loss.classes or outputs) > 1
    measured = [cell for cell in cells if cell.scale != "normalized" or normalizable]
    shape = (len(names), 1 + max(cell.place[1] for cell in cells))
    radius, value, variance = np.full((3, *shape), np.nan)
    histories = np.full((*shape, 1 + options.sharpness_steps), np.nan)
    averages = [cell for cell in measured if cell.case == "average"]
    ascents = [cell for cell in measured if cell.case == "worst"]
    for cell in cells:
        radius[cell.place] = cell.radius
    for cell in averages:
        value[cell.place] = variance[cell.place] = 0.0
    for cell in ascents:
        histories[cell.place] = 0.0
    # Draws are shared; where a network does not change it is evaluated once, uncounted.
    shared = {(cell.norm, cell.scale == "standard", cell.radius) for cell in averages}
    steps = options.sharpness_draws * len(shared) + options.sharpness_steps * len(ascents)
    generator = torch.Generator(samples.inputs.device).manual_seed(settings.seed)
    size = options.sharpness_batch or len(targets)
    inputs, logits = laid_out(model, samples.inputs), _logits(settings.loss.classes)
    batches = list(zip(inputs.split(size), targets.split(size), strict=True))
    one = partial(run, model, inputs[:1])
    at_a_time = settings.batch_size or fitting(one, settings.budget, len(inputs))
    what = f"{len(measured)} sharpnesses on {len(targets)} samples"
    with ProgressBar(what, len(batches) * steps, settings.progress) as bar:
        for x, y in batches:
            batch = BatchLoss(model, x, y, loss, at_a_time, bar.tick)
            share = len(x) / len(targets)
            seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
            for place, changes in _averages(batch, averages, options, seed, logits):
                value[place] += share * changes.mean()
                variance[place] += share**2 * changes.var(ddof=1) / len(changes)
            for place, history in _ascents(batch, ascents, options, seed, logits):
                histories[place] += share * history
    worst, half = histories[..., -1], histories[..., histories.shape[-1] // 2]
    with np.errstate(invalid="ignore"):  # a worst case may be 0
        values = {
            "sharpness_at_radius": np.where(np.isnan(value), worst, value),
            "sharpness_at_radius_error": np.sqrt(variance),
            "sharpness_radius": radius,
            "sharpness_settled": half / worst,
        }
    places = {"definition": names, "radius_index": [str(index) for index in range(shape[1])]}
    return Measured(values, places)


def cells_of(radii: str | Mapping[str, Sequence[float]]) -> tuple[list[str], list[Cell]]:
    """The definitions to measure, and each at each of its radii."""
    if isinstance(radii, str):
        column = NETWORKS.index(radii)
        radii = {name: [2**k * r[column] for k in range(4)] for name, r in SMALLEST_RADII.items()}
    cells = []
    for row, (name, of_definition) in enumerate(radii.items()):
        case, scale, norm = name.split("-")
        cells += [
            Cell((row, k), case, scale, norm, radius) for k, radius in enumerate(of_definition)
        ]
    return list(radii), cells


def _averages(
    batch: BatchLoss,
    cells: Sequence[Cell],
    options: Options,
    seed: int,
    logits: Mapping[str, Transform],
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """The changes of the loss, (draws,), in each average case.

    Radii and scales share their draws, and the two kinds of logits the outputs.
    """
    generator, zero = torch.Generator(batch.weights.device), torch.zeros_like(batch.weights)
    before = cache(lambda transform: batch.values(zero, [transform]))
    noise = torch.empty_like(zero)
    changes: dict[tuple[int, int], list[Tensor]] = {}
    for norm in ("l2", "linf"):
        together: dict[tuple[bool, float], list[Cell]] = {}
        for cell in cells:
            if cell.norm == norm:
                together.setdefault((cell.scale == "standard", cell.radius), []).append(cell)
        generator.manual_seed(seed)
        for _ in range(options.sharpness_draws if together else 0):
            if norm == "l2":
                noise.normal_(generator=generator)
            else:
                noise.uniform_(-1, 1, generator=generator)
            for (standard, radius), cells_of_draw in together.items():
                # w in place of |w|: the distribution is the same, and the draws follow the signs
                change = radius * noise if standard else radius * batch.weights * noise
                losses = batch.values(change, [logits[cell.scale] for cell in cells_of_draw])
                for cell, value in zip(cells_of_draw, losses, strict=True):
                    changes.setdefault(cell.place, []).append(value)
    for cell in cells:
        of_draws = torch.stack(changes[cell.place]) - before(logits[cell.scale])
        yield cell.place, of_draws.cpu().numpy()


def _ascents(
    batch: BatchLoss,
    cells: Sequence[Cell],
    options: Options,
    seed: int,
    logits: Mapping[str, Transform],
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """The largest increase of the loss after each step, (1 + steps,), in each worst case."""
    generator, zero = torch.Generator(batch.weights.device), torch.zeros_like(batch.weights)
    origins = cache(lambda transform: once(batch.evaluate(zero, transform)))
    random, steepest = options.sharpness_start == "random", options.sharpness_ascent == "steepest"
    for cell in cells:
        transform = logits[cell.scale]
        origin = origins(transform)
        scale = torch.ones_like(zero) if cell.scale == "standard" else batch.weights.abs()
        field = Neighbourhood(cell.norm, cell.radius, scale, steepest)
        start = field.draw(generator.manual_seed(seed)) if random else None
        function = partial(batch.evaluate, transform=transform)
        history = ascend(function, field, options.sharpness_steps, origin, start)
        yield cell.place, np.array(history) - origin[0]


def _logits(classes: int) -> dict[str, Transform]:
    """What is done to the outputs before the loss, for each scale.

    classes: outputs for each position, where samples have positions, which are normalized alone.
    """

    def by_position(outputs: Tensor) -> Tensor:
        rows = outputs.reshape(-1, classes or outputs.shape[1])
        return normalized(rows).view_as(outputs)

    unchanged = nn.Identity()
    return {"standard": unchanged, "adaptive": unchanged, "normalized": by_position}


def normalized(outputs: Tensor) -> Tensor:
    """Logits (samples, N) divided by their standard deviation: andriushchenko2023, Eq. 5."""
    return outputs / outputs.var(1, correction=0, keepdim=True).clamp(min=LEAST**2).sqrt()
