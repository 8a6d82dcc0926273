"""Representativeness of training data in the features of linear layers: petzka2021 Eq. 3, 5, 6.

A layer z = w phi + b sees one vector phi_i in R^m of each sample, and xi_i is isotropic normal with
deviation h_i, truncated to |xi| < h_i = delta |phi_i|. With labels that do not change nearby,

    E_Rep = E(f) - mean_i E_xi loss(psi(phi_i + xi), y_i)

is what the samples, widened so, do not say of the risk E(f). That is the loss on held-out data; or,
of folds of the samples, the loss on each fold, with the mean over the samples of the others. The
network stays the same: it was fitted to all folds. E_Rep + E_F is then the gap of the losses (Eq.
5), with E_F the feature robustness for matrices |xi|/|phi| O, O orthogonal (Prop. 2). The draws are
those of xi, not of O, each with its opposite.
"""

from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.progress import ticked
from flatlab.core.schema import Key, Strict, means
from flatlab.families._perturbed_losses import PerturbedLosses, deltas_of, eligible_layers
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

ESTIMATES = True
CHECKS = ("function",)
DIMS = ("layer", "delta_index")
UNITS = "loss"
NODES = 2**12
"""Of the radial distribution function."""
QUANTITIES = {
    "nearby_loss": Quantity(
        "mean loss where features phi become phi + xi, xi normal with deviation delta |phi|, "
        "truncated to that radius",
        UNITS,
        "petzka2021 Eq. 3, 6",
        DIMS,
    ),
    "nearby_loss_error": Quantity("standard error of nearby_loss over xi", UNITS, "", DIMS),
    "representativeness": Quantity(
        "mean loss on held-out data - nearby_loss",
        UNITS,
        "petzka2021 Eq. 3",
        DIMS,
        label="representativeness",
    ),
    "representativeness_by_folds": Quantity(
        "mean over folds of the samples of: mean loss on the fold - nearby_loss of the others",
        UNITS,
        "petzka2021 Sec. 6",
        DIMS,
        label="representativeness by folds",
    ),
    "representativeness_by_folds_error": Quantity(
        "standard error of representativeness_by_folds over the folds", UNITS, "", DIMS
    ),
    "representativeness_delta": Quantity("delta", "1", "petzka2021 Prop. 2", DIMS),
}


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    robustness_deltas: Annotated[
        tuple[Literal["paper"] | Annotated[float, Meta(gt=0)], ...],
        means("delta; paper: n^(-1/(4+m)) of n samples and m features, as in its App. D.4"),
    ] = ("paper", 0.01, 0.03, 0.1, 0.3)
    representativeness_draws: Annotated[
        int, means("changes xi of the features of each sample, each with both signs", ge=2)
    ] = 128
    representativeness_folds: Annotated[
        int, means("parts of the samples; of fewer samples each is one", ge=2)
    ] = 10
    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Every layer that `geometry` has; NaN for one that is no linear layer of one position.

    `representativeness` itself needs held-out data, which training samples of an experiment have.
    Of a single sample there are no folds. Raises `MeasureError` without targets, and where no layer
    is eligible.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> how = {"families": "representativeness", "robustness_deltas": [0.1]}
    >>> report = flatlab.measure(network, x, classes, **how)
    >>> bool(report["nearby_loss"] > 16.75)  # the mean loss; a convex one is larger nearby
    True
    >>> bool(report["representativeness_by_folds"] < 0)
    True
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    findings = settings.findings(model, samples.inputs)
    places, left_out = eligible_layers(model, samples.inputs, findings, "representativeness")

    def losses_on(chosen: SampleSet) -> PerturbedLosses:
        targets = chosen.targets_for(findings.outputs, loss).double()
        return PerturbedLosses(model, chosen.inputs, targets, loss, settings.batch_size or 256)

    losses = losses_on(samples)
    plain = losses.plain().cpu().numpy()
    held_out = settings.held_out
    risk = float(losses_on(held_out).plain().mean()) if held_out else np.nan
    count = len(samples.inputs)
    folds = min(count, options.representativeness_folds)
    parts = np.array_split(np.random.default_rng(settings.seed).permutation(count), folds)
    shape = len(findings.layers), len(options.robustness_deltas)
    values = {name: np.full(shape, np.nan) for name in QUANTITIES}
    draws = range(options.representativeness_draws)
    seeds = [(settings.seed, place, draw) for place, _ in places for draw in draws]
    by_layer = groupby(ticked(seeds, "representativeness", settings.progress), itemgetter(1))
    for (place, name), (_, of_layer) in zip(places, by_layer, strict=True):
        layer: Any = findings.modules[name]
        deltas = deltas_of(options.robustness_deltas, count, layer.in_features)
        drawn = np.stack([_nearby(losses, layer, deltas, seed) for seed in of_layer])
        by_folds, spread = _by_folds(plain, drawn.mean(0), parts)
        nearby = drawn.mean((0, 2))
        rows = (
            nearby,
            drawn.mean(2).std(0, ddof=1) / len(drawn) ** 0.5,
            risk - nearby,
            by_folds,
            spread,
            deltas,
        )
        for column, row in zip(QUANTITIES, rows, strict=True):
            values[column][place] = row
    if held_out is None and settings.split is None:
        del values["representativeness"]
    if not findings.finite:
        values = {name: np.full(shape, np.nan) for name in values}
    indices = [str(index) for index in range(shape[1])]
    coordinates = {"layer": findings.layers, "delta_index": indices}
    return Measured(values, coordinates, {"representativeness_left_out": left_out})


def _by_folds(
    plain: np.ndarray, nearby: np.ndarray, parts: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The estimate by folds and its standard error over them, (deltas,) each; NaN of one sample.

    plain: losses, (samples,).  nearby: those nearby, (deltas, samples).  parts: the folds' samples.
    """
    if len(parts) < 2:
        nothing = np.full(len(nearby), np.nan)
        return nothing, nothing
    differences = []
    for part in parts:
        others = np.ones(len(plain), dtype=bool)
        others[part] = False
        differences.append(plain[part].mean() - nearby[:, others].mean(1))
    table = np.stack(differences)
    return table.mean(0), table.std(0, ddof=1) / len(table) ** 0.5


@torch.no_grad()
def _nearby(
    losses: PerturbedLosses, layer: nn.Linear, deltas: np.ndarray, seed: tuple[int, int, int]
) -> np.ndarray:
    """The losses at phi + xi and phi - xi, averaged, of one draw of xi: (deltas, samples)."""
    moves = _moves(layer.weight.detach(), len(losses.inputs), seed)

    def at(factor: float) -> Tensor:
        def change(phi: Tensor, here: slice) -> Tensor:
            return factor * torch.linalg.vector_norm(phi, dim=1, keepdim=True) * moves[here]

        return losses.changed(layer, change)

    pairs = [(at(delta) + at(-delta)) / 2 for delta in deltas]
    return torch.stack(pairs).cpu().numpy()


def _moves(weight: Tensor, samples: int, seed: tuple[int, int, int]) -> Tensor:
    """w xi / h for one draw of xi for each sample: (samples, d).

    With w = R^T Q^T, Q (m x k) with orthonormal columns, w xi = R^T Q^T xi: no more of xi is drawn
    than the layer can see. Of a normal vector in R^m these are k numbers; its other m - k enter by
    their squares, which make its direction uniform.
    """
    triangle = torch.linalg.qr(weight.double().T, mode="r").R
    features, seen = weight.shape[1], len(triangle)
    generator = np.random.default_rng(seed)
    normal = generator.standard_normal((samples, seen))
    rest = generator.chisquare(features - seen, samples) if features > seen else 0.0
    lengths = np.sqrt((normal**2).sum(1) + rest)
    radii = radii_of(features, generator.random(samples))
    steps = torch.from_numpy(normal * (radii / lengths)[:, None]).to(weight.device)
    return (steps @ triangle).to(weight)


def radii_of(features: int, uniform: np.ndarray) -> np.ndarray:
    """|xi|/h from uniform numbers in [0, 1], for xi normal in R^m with deviation h, within h.

    Its density is proportional to r^(m-1) exp(-r^2/2). In t = r^m that is exp(-r^2/2) alone, whose
    integral is taken by trapezoids.
    """
    nodes = np.linspace(0, 1, NODES + 1)
    density = np.exp(-(nodes ** (2 / features)) / 2)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(uniform, below / below[-1], nodes) ** (1 / features)
