"""Feature robustness of linear layers, and relative flatness, which it is to leading order.

A layer z = w phi + b of d rows sees one vector phi in R^m of each sample. For a feature matrix A
and labels that do not change with the features, the loss changes by

    E_F(A) = E_emp(w + w A) - E_emp(w)    petzka2021 Eq. 4, 7, Def. 1

when phi becomes (1 + A) phi, and in the layer alone: what is behind it follows. On average over
A = delta O with O orthogonal (Haar), E_F is delta^2/(2m) kappa_Tr to leading order (Thm. 5). The
average is over O and -O: that removes the odd orders, and with them the first, which vanishes only
at a minimum in w. The remainder is the difference of the two, of order delta^4.
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.progress import ticked
from flatlab.core.schema import Key, Strict, means
from flatlab.families import flatness
from flatlab.families._perturbed_losses import PerturbedLosses, deltas_of, eligible_layers
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

ESTIMATES = True
CHECKS = ("gradient", "hessian")
DIMS = ("layer", "delta_index")
UNITS = "loss"
QUANTITIES = {
    "feature_robustness": Quantity(
        "mean loss at w + w A minus that at w, over A = delta O and -delta O, O orthogonal",
        UNITS,
        "petzka2021 Def. 1, Eq. 4",
        DIMS,
        label="feature robustness",
    ),
    "feature_robustness_error": Quantity(
        "standard error of feature_robustness over the matrices O", UNITS, "", DIMS
    ),
    "feature_robustness_leading": Quantity(
        "delta^2/(2m) kappa_Tr, feature robustness to leading order",
        UNITS,
        "petzka2021 Thm. 5",
        DIMS,
    ),
    "feature_robustness_remainder": Quantity(
        "feature_robustness - feature_robustness_leading", UNITS, "", DIMS
    ),
    "feature_robustness_delta": Quantity("delta", "1", "petzka2021 Def. 1", DIMS),
}


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    robustness_deltas: Annotated[
        tuple[Literal["paper"] | Annotated[float, Meta(gt=0)], ...],
        means("delta; paper: n^(-1/(4+m)) of n samples and m features, as in its App. D.4"),
    ] = ("paper", 0.01, 0.03, 0.1, 0.3)
    robustness_draws: Annotated[int, means("orthogonal matrices, each with both signs", ge=2)] = 30
    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Every layer that `geometry` has; NaN for one that is no linear layer of one position.

    Raises `MeasureError` without targets, and where no layer is eligible.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> how = {"robustness_deltas": [0.1], "robustness_draws": 100}
    >>> report = flatlab.measure(network, x, classes, families="feature-robustness", **how)
    >>> report["feature_robustness_leading"].values.round(5).tolist()  # kappa_Tr is 102.5
    [[0.25625]]
    >>> abs(report["feature_robustness_remainder"].item()) < 0.05  # of a quadratic loss: none
    True
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    findings = settings.findings(model, samples.inputs)
    places, left_out = eligible_layers(model, samples.inputs, findings, "feature robustness")
    targets = samples.targets_for(findings.outputs, loss).double()
    how = flatness.Options(relative_flatness_loss=options.relative_flatness_loss)
    exact = flatness.measure(model, samples, replace(settings, options=how))
    size = settings.batch_size or len(targets)
    losses = PerturbedLosses(model, samples.inputs, targets, loss, size)
    shape = len(findings.layers), len(options.robustness_deltas)
    values = {name: np.full(shape, np.nan) for name in QUANTITIES}
    draws = range(options.robustness_draws)
    seeds = [(settings.seed, place, draw) for place, _ in places for draw in draws]
    by_layer = groupby(ticked(seeds, "feature robustness", settings.progress), itemgetter(1))
    for (place, name), (_, of_layer) in zip(places, by_layer, strict=True):
        layer: Any = findings.modules[name]
        deltas = deltas_of(options.robustness_deltas, len(targets), layer.in_features)
        drawn = np.stack([_changes(losses, layer, deltas, seed) for seed in of_layer])
        found, error = drawn.mean(0), drawn.std(0, ddof=1) / len(drawn) ** 0.5
        leading = deltas**2 / (2 * layer.in_features) * exact.values["kappa_trace"][place]
        for column, row in enumerate((found, error, leading, found - leading, deltas)):
            values[[*QUANTITIES][column]][place] = row
    indices = [str(index) for index in range(shape[1])]
    notes = {"robustness_left_out": left_out}
    if not findings.finite:
        values = {name: np.full(shape, np.nan) for name in values}
    return Measured(values, {"layer": findings.layers, "delta_index": indices}, notes)


@torch.no_grad()
def _changes(
    losses: PerturbedLosses, layer: nn.Linear, deltas: np.ndarray, seed: tuple[int, int, int]
) -> np.ndarray:
    """E_F averaged over delta O and -delta O, for one orthogonal O: (deltas,)."""
    turned = _turned(layer.weight.detach(), seed)

    def at(factor: float) -> float:
        values = losses.changed(layer, lambda phi, _: factor * (phi @ turned.T))
        return float(losses.loss.of_batch(values))

    moved = [at(sign * delta) for delta in deltas for sign in (1, -1)]
    return np.array(moved).reshape(-1, 2).mean(1) - at(0.0)


def _turned(weight: Tensor, seed: tuple[int, int, int]) -> Tensor:
    """w O for a random orthogonal O (Haar): (d, m).

    With w = R^T Q^T, Q (m x r) with orthonormal columns, Q^T O has r random orthonormal rows: no
    more of O is drawn than the layer can see.
    """
    triangle = torch.linalg.qr(weight.double().T, mode="r").R
    normal = np.random.default_rng(seed).standard_normal((weight.shape[1], len(triangle)))
    frame, signs = torch.linalg.qr(torch.from_numpy(normal).to(weight.device))
    frame = frame * signs.diagonal().sign()  # without it, a factor is not uniform
    return (triangle.T @ frame.T).to(weight)
