"""Sharpness, compression and the bounds between them: chen2026, with relative flatness.

Notation: f maps inputs x (M numbers) to N outputs; W_l, l = 1 ... L, are the weights of the linear
layers including the last; x^l is the input of layer l (x^1 = x) and z^l its output;
J^l = df/dx^l (N x M_l), J = J^1; Gamma^l = df/dz^l (N x d_l), so that J^l = Gamma^l W_l.
||.||_2 is the largest singular value, ||.||_F the Frobenius norm, means are over the samples.

The computation is one forward pass and N backward passes to the outputs of the layers: gradients
with respect to unshared weights are products, ||df/dW_l||_F = ||Gamma^l||_F ||x^l||.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.metrics import MeasureError, Quantity, linear_layers
from flatlab.splits import Splits

SETTINGS = ["samples", "singular_values", "relative_flatness_loss"]
LAYER = ("samples", "layer")
QUANTITIES = {
    "sharpness": Quantity(
        "sharpness S, mean ||df/dtheta||_F^2", "output^2/parameter^2", "chen2026 Eq. 3"
    ),
    "root_sharpness": Quantity("sqrt(S)", "output/parameter", "chen2026 Eq. 3"),
    "sharpness_per_layer": Quantity(
        "sharpness of a layer's weights S(W_l), mean ||df/dW_l||_F^2",
        "output^2/parameter^2",
        "chen2026 Eq. 43",
        LAYER,
    ),
    "bias_sharpness_per_layer": Quantity(
        "sharpness of a layer's biases S(b_l), mean ||df/db_l||_F^2",
        "output^2/parameter^2",
        "part of chen2026 Eq. 3",
        LAYER,
    ),
    "mls": Quantity(
        "maximum local sensitivity MLS, mean ||J||_2", "output/input", "chen2026 Def. 3.7"
    ),
    "mls_per_layer": Quantity(
        "maximum local sensitivity to a layer's input, mean ||J^l||_2",
        "output/layer input",
        "chen2026 Def. 3.9",
        LAYER,
    ),
    "nmls": Quantity(
        "network MLS, sum over the layers of mean ||J^l||_2", "mixed", "chen2026 Def. 3.9"
    ),
    "log_volume": Quantity(
        "log volumetric ratio, mean of the sum of ln sigma_k(J)", "ln", "chen2026 Eq. 7"
    ),
    "local_dimension": Quantity(
        "local dimensionality, mean participation ratio of J J^T", "1", "chen2026 Def. 3.11"
    ),
    "bound_a": Quantity("A = MLS", "output/input", "chen2026 Eq. 59"),
    "bound_b": Quantity(
        "B = ||W_1||_2 mean(||df/dW_1||_F / ||x||)", "output/input", "chen2026 Eq. 59"
    ),
    "bound_c": Quantity(
        "C = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S(W_1))", "output/input", "chen2026 Eq. 59"
    ),
    "bound_d": Quantity(
        "D = ||W_1||_2 sqrt(mean ||x||^-2) sqrt(S), the MLS bound",
        "output/input",
        "chen2026 Prop. 3.8",
    ),
    "nmls_bound": Quantity(
        "NMLS bound, sqrt(mean sum ||W_l||_2^2/||x^l||^2) sqrt(S)", "mixed", "chen2026 Prop. 3.10"
    ),
    "nmls_bound_layerwise": Quantity(
        "sum over the layers of C_l, a tighter NMLS bound",
        "mixed",
        "chen2026 Prop. 3.10, tightened",
    ),
    "nmls_bound_with_bias": Quantity(
        "NMLS bound with (x, 1) for the x of layers that have a bias, and then always finite",
        "mixed",
        "chen2026 Prop. 3.10, tightened",
    ),
    "layer_bound": Quantity(
        "C_l = ||W_l||_2 sqrt(mean ||x^l||^-2) sqrt(S(W_l))", "mixed", "chen2026 Eq. 59", LAYER
    ),
    "weight_norm": Quantity("spectral norm of a layer's weights", "1", "chen2026 Eq. 59", LAYER),
    "reciprocal_input_norm": Quantity(
        "root mean square of the reciprocal norm of a layer's input",
        "1/layer input",
        "chen2026 Eq. 11",
        LAYER,
    ),
    "relative_flatness": Quantity(
        "relative flatness kappa_Tr of a layer; large means sharp",
        "output^2",
        "petzka2021 Def. 3",
        LAYER,
    ),
    "samples_measured": Quantity("samples in the means", "1", ""),
    "samples_rank_deficient": Quantity(
        "samples left out of log_volume: J has a singular value of zero", "1", ""
    ),
    "samples_zero_jacobian": Quantity("samples left out of local_dimension: J = 0", "1", ""),
    "samples_zero_input": Quantity(
        "samples whose input to the layer is zero, which makes the bounds infinite", "1", "", LAYER
    ),
}
"""Relative flatness is exact for the last layer, and for every layer where the activations are
piecewise linear; elsewhere it is its Gauss-Newton part, as sharpness is of the Hessian's trace."""


def measure(model: nn.Module, splits: Splits, settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """All quantities on each sample set of the grid.

    settings: the `measure` section of a grid.
    """
    sets = []
    for chosen in settings["samples"].values():
        split = splits.train if chosen["split"] == "train" else splits.test
        subset = split.subset(chosen["size"], chosen["seed"])
        sets.append(geometry(model, subset.inputs, settings))
    return {name: torch.stack([values[name] for values in sets]).cpu() for name in QUANTITIES}


def geometry(model: nn.Module, inputs: Tensor, settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """All quantities on one sample set; scalars, or (layers,) where they are per layer."""
    pieces = layer_pieces(model, inputs)
    count = float(len(inputs))
    # (layers, samples) each
    gamma2 = torch.stack([piece.gamma.square().sum((1, 2)) for piece in pieces])
    x2 = torch.stack([piece.x.square().sum(1) for piece in pieces])
    singular = [singular_values(piece.jacobian) for piece in pieces]
    norms = torch.stack([singular_values(piece.weight[None])[0, 0] for piece in pieces])
    has_bias = torch.tensor([piece.has_bias for piece in pieces]).to(inputs)

    weights = (gamma2 * x2).mean(1)
    biases = gamma2.mean(1) * has_bias
    sharpness = (weights + biases).sum()
    sensitivity = torch.stack([s[:, 0] for s in singular]).mean(1)
    reciprocal = x2.reciprocal().mean(1).sqrt()
    layer_bound = norms * reciprocal * weights.sqrt()
    layer_bound = layer_bound.masked_fill((x2 == 0).any(1), torch.inf)  # not 0 x inf
    summed = (norms[:, None] ** 2 / x2).sum(0).mean().sqrt()
    summed_with_bias = (norms[:, None] ** 2 / (x2 + has_bias[:, None])).sum(0).mean().sqrt()
    jacobian2 = torch.stack([s.square().sum(1) for s in singular])
    outputs = pieces[0].gamma.shape[1]
    log_volume, deficient = mean_log_volume(singular[0], outputs, settings["singular_values"])
    dimension, zero = mean_dimension(singular[0])
    factor = 1.0 if settings["relative_flatness_loss"] == "half-mse" else 2.0 / outputs
    return {
        "sharpness": sharpness,
        "root_sharpness": sharpness.sqrt(),
        "sharpness_per_layer": weights,
        "bias_sharpness_per_layer": biases,
        "mls": sensitivity[0],
        "mls_per_layer": sensitivity,
        "nmls": sensitivity.sum(),
        "log_volume": log_volume,
        "local_dimension": dimension,
        "bound_a": sensitivity[0],
        "bound_b": norms[0] * gamma2[0].sqrt().mean(),  # ||df/dW|| / ||x|| = ||Gamma||
        "bound_c": layer_bound[0],
        "bound_d": norms[0] * reciprocal[0] * sharpness.sqrt(),
        "nmls_bound": summed * sharpness.sqrt(),
        "nmls_bound_layerwise": layer_bound.sum(),
        "nmls_bound_with_bias": summed_with_bias * sharpness.sqrt(),
        "layer_bound": layer_bound,
        "weight_norm": norms,
        "reciprocal_input_norm": reciprocal,
        "relative_flatness": factor * (x2 * jacobian2).mean(1),
        "samples_measured": torch.tensor(count),
        "samples_rank_deficient": deficient,
        "samples_zero_jacobian": zero,
        "samples_zero_input": (x2 == 0).sum(1),
    }


@dataclass(frozen=True)
class LayerPieces:
    """x: (samples, M_l).  gamma: (samples, N, d_l).  weight: (d_l, M_l)."""

    x: Tensor
    gamma: Tensor
    weight: Tensor
    has_bias: bool

    @property
    def jacobian(self) -> Tensor:
        """df/dx^l through this layer: (samples, N, M_l)."""
        return self.gamma @ self.weight


def layer_pieces(model: nn.Module, inputs: Tensor) -> list[LayerPieces]:
    """Inputs of the linear layers and the derivatives of all outputs with respect to theirs.

    inputs: (samples, ...). One forward pass, one backward pass per output.
    """
    layers = linear_layers(model)
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    handles = [layer.register_forward_hook(_keep(seen, name)) for name, layer in layers.items()]
    try:
        outputs = model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    if idle := [name for name in layers if name not in seen]:
        raise MeasureError(f"layer {idle[0]!r} is not used by the network; remove it")
    z = [seen[name][1] for name in layers]
    rows = [
        torch.autograd.grad(outputs[:, k].sum(), z, retain_graph=True)
        for k in range(outputs.shape[1])
    ]
    return [
        LayerPieces(
            x=seen[name][0].detach().flatten(1),
            gamma=torch.stack([row[number] for row in rows], dim=1),
            weight=layer.weight.detach(),
            has_bias=layer.bias is not None,
        )
        for number, (name, layer) in enumerate(layers.items())
    ]


def _keep(seen: dict[str, tuple[Tensor, Tensor]], name: str) -> Any:
    def hook(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        if name in seen:
            raise MeasureError(f"layer {name!r} is used twice; shared weights are not measured")
        if output.ndim != 2:
            raise MeasureError(f"layer {name!r} sees sequences; shared weights are not measured")
        seen[name] = inputs[0], output
        return output.clone()  # an activation in place would overwrite what is differentiated

    return hook


def singular_values(matrices: Tensor) -> Tensor:
    """Of each matrix, descending; NaN where it is not finite, which LAPACK would refuse."""
    finite = matrices.isfinite().flatten(1).all(1)
    values = torch.linalg.svdvals(torch.where(finite[:, None, None], matrices, 0.0))
    return torch.where(finite[:, None], values, torch.nan)


def mean_log_volume(singular: Tensor, outputs: int, largest: str | int) -> tuple[Tensor, Tensor]:
    """Mean over samples of the sum of ln sigma_k, and the number of samples left out.

    singular: (samples, min(N, M)), descending.  outputs: N.  largest: how many, or "all" N.
    Left out are the samples with rank below N (sigma_N <= 10 eps sigma_1), whose volume is zero,
    and all samples where N > M; without a sample the mean is NaN.
    """
    all_n = nn.functional.pad(singular, (0, outputs - singular.shape[1]))
    chosen = all_n if largest == "all" else all_n[:, : int(largest)]
    full = ~(chosen[:, -1] <= 10 * torch.finfo(singular.dtype).eps * singular[:, 0])  # or NaN
    return chosen[full].log().sum(1).mean(), (~full).sum()


def mean_dimension(singular: Tensor) -> tuple[Tensor, Tensor]:
    """Mean participation ratio (sum sigma^2)^2 / sum sigma^4, and the number left out (J = 0)."""
    eigenvalues = singular.square()
    defined = singular[:, 0] != 0
    chosen = eigenvalues[defined]
    ratio = chosen.sum(1).square() / chosen.square().sum(1)
    return ratio.mean(), (~defined).sum()
