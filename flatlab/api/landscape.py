"""`flatlab.landscape` and `flatlab.barriers`: the loss along lines and planes of networks.

Directions are random, of the top eigenvectors, or between networks. A random one is normalized by
filters (Li, Xu, Taylor, Studer and Goldstein, 2018): each filter of it, the part of a weight that
makes one output channel or unit, has the norm of that filter of the network; biases and scales and
shifts of normalizations, which are vectors, stay.
"""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar, ticked
from flatlab.core.store import as_strings
from flatlab.derivatives.checks.differences import copy_in
from flatlab.derivatives.checks.isolation import batch_norm as in_mode
from flatlab.derivatives.checks.isolation import check_mode, preserving_state
from flatlab.inputs.arguments import documented, separated
from flatlab.inputs.loss_forms import Function
from flatlab.inputs.prepare import Ready, only
from flatlab.measuring.evaluate import ABOUT, BATCH, evaluate, ready_to_evaluate
from flatlab.measuring.preflight import measure_family
from flatlab.measuring.quantity import settings_of
from flatlab.version import __version__

AXES = ("first", "second")
"""The dimensions of a landscape."""
DIRECTIONS = {
    "random": "random, normalized by filters",
    "eigenvectors": "eigenvectors of the largest eigenvalues of the Hessian",
}
MODES = ("eval", "train")
State = dict[str, Tensor]
"""Real tensors of a state dictionary, parameters and buffers."""


@documented
def landscape(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    *,
    along: Literal["random", "eigenvectors"] | Sequence[nn.Module] = "random",
    dimensions: int = 1,
    span: tuple[float, float] | None = None,
    points: int = 41,
    batch_norm: Literal["eval", "train"] = "eval",
    loss: str | Function = "half-mse",
    progress: bool = False,
    **arguments: Any,
) -> xr.Dataset:
    """The loss of a network along a line, or on a plane.

    model: the network, at the origin; it is left as it was.
    inputs, targets, loss: as for `flatlab.measure`.
    along: `random`: directions as long as the network, filter by filter. `eigenvectors` of the
        largest eigenvalues of the Hessian, of length 1. Or one or two other networks: one is at 1
        on the line. Of two, the first is at (1, 0) of the plane through all three, whose second
        axis is orthogonal and as long.
    dimensions: 1 or 2, of `random` and `eigenvectors`; two networks have a line, three a plane.
    span: the ends of all axes; None: -1 to 1, and -0.5 to 1.5 with other networks.
    points: on each axis.
    batch_norm: `eval`, running statistics, which lie on the line as the weights do; or `train`, the
        statistics of all the samples at once.
    progress: show a bar.
    arguments:
    options: options of the loss.

    Returns a dataset with the dimensions `first` and, of a plane, `second`, and `loss` and, where
    there are classes, `accuracy` on them; `network_first` and `network_second` are where the
    networks are. Raises `MeasureError` for what cannot be measured.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(1, 1, bias=False).double()
    >>> _ = torch.nn.init.ones_(network.weight)
    >>> x, y = torch.tensor([[1.0]]), torch.tensor([[1.0]])
    >>> line = flatlab.landscape(network, x, y, points=3)
    >>> line["loss"].values.tolist()  # half of 1, 0, 1
    [0.5, 0.0, 0.5]
    """
    networks = [] if isinstance(along, str) else list(along)
    axes = len(networks) if networks else dimensions
    _check(along, axes, points, batch_norm)
    low, high = span or ((-0.5, 1.5) if networks else (-1.0, 1.0))
    given = (inputs, targets, loss, arguments)
    with ExitStack() as stack:
        for each in (model, *networks):
            stack.enter_context(preserving_state(each, inputs))
        ready = _ready(model, *given)
        how, _ = separated(arguments)
        size = how.batch_size or BATCH
        if batch_norm == "train":
            size = len(ready.samples.inputs)
        stack.enter_context(only(ready.model, how.parameters))
        others = [_ready(other, *given).model for other in networks]
        if networks:
            directions, places = _between(ready.model, others)
        else:
            places = np.zeros((1, axes))
            if along == "random":
                generator = torch.Generator().manual_seed(how.seed)
                directions = [random_direction(ready.model, generator) for _ in range(axes)]
            else:
                directions = _eigenvectors(ready, axes, batch_norm, how.memory, progress)
        at = np.linspace(low, high, points)
        values = _on_grid(ready, size, directions, [at] * axes, batch_norm, progress)
    coordinates: dict[str, Any] = {axis: (axis, at, {"long_name": "share"}) for axis in AXES[:axes]}
    coordinates |= {
        f"network_{axis}": ("network", places[:, n]) for n, axis in enumerate(AXES[:axes])
    }
    about = {
        "title": f"{type(model).__name__} on {len(ready.samples.inputs)} samples",
        "along": along if isinstance(along, str) else "networks",
        "batch_norm": batch_norm,
        "directions": DIRECTIONS.get(str(along), f"from the network to {len(others)} others"),
        "flatlab_version": __version__,
    }
    variables = {name: (AXES[:axes], array, ABOUT[name]) for name, array in values.items()}
    return xr.Dataset(variables, coordinates, about)


@documented
def barriers(
    networks: Sequence[nn.Module],
    inputs: Any,
    targets: Any = None,
    *,
    points: int = 25,
    batch_norm: Literal["eval", "train"] = "eval",
    loss: str | Function = "half-mse",
    progress: bool = False,
    **arguments: Any,
) -> xr.Dataset:
    """The barriers on the lines between networks, pair by pair.

    networks: two or more with the same parameters; they are left as they were.
    points: on each line, ends included.
    inputs, targets, batch_norm, loss, progress: as for `landscape`.
    arguments:
    options: options of the loss.

    Returns a dataset with dimensions `network` and `other`. `barrier` is the largest excess of the
    loss over the line between the losses of both networks (Frankle et al., 2020; Entezari et al.,
    2022), or 0; `highest_at` is where on the line it is.
    """
    if len(networks) < 2:
        raise MeasureError(f"barriers are between networks, and there are {len(networks)}")
    if points < 3:
        raise MeasureError(f"points={points}: a line with a barrier has at least 3")
    count = len(networks)
    height, place = np.zeros((count, count)), np.full((count, count), np.nan)
    pairs = list(itertools.combinations(range(count), 2))
    how: dict[str, Any] = {"span": (0.0, 1.0), "points": points, "batch_norm": batch_norm}
    how |= {"loss": loss, "progress": progress, **arguments}
    for a, b in ticked(pairs, "barriers", progress):
        line = landscape(networks[a], inputs, targets, along=[networks[b]], **how)
        share, values = line["first"].values, line["loss"].values
        excess = values - ((1 - share) * values[0] + share * values[-1])
        top = int(excess.argmax())
        height[a, b] = height[b, a] = excess[top]
        if not np.isnan(excess[top]):
            place[a, b], place[b, a] = share[top], 1 - share[top]
    dims, names = ("network", "other"), as_strings([str(n) for n in range(count)])
    variables = {
        "barrier": (dims, height, {"long_name": "largest excess of the loss", "units": "loss"}),
        "highest_at": (dims, place, {"long_name": "where on the line", "units": "1"}),
    }
    coordinates = {"network": names, "other": names}
    return xr.Dataset(variables, coordinates, {"batch_norm": batch_norm, "points": points})


def _check(along: Any, axes: int, points: int, mode: str) -> None:
    if isinstance(along, str) and along not in DIRECTIONS:
        raise MeasureError(f"along={along!r} is neither random nor eigenvectors nor networks")
    if not isinstance(along, str) and not all(isinstance(each, nn.Module) for each in along):
        raise MeasureError("along is random, eigenvectors, or a list of other networks")
    if axes not in (1, 2):
        raise MeasureError(f"a landscape has 1 or 2 dimensions, not {axes}")
    if points < 2:
        raise MeasureError(f"points={points}: an axis has at least 2")
    if mode not in MODES:
        raise MeasureError(f"batch_norm={mode!r} is unknown; known: {', '.join(MODES)}")


def _ready(model: nn.Module, *given: Any) -> Ready:
    with in_mode(model, "eval"):
        check_mode(model)
    return ready_to_evaluate(model, *given)


def _eigenvectors(
    ready: Ready, axes: int, mode: str, memory: int | None, progress: bool
) -> list[State]:
    """Of the Hessian of the loss of these samples; signs are those of the largest entries."""
    options = {"largest": axes, "eigenvectors": True, "batch_norm": mode}
    settings = settings_of("spectrum", options, ready.loss, budget=memory, progress=progress)
    found = measure_family("spectrum", ready.model, ready.samples, settings)
    vectors = torch.from_numpy(found.values["largest_eigenvector"][0, 0])
    if not vectors.isfinite().all():
        raise MeasureError("the Hessian is not finite, so it has no eigenvectors")
    signs = vectors.gather(1, vectors.abs().argmax(1, keepdim=True)).sign()
    return [of_vector(ready.model, vector) for vector in vectors * signs]


def _between(model: nn.Module, others: Sequence[nn.Module]) -> tuple[list[State], np.ndarray]:
    """Directions, and where the networks are: (networks, axes)."""
    first, *rest = (between(model, other) for other in others)
    if not rest:
        return [first], np.array([[0.0], [1.0]])
    [other] = rest
    length = inner(first, first, model)
    if not length:
        raise MeasureError("the first two networks are the same, so they span no plane")
    share = inner(first, other, model) / length
    across = {name: other[name] - share * first[name] for name in other}
    height = (inner(across, across, model) / length) ** 0.5
    if height < 1e-6:
        raise MeasureError("the three networks lie on a line, so they span no plane")
    second = {name: tensor / height for name, tensor in across.items()}
    return [first, second], np.array([[0.0, 0.0], [1.0, 0.0], [share, height]])


def _on_grid(
    ready: Ready,
    size: int,
    directions: Sequence[State],
    axes: Sequence[np.ndarray],
    mode: str,
    progress: bool,
) -> dict[str, np.ndarray]:
    """Loss and accuracy at all points: (points) or (points, points).  size: samples at a time."""
    precision = next(p.dtype for p in ready.model.parameters() if p.is_floating_point())
    network = copy_in(ready.model, precision)
    origin = {name: tensor.clone() for name, tensor in state_of(network).items()}
    values: dict[str, list[float]] = {}
    grid, shape = list(itertools.product(*axes)), tuple(map(len, axes))
    batches = -(-len(ready.samples.inputs) // size)
    with ProgressBar("landscape", len(grid) * batches, progress) as forecast:
        for point in grid:
            move(network, origin, directions, point)
            with in_mode(network, mode):
                for name, value in evaluate(ready, size, network, forecast.tick).items():
                    values.setdefault(name, []).append(value)
    return {name: np.array(parts).reshape(shape) for name, parts in values.items()}


def state_of(model: nn.Module) -> State:
    """Parameters and buffers that are real numbers."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: t.detach() for name, t in state.items() if t.is_floating_point()}


def random_direction(model: nn.Module, generator: torch.Generator) -> State:
    """A normal one, normalized by filters, in the parameters that require gradients."""
    direction = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad and weight.is_floating_point():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
            if weight.ndim < 2:
                continue
            dims = tuple(range(1, weight.ndim))
            norms = drawn.square().sum(dims, keepdim=True).sqrt()
            filters = weight.detach().square().sum(dims, keepdim=True).sqrt()
            if not filters.isfinite().all() and weight.isfinite().all():
                raise MeasureError(
                    f"the squares of {name!r} overflow in {str(weight.dtype)[6:]}; "
                    "pass dtype='float64'"
                )
            direction[name] = drawn * filters / norms
    if not direction:
        raise MeasureError("the network has no weights with filters, so no random direction")
    return direction


def of_vector(model: nn.Module, vector: Tensor) -> State:
    """A vector of all trainable parameters as a direction."""
    theta = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts = vector.split([p.numel() for p in theta.values()])
    return {n: part.view_as(p).to(p) for (n, p), part in zip(theta.items(), parts, strict=True)}


def between(model: nn.Module, other: nn.Module) -> State:
    """From one network to another, buffers included.

    Raises `MeasureError` where their tensors differ in name or shape.
    """
    first, second = state_of(model), state_of(other)
    if {n: t.shape for n, t in first.items()} != {n: t.shape for n, t in second.items()}:
        raise MeasureError("the networks differ in the names or shapes of their parameters")
    return {name: second[name].to(tensor) - tensor for name, tensor in first.items()}


def inner(first: State, second: State, model: nn.Module) -> float:
    """The inner product of two directions in the parameters."""
    names = [name for name, _ in model.named_parameters() if name in first and name in second]
    return sum(float((first[name].double() * second[name].double()).sum()) for name in names)


@torch.no_grad()
def move(model: nn.Module, origin: State, directions: Sequence[State], point: Any) -> None:
    """Put a network at a point of a line or plane.  point: its coordinates along the directions."""
    for name, tensor in state_of(model).items():
        moved = origin[name].clone()
        for share, direction in zip(point, directions, strict=True):
            if name in direction:
                moved += share * direction[name]
        # beyond the networks a line leads to variances below 0
        tensor.copy_(moved.clamp(min=0) if name.endswith("running_var") else moved)
