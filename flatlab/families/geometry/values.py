"""The quantities of `geometry`, computed by subject from the derivatives of a network."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatlab.derivatives.jacobians.norms import (
    Norms,
    authors_norm,
    known,
    operator_norm,
    spectral_norm,
)
from flatlab.derivatives.per_sample.convolution import CONVOLUTIONS
from flatlab.derivatives.per_sample.forward_pass import EVERYTHING, Wanted
from flatlab.derivatives.per_sample.values import Derivatives, Layer
from flatlab.losses._base import Loss

NORMS = ("kernel", "operator", "frobenius")
BOUNDS = ("b", "c", "d", "nmls", "nmls-layerwise")


OF_PARAMETERS = {
    *(
        "sharpness_per_token",
        "sharpness",
        "root_sharpness",
        "sharpness_per_sample",
        "elementwise_adaptive_trace",
    )
}
OF_JACOBIAN = {
    *("jacobian_frobenius", "g", "mls", "mls_per_sample", "normalized_mls", "input_invariant_mls"),
    *("log_volume", "log_volume_per_sample", "log_volume_of_three", "log_mean_volume"),
    *("local_dimension", "local_dimension_per_sample"),
    *("samples_rank_deficient", "samples_zero_jacobian"),
}


def wanted_of(quantities: str | Sequence[str]) -> Wanted:
    """What the quantities that are asked for need; "all" need everything."""
    asked = set() if quantities == "all" else set(quantities)
    if quantities == "all" or asked - OF_PARAMETERS - OF_JACOBIAN:
        return EVERYTHING
    return Wanted(bool(asked & OF_PARAMETERS), bool(asked & OF_JACOBIAN), layers=False)


class Values:
    """All quantities by name. Tensors are (samples, layers), in float64, unless said otherwise."""

    def __init__(
        self,
        exact: Derivatives,
        options: Any,
        loss: Loss,
        norms: Norms,
        ranks: Tensor | None = None,
    ) -> None:
        """options: of the family.  loss: whose Hessian relative flatness uses.  norms: known.

        ranks: outputs of each sample that count, (samples,); None: all.
        """
        self.known, self.ranks = norms, ranks
        self.exact, self.layers, self.costly, self.loss = exact, exact.layers, options.costly, loss
        self.largest = options.singular_values
        self.wanted = wanted_of(options.quantities)
        self.sharpness = exact.sharpness.double().mean()
        if self.layers:
            self._of_all_layers()

    def _of_all_layers(self) -> None:
        """What the quantities of layers share."""
        self.x2, self.gamma2, self.weight2, self.bias2, self.smallest2 = (
            torch.stack([getattr(layer, name).double() for layer in self.layers], dim=1)
            for name in ("x2", "gamma2", "weight2", "bias2", "smallest2")
        )
        self.singular = torch.stack([layer.singular for layer in self.layers], dim=1)
        """(samples, layers, N)"""
        self.shared = self._of_layers([layer.shared for layer in self.layers])
        self.norms = self._norms()
        self.norm = self.norms[0]
        self.reciprocal = self.x2.reciprocal().mean(0).sqrt()
        self.weights = self.weight2.mean(0)

    def by_name(self) -> dict[str, Tensor]:
        """Those of the network, and those of layers if it has layers that could be measured."""
        subjects = [self.counts()]
        if self.wanted.parameters:
            subjects.append(self.sharpnesses())
        if self.wanted.jacobian:
            subjects += [self.network(), self.volumes()]
        if self.layers and self.wanted.layers:
            subjects += [
                self.flatness(),
                self.sensitivities(),
                self.layer_volumes(),
                self.bounds(),
                self.checks(),
            ]
        return {name: value.double() for subject in subjects for name, value in subject.items()}

    def counts(self) -> dict[str, Tensor]:
        """What was measured."""
        return {
            "samples_measured": torch.tensor(len(self.exact.outputs)),
            "layers_left_out": torch.tensor(len(self.exact.findings.excluded)),
        }

    def sharpnesses(self) -> dict[str, Tensor]:
        """Of all parameters."""
        values = {
            "sharpness": self.sharpness,
            "root_sharpness": self.sharpness.sqrt(),
            "sharpness_per_sample": self.exact.sharpness,
        }
        if self.exact.adaptive is not None:
            values["elementwise_adaptive_trace"] = self.exact.adaptive.double().mean()
        return values

    def network(self) -> dict[str, Tensor]:
        """Norms of the Jacobian of the whole network."""
        exact = self.exact
        frobenius = torch.linalg.vector_norm(exact.singular, dim=1)
        largest = exact.singular[:, 0]
        return {
            "jacobian_frobenius": frobenius,
            "g": frobenius.square().mean(),
            "mls": largest.mean(),
            "mls_per_sample": largest,
            "normalized_mls": (exact.x2.double() * largest.square()).mean(),
            "input_invariant_mls": exact.scaled2.mean(),
        }

    def volumes(self) -> dict[str, Tensor]:
        """Volumes and dimensions of the whole network."""
        singular = self.exact.singular
        eps = torch.finfo(self.exact.outputs.dtype).eps
        of_all, full = log_volumes(singular, "all", eps, self.ranks)
        volume = of_all
        if self.largest != "all":
            volume, full = log_volumes(singular, self.largest, eps, self.ranks)
        of_three, full_of_three = log_volumes(singular, 3, eps, self.ranks)
        dimension = participation(singular)
        return {
            "log_volume": volume[full].mean(),
            "log_volume_per_sample": volume,
            "log_volume_of_three": of_three[full_of_three].mean(),
            "log_mean_volume": log_mean(of_all),
            "local_dimension": dimension[~dimension.isnan()].mean(),
            "local_dimension_per_sample": dimension,
            "samples_rank_deficient": (~full).sum(),
            "samples_zero_jacobian": (singular[:, 0] == 0).sum(),
        }

    def flatness(self) -> dict[str, Tensor]:
        """Parts of sharpness, and variants of it that include the size of the weights."""
        return {
            "sharpness_per_layer": self.weights,
            "bias_sharpness_per_layer": self.bias2.mean(0),
            "matrix_normalized_sharpness": (self.norm * self.weights.sqrt()).sum(),
            "relative_flatness": self._relative_flatness().masked_fill(self.shared, torch.nan),
        }

    def sensitivities(self) -> dict[str, Tensor]:
        """Norms of the Jacobians of layers."""
        per_layer = self.singular[..., 0].mean(0)
        rows = self._of_layers([float(len(layer.weight)) for layer in self.layers])
        scaled2 = torch.stack([layer.scaled2 for layer in self.layers]).mean(1) / rows
        return {
            "sensitivity": self.singular[..., 0],
            "mls_per_layer": per_layer,
            "nmls": per_layer.sum(),
            "weighted_mls": (per_layer / self.reciprocal).sum(),
            "network_input_invariant_mls": sum(scaled2, start=torch.zeros_like(scaled2[0])),
        }

    def layer_volumes(self) -> dict[str, Tensor]:
        """Volumes of the maps from the inputs of layers, and bounds of volumes."""
        samples, outputs = self.exact.outputs.shape
        eps = torch.finfo(self.exact.outputs.dtype).eps
        of_layers, _ = log_volumes(self.singular, "all", eps)
        logs = outputs * (2 * self.norm.log() - self.x2.log())  # of (||W_l|| / ||x^l||)^2N
        scale = outputs / 2 * (samples * self.sharpness / outputs).log() - math.log(samples)
        return {
            "network_log_volume": torch.logsumexp(log_mean(of_layers.T.contiguous()), 0),
            "log_volume_bound": _plus(torch.logsumexp(logs[:, 0], 0) / 2, scale),
            "network_log_volume_bound": _plus(torch.logsumexp(logs.flatten(), 0) / 2, scale),
        }

    def bounds(self) -> dict[str, Tensor]:
        """Bounds of sensitivities by sharpness."""
        by_norm, by_layer = self._bounds()
        of_kernel = dict(zip(BOUNDS, by_norm[0], strict=True))
        has_bias = self._of_layers([layer.module.bias is not None for layer in self.layers])
        values = {
            "bound_a": self.singular[:, 0, 0].mean(),
            "bound_b": of_kernel["b"],
            "bound_c": of_kernel["c"],
            "bound_d": of_kernel["d"],
            "nmls_bound": of_kernel["nmls"],
            "nmls_bound_layerwise": of_kernel["nmls-layerwise"],
            "nmls_bound_with_bias": self._nmls(self.norm, has_bias.to(self.x2)),
            "layer_bound": by_layer[0],
            "bound_by_norm": by_norm,
        }
        if "corrected-bound" in self.costly:
            norms = [*map(self._operator_norm, self.layers)]
            ratio = (self.weight2 / self.smallest2).sqrt().mean(0)
            values["corrected_bound"] = (self._of_layers(norms) * ratio).masked_fill(
                (self.smallest2 == 0).any(0), torch.nan
            )
        return values

    def checks(self) -> dict[str, Tensor]:
        """Whether the premises of the bounds hold."""
        slope = self.singular[..., 0] * self.x2.sqrt()
        root = self.weight2.sqrt()
        tolerance = 1 + (1e-6 if self.exact.outputs.dtype == torch.float64 else 1e-4)
        violations = (slope > self.norms[:, None] * root * tolerance).double().sum(1)
        return {
            "violations": violations.masked_fill(self.norms.isnan(), torch.nan),
            "weight_norm": self.norm,
            "reciprocal_input_norm": self.reciprocal,
            "stability_trick_ratio": (self.weight2 / (self.gamma2 * self.x2)).sqrt(),
            "linear_stability_ratio": slope / (self.norm * root),
            "shared": self.shared,
            "samples_zero_input": (self.x2 == 0).sum(0),
        }

    def _of_layers(self, values: list[Any]) -> Tensor:
        """(..., layers), in float64 unless they are flags."""
        array = np.array(values)
        return torch.from_numpy(array).to(self.x2.device)

    def _norms(self) -> Tensor:
        """(`NORMS`, layers); the operator norm of convolutions is NaN unless it is asked for."""
        kernel = [*map(self._kernel_norm, self.layers)]
        operator = list(kernel)
        for number, layer in enumerate(self.layers):
            if isinstance(layer.module, CONVOLUTIONS):
                wanted = "operator-norm" in self.costly
                operator[number] = self._operator_norm(layer) if wanted else math.nan
        authors = [authors_norm(layer.module, layer.output_positions) for layer in self.layers]
        return self._of_layers([kernel, operator, authors])

    def _kernel_norm(self, layer: Layer) -> float:
        return known(self.known, layer.name, lambda: spectral_norm(layer.weight))

    def _operator_norm(self, layer: Layer) -> float:
        if not isinstance(layer.module, CONVOLUTIONS):
            return self._kernel_norm(layer)
        key = layer.name, layer.input_shape
        return known(self.known, key, lambda: operator_norm(layer.module, layer.input_shape))

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """(`NORMS`, `BOUNDS`), and C of every layer, (`NORMS`, layers)."""
        # ||df/dW|| / ||x|| = ||Gamma|| where weights are not shared, which is finite at x = 0.
        zero = self.x2[:, 0] == 0
        ratio = (self.weight2[:, 0] / self.x2[:, 0]).masked_fill(zero, torch.inf)
        slope = (ratio if self.shared[0] else self.gamma2[:, 0]).sqrt()
        c = self.norms * self.reciprocal * self.weights.sqrt()
        c = c.masked_fill((self.x2 == 0).any(0), torch.inf)  # not 0 x inf
        first = self.norms[:, 0]
        b, d = first * slope.mean(), _times(first * self.reciprocal[0], self.sharpness.sqrt())
        return torch.stack([b, c[:, 0], d, self._nmls(self.norms, 0.0), c.sum(1)], 1), c

    def _nmls(self, norms: Tensor, added: float | Tensor) -> Tensor:
        """The NMLS bound by norms (..., layers), with a number added to ||x^l||^2."""
        factor = (norms[..., None, :].square() / (self.x2 + added)).sum(-1).mean(-1).sqrt()
        return _times(factor, self.sharpness.sqrt())

    def _relative_flatness(self) -> Tensor:
        """||x^l||^2 Tr(J^l^T A J^l), A the Hessian of a sample's loss in its outputs: (layers,)."""
        traces = torch.stack([layer.hessian_trace for layer in self.layers], dim=1)
        return self.loss.of_batch((self.x2 * traces).T)


def _times(factor: Tensor, root: Tensor) -> Tensor:
    """The product; infinite if a sample has an input of zero, even if sharpness is zero."""
    return torch.where(factor == torch.inf, torch.inf, factor * root)


def _plus(log_factor: Tensor, log_root: Tensor) -> Tensor:
    """The same for logarithms."""
    return torch.where(log_factor == torch.inf, torch.inf, log_factor + log_root)


def log_volumes(
    singular: Tensor, largest: str | int, eps: float, ranks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sum of ln sigma_k of each sample, and whether its Jacobian has full rank.

    singular: (samples, ..., N), descending.  largest: how many, or "all" N.  ranks: of each sample
    in place of N, (samples,), beyond which they are 0; None: there are N. Without full rank
    (sigma_k <= 10 eps sigma_1) the volume is zero and its logarithm minus infinity.
    """
    chosen = singular if largest == "all" else singular[..., : int(largest)]
    if ranks is not None:
        count = ranks.clamp(max=chosen.shape[1])
        full = ~(chosen.gather(1, count[:, None] - 1)[:, 0] <= 10 * eps * singular[:, 0])
        counted = torch.arange(chosen.shape[1], device=chosen.device) < count[:, None]
        logs = torch.where(counted, chosen, 1).log().sum(1)
        return torch.where(full, logs, -torch.inf), full
    full = ~(chosen[..., -1] <= 10 * eps * singular[..., 0])  # or NaN
    return torch.where(full, chosen.log().sum(-1), -torch.inf), full


def participation(singular: Tensor) -> Tensor:
    """(sum sigma^2)^2 / sum sigma^4 of each sample; NaN if J = 0."""
    share = (singular / singular[:, :1]).square()
    return share.sum(1).square() / share.square().sum(1)


def log_mean(logs: Tensor) -> Tensor:
    """ln of the mean over the last dimension of exp(logs)."""
    return torch.logsumexp(logs, -1) - math.log(logs.shape[-1])
