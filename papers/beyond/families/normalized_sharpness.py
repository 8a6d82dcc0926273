"""Normalized sharpness of Tsuzuku et al. (2019), and what it bounds: chen2026 Def. F.3, Prop. F.4.

Of a linear layer z = W x + b that sees one vector x of each sample, with the diagonal of the
Hessian of the loss, h_ij = d^2 L / dW_ij^2 = mean (H^z)_ii x_j^2,

    S_normalized = min over s, s' > 0 of sum_ij (h_ij (s_i s'_j)^2 + W_ij^2 / (4 l^2 (s_i s'_j)^2)).

It does not change when rows or columns of W are rescaled and what is before and behind the layer
undoes that. The hyperparameter l enters as the factor 1/l alone and is 1 here. At the minimum,

    S_normalized >= 1/l root mean |(df/dx) diag(s')^-1|_F^2 |diag(s') x|^2,

in which df/dx is weighted by the loss's second derivative, 1 for the half-MSE. The paper says it of
one sample; of several it is the root of the mean square. With s = 1 this is normalized sensitivity.

In the logarithms of s and s' the sum is convex: it is minimized by rows and columns in turn, each
in closed form. A row or a column whose weights or second derivatives are all 0 adds nothing: its
terms vanish in the limit. With a negative second derivative there is no minimum.
"""

from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from flatlab.core.schema import Key, Strict, means
from flatlab.derivatives.second_order.layer_curvature import layer_curvatures
from flatlab.families._perturbed_losses import eligible_layers
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, chen2026

CHECKS = ("gradient", "hessian")
LAYER = ("layer",)
UNITS = "root of the loss"
QUANTITIES = {
    "normalized_sharpness": chen2026(
        "normalized sharpness of a layer, lambda = 1", UNITS, "Def. F.3", LAYER
    ),
    "normalized_sharpness_residual": Quantity(
        "largest relative difference of the two sums of a column, equal at the minimum",
        "1",
        "",
        LAYER,
    ),
    "normalized_sharpness_bounded": chen2026(
        "root mean square of |(df/dx) diag(s')^-1|_F |diag(s') x|, lambda = 1",
        UNITS,
        "Prop. F.4",
        LAYER,
    ),
    "total_normalized_sharpness": chen2026(
        "sum of normalized sharpness over the layers that have it",
        UNITS,
        "Def. F.3",
        label="normalized sharpness",
    ),
    "total_normalized_sharpness_bounded": chen2026(
        "sum over the same layers of what it bounds", UNITS, "Prop. F.4"
    ),
}
MOST = 20_000
"""Turns of rows and columns."""
EQUAL = 1e-6
"""The residual at which they end; the sum is then right to about its square."""


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Every layer that `geometry` has; NaN for one that is no linear layer of one position.

    Raises `MeasureError` where no layer is eligible, and without targets where they are needed.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 2.0]])})
    <All keys matched successfully>
    >>> x, y = torch.tensor([[3.0, 0.5]]), torch.tensor([[4.0]])
    >>> report = flatlab.measure(network, x, y, loss="half-mse", families="normalized-sharpness")
    >>> report["normalized_sharpness"].values.round(6).tolist()  # 1/l sum |W_j x_j|
    [4.0]
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    findings = settings.findings(model, samples.inputs)
    places, left_out = eligible_layers(model, samples.inputs, findings, "normalized sharpness")
    targets = None
    if any(y is not None for y in (samples.targets, samples.labels)):
        targets = samples.targets_for(findings.outputs, loss)
    modules: dict[str, Any] = {name: findings.modules[name] for _, name in places}
    parts: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {name: [] for name in modules}
    how: dict[str, Any] = {"size": settings.batch_size, "progress": settings.progress}
    how["twice"] = settings.difference_step is None
    for name, x, curved in layer_curvatures(
        model, samples.inputs, targets, loss, modules, findings, **how
    ):
        weight = modules[name].weight.detach().double()
        seen = torch.einsum("di,sde,ei->si", weight, curved, weight)
        rows = curved.diagonal(dim1=1, dim2=2).clone()
        parts[name].append((x.square(), rows, seen))
    share = loss.share(1, len(samples.inputs))
    values = {
        name: [torch.nan] * len(findings.layers) for name in QUANTITIES if "total" not in name
    }
    for place, name in places:
        squares, rows, seen = (torch.cat(each) for each in zip(*parts[name], strict=True))
        weight = modules[name].weight.detach().double()
        numbers = _of_layer(weight, squares, share * rows, share * seen)
        for quantity, number in zip(values, numbers, strict=True):
            values[quantity][place] = number
    chosen = [place for place, _ in places]
    totals = {
        f"total_{name}": sum(values[name][place] for place in chosen)
        for name in ("normalized_sharpness", "normalized_sharpness_bounded")
    }
    notes = {"normalized_sharpness_left_out": left_out}
    return Measured({**values, **totals}, {"layer": findings.layers}, notes)


def _of_layer(
    weight: Tensor, squares: Tensor, curved: Tensor, seen: Tensor
) -> tuple[float, float, float]:
    """The minimum, its residual and what it bounds.

    weight: (d, m).  squares: x_j^2, (samples, m).  curved: the share of (H^z)_ii, (samples, d).
    seen: that of (W^T H^z W)_jj, (samples, m).
    """
    second = curved.T @ squares
    if not (second.isfinite().all() and weight.isfinite().all()) or bool((second < 0).any()):
        return (torch.nan,) * 3
    value, residual, columns = minimum(second, weight.square() / 4)
    # (df/dx)_j / s'_j and s'_j x_j, where s'_j^2 = columns
    inverse = torch.where(columns > 0, columns, torch.inf).reciprocal()
    parts = (seen * inverse).sum(1) * (squares * columns).sum(1)
    return value, residual, float(parts.sum().sqrt())


def minimum(first: Tensor, second: Tensor) -> tuple[float, float, Tensor]:
    """min over a, b > 0 of sum_ij (first_ij a_i b_j + second_ij / (a_i b_j)), its residual, and b.

    first, second: (d, m), not negative.  b is 0 in columns that add nothing.
    """
    rows, columns = _alive(first, second)
    p, q = first[rows][:, columns], second[rows][:, columns]
    b = torch.zeros(first.shape[1], dtype=p.dtype, device=p.device)
    if not p.numel():
        return 0.0, 0.0, b
    turned, residual = torch.ones_like(p[0]), torch.inf
    for _ in range(MOST):
        a = ((q @ turned.reciprocal()) / (p @ turned)).sqrt()
        up, down = a @ p, a.reciprocal() @ q
        residual = float(
            ((up * turned - down / turned) / (up * turned + down / turned)).abs().max()
        )
        if residual < EQUAL:
            break
        turned = (down / up).sqrt()
    b[columns] = turned
    return float(2 * ((p @ turned) * (q @ turned.reciprocal())).sqrt().sum()), residual, b


def _alive(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and the columns in which neither matrix is 0 throughout: (d,), (m,)."""
    rows, columns = (
        torch.ones(size, dtype=torch.bool, device=first.device) for size in first.shape
    )
    while True:
        kept = first * columns, second * columns
        now = (kept[0] > 0).any(1) & (kept[1] > 0).any(1) & rows
        kept = first * now[:, None], second * now[:, None]
        then = (kept[0] > 0).any(0) & (kept[1] > 0).any(0) & columns
        if bool((now == rows).all()) and bool((then == columns).all()):
            return rows, columns
        rows, columns = now, then
