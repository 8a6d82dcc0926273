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
from flatlab.derivatives.per_sample.stack import networks_of
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
    """All quantities of several networks by name, each with a first dimension of networks.

    Tensors are (networks, samples, layers), in float64, unless said otherwise.
    """

    def __init__(
        self,
        exact: Derivatives,
        options: Any,
        loss: Loss,
        norms: Sequence[Norms],
        ranks: Tensor | None = None,
    ) -> None:
        """exact: of all samples of the first network, then of those of the next one, and so on.

        options: of the family.  loss: whose Hessian relative flatness uses.
        norms: those known of each network.
        ranks: outputs of each sample that count, (samples of all networks,); None: all.
        """
        self.known, self.ranks = norms, ranks
        self.exact, self.layers, self.costly, self.loss = exact, exact.layers, options.costly, loss
        self.largest = options.singular_values
        self.wanted = wanted_of(options.quantities)
        self.sharpness = self._apart(exact.sharpness.double()).mean(1)
        """(networks,)"""
        if self.layers:
            self._of_all_layers()

    def _of_all_layers(self) -> None:
        """What the quantities of layers share."""
        self.x2, self.gamma2, self.weight2, self.bias2, self.smallest2 = (
            self._apart(
                torch.stack([getattr(layer, name).double() for layer in self.layers], dim=1)
            )
            for name in ("x2", "gamma2", "weight2", "bias2", "smallest2")
        )
        self.singular = self._apart(torch.stack([layer.singular for layer in self.layers], dim=1))
        """(networks, samples, layers, N)"""
        self.shared = self._of_layers([layer.shared for layer in self.layers])
        self.norms = self._norms()
        self.norm = self.norms[:, 0]
        self.reciprocal = self.x2.reciprocal().mean(1).sqrt()
        self.weights = self.weight2.mean(1)

    def _apart(self, values: Tensor) -> Tensor:
        """(samples of all networks, ...) -> (networks, samples, ...)."""
        return values.unflatten(0, (len(self.known), -1))

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
            name: torch.full((len(self.known),), float(count))
            for name, count in (
                ("samples_measured", len(self.exact.outputs) // len(self.known)),
                ("layers_left_out", len(self.exact.findings.excluded)),
            )
        }

    def sharpnesses(self) -> dict[str, Tensor]:
        """Of all parameters."""
        values = {
            "sharpness": self.sharpness,
            "root_sharpness": self.sharpness.sqrt(),
            "sharpness_per_sample": self._apart(self.exact.sharpness),
        }
        if self.exact.adaptive is not None:
            values["elementwise_adaptive_trace"] = self._apart(self.exact.adaptive.double()).mean(1)
        return values

    def network(self) -> dict[str, Tensor]:
        """Norms of the Jacobian of the whole network."""
        exact = self.exact
        frobenius = self._apart(torch.linalg.vector_norm(exact.singular, dim=1))
        largest = self._apart(exact.singular[:, 0])
        x2 = self._apart(exact.x2.double())
        return {
            "jacobian_frobenius": frobenius,
            "g": frobenius.square().mean(1),
            "mls": largest.mean(1),
            "mls_per_sample": largest,
            "normalized_mls": (x2 * largest.square()).mean(1),
            "input_invariant_mls": self._apart(exact.scaled2).mean(1),
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
            "log_volume": self._mean(volume, full),
            "log_volume_per_sample": self._apart(volume),
            "log_volume_of_three": self._mean(of_three, full_of_three),
            "log_mean_volume": log_mean(self._apart(of_all)),
            "local_dimension": self._mean(dimension, ~dimension.isnan()),
            "local_dimension_per_sample": self._apart(dimension),
            "samples_rank_deficient": self._apart(~full).sum(1),
            "samples_zero_jacobian": self._apart(singular[:, 0] == 0).sum(1),
        }

    def _mean(self, values: Tensor, chosen: Tensor) -> Tensor:
        """The mean over the samples that are chosen: (networks,)."""
        if chosen.all():
            return self._apart(values).mean(1)
        pairs = zip(self._apart(values), self._apart(chosen), strict=True)
        return torch.stack([of_network[these].mean() for of_network, these in pairs])

    def flatness(self) -> dict[str, Tensor]:
        """Parts of sharpness, and variants of it that include the size of the weights."""
        return {
            "sharpness_per_layer": self.weights,
            "bias_sharpness_per_layer": self.bias2.mean(1),
            "matrix_normalized_sharpness": (self.norm * self.weights.sqrt()).sum(1),
            "relative_flatness": self._relative_flatness().masked_fill(self.shared, torch.nan),
        }

    def sensitivities(self) -> dict[str, Tensor]:
        """Norms of the Jacobians of layers."""
        per_layer = self.singular[..., 0].mean(1)
        rows = self._of_layers([float(len(layer.weight)) for layer in self.layers])
        scaled2 = torch.stack([self._apart(layer.scaled2) for layer in self.layers]).mean(2)
        per_row = scaled2 / rows[:, None]
        return {
            "sensitivity": self.singular[..., 0],
            "mls_per_layer": per_layer,
            "nmls": per_layer.sum(1),
            "weighted_mls": (per_layer / self.reciprocal).sum(1),
            "network_input_invariant_mls": sum(per_row, start=torch.zeros_like(per_row[0])),
        }

    def layer_volumes(self) -> dict[str, Tensor]:
        """Volumes of the maps from the inputs of layers, and bounds of volumes."""
        samples, outputs = self.x2.shape[1], self.exact.outputs.shape[1]
        eps = torch.finfo(self.exact.outputs.dtype).eps
        of_layers, _ = log_volumes(self.singular, "all", eps)
        logs = outputs * (2 * self.norm[:, None].log() - self.x2.log())  # of (||W_l|| / ||x^l||)^2N
        scale = outputs / 2 * (samples * self.sharpness / outputs).log() - math.log(samples)
        return {
            "network_log_volume": torch.logsumexp(
                log_mean(of_layers.transpose(1, 2).contiguous()), 1
            ),
            "log_volume_bound": _plus(torch.logsumexp(logs[..., 0], 1) / 2, scale),
            "network_log_volume_bound": _plus(torch.logsumexp(logs.flatten(1), 1) / 2, scale),
        }

    def bounds(self) -> dict[str, Tensor]:
        """Bounds of sensitivities by sharpness."""
        by_norm, by_layer = self._bounds()
        of_kernel = dict(zip(BOUNDS, by_norm[:, 0].unbind(1), strict=True))
        has_bias = self._of_layers([layer.module.bias is not None for layer in self.layers])
        values = {
            "bound_a": self.singular[:, :, 0, 0].mean(1),
            "bound_b": of_kernel["b"],
            "bound_c": of_kernel["c"],
            "bound_d": of_kernel["d"],
            "nmls_bound": of_kernel["nmls"],
            "nmls_bound_layerwise": of_kernel["nmls-layerwise"],
            "nmls_bound_with_bias": self._nmls(self.norm[:, None], has_bias.to(self.x2))[:, 0],
            "layer_bound": by_layer[:, 0],
            "bound_by_norm": by_norm,
        }
        if "corrected-bound" in self.costly:
            norms = [[self._operator_norm(*layer) for layer in own] for own in self._networks()]
            ratio = (self.weight2 / self.smallest2).sqrt().mean(1)
            values["corrected_bound"] = (self._of_layers(norms) * ratio).masked_fill(
                (self.smallest2 == 0).any(1), torch.nan
            )
        return values

    def checks(self) -> dict[str, Tensor]:
        """Whether the premises of the bounds hold."""
        slope = self.singular[..., 0] * self.x2.sqrt()
        root = self.weight2.sqrt()
        tolerance = 1 + (1e-6 if self.exact.outputs.dtype == torch.float64 else 1e-4)
        allowed = self.norms[:, :, None] * root[:, None] * tolerance
        violations = (slope[:, None] > allowed).double().sum(2)
        return {
            "violations": violations.masked_fill(self.norms.isnan(), torch.nan),
            "weight_norm": self.norm,
            "reciprocal_input_norm": self.reciprocal,
            "stability_trick_ratio": (self.weight2 / (self.gamma2 * self.x2)).sqrt(),
            "linear_stability_ratio": slope / (self.norm[:, None] * root),
            "shared": self.shared.expand(len(self.known), -1),
            "samples_zero_input": (self.x2 == 0).sum(1),
        }

    def _of_layers(self, values: list[Any]) -> Tensor:
        """(..., layers), in float64 unless they are flags."""
        array = np.array(values)
        return torch.from_numpy(array).to(self.x2.device)

    def _norms(self) -> Tensor:
        """(networks, `NORMS`, layers); NaN: operator norms of convolutions that are not wanted."""
        wanted = "operator-norm" in self.costly
        norms = []
        for own in self._networks():
            kernel = [self._kernel_norm(*layer) for layer in own]
            operator = [
                self._operator_norm(*layer)
                if wanted or not isinstance(layer[1], CONVOLUTIONS)
                else math.nan
                for layer in own
            ]
            authors = [authors_norm(module, layer.output_positions) for layer, module, _ in own]
            norms.append([kernel, operator, authors])
        return self._of_layers(norms)

    def _networks(self) -> list[list[tuple[Layer, Any, Norms]]]:
        """Of each network: its layers, the module of each, and the norms that are known."""
        modules = zip(*(networks_of(layer.module) for layer in self.layers), strict=True)
        return [
            [(layer, module, norms) for layer, module in zip(self.layers, own, strict=True)]
            for own, norms in zip(modules, self.known, strict=True)
        ]

    def _kernel_norm(self, layer: Layer, module: Any, norms: Norms) -> float:
        return known(norms, layer.name, lambda: spectral_norm(module.weight.detach().flatten(1)))

    def _operator_norm(self, layer: Layer, module: Any, norms: Norms) -> float:
        if not isinstance(module, CONVOLUTIONS):
            return self._kernel_norm(layer, module, norms)
        key = layer.name, layer.input_shape
        return known(norms, key, lambda: operator_norm(module, layer.input_shape))

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """(networks, `NORMS`, `BOUNDS`), and C of every layer, (networks, `NORMS`, layers)."""
        # ||df/dW|| / ||x|| = ||Gamma|| where weights are not shared, which is finite at x = 0.
        zero = self.x2[..., 0] == 0
        ratio = (self.weight2[..., 0] / self.x2[..., 0]).masked_fill(zero, torch.inf)
        slope = (ratio if self.shared[0] else self.gamma2[..., 0]).sqrt()
        c = self.norms * self.reciprocal[:, None] * self.weights[:, None].sqrt()
        c = c.masked_fill((self.x2 == 0).any(1)[:, None], torch.inf)  # not 0 x inf
        first, root = self.norms[..., 0], self.sharpness[:, None].sqrt()
        b, d = first * slope.mean(1)[:, None], _times(first * self.reciprocal[:, :1], root)
        return torch.stack([b, c[..., 0], d, self._nmls(self.norms, 0.0), c.sum(2)], 2), c

    def _nmls(self, norms: Tensor, added: float | Tensor) -> Tensor:
        """The NMLS bound by norms (networks, k, layers), with a number added to ||x^l||^2."""
        x2 = (self.x2 + added)[:, None]
        factor = (norms[:, :, None].square() / x2).sum(3).mean(2).sqrt()
        return _times(factor, self.sharpness[:, None].sqrt())

    def _relative_flatness(self) -> Tensor:
        """||x^l||^2 Tr(J^l^T A J^l), A the Hessian of a sample's loss in its outputs.

        (networks, layers).
        """
        traces = self._apart(torch.stack([layer.hessian_trace for layer in self.layers], dim=1))
        return self.loss.of_batch((self.x2 * traces).transpose(1, 2))


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
