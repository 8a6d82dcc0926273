"""The quantities of `geometry` for networks that are too large for all their derivatives.

Sums over the outputs are means over random directions; the largest singular values are those of an
iteration that is stopped on its residual. A standard error is that of the jackknife, which leaves
out the directions of one place of every round: it is due to the directions, not to the data. A
dimension is largest where singular values are equal, and then hardly changes with one direction
less: its error is the spread over random halves of the directions, which has the same expectation.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.core.progress import ProgressBar
from flatlab.derivatives.estimates.random_directions import (
    HELD,
    ROUND,
    DirectionalSquares,
    drawn,
    jackknife,
    samples_of_directions,
)
from flatlab.derivatives.jacobians.golub_kahan import samples_at_a_time
from flatlab.derivatives.jacobians.norms import Norms, NormsOfLayers, norms_of_layers
from flatlab.derivatives.per_sample.forward_pass import Wanted, checked_findings
from flatlab.derivatives.per_sample.memory import RESIDUAL
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.values import Derivatives, Layer
from flatlab.families.geometry.values import Values, wanted_of
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import SampleSet, Settings

ESTIMATED = (
    *("sharpness", "root_sharpness", "sharpness_per_sample", "sharpness_per_layer"),
    *("bias_sharpness_per_layer", "elementwise_adaptive_trace", "jacobian_frobenius", "g"),
    *("input_invariant_mls", "network_input_invariant_mls", "local_dimension"),
    *("local_dimension_per_sample", "bound_b", "bound_c", "bound_d", "nmls_bound"),
    *("nmls_bound_layerwise", "nmls_bound_with_bias", "layer_bound", "bound_by_norm"),
    *("matrix_normalized_sharpness", "stability_trick_ratio", "linear_stability_ratio"),
)
"""Quantities that depend on the random directions, and have a standard error."""
HALVES = 50
"""Random ways to part the directions of a round into two halves."""
LEFT_OUT = (
    "log volumes and relative flatness need all derivatives: accuracy='exact' computes them in "
    "blocks"
)


class EstimatedValues(Values):
    """The quantities of some directions.  jacobian2: ||J||_F^2, dimension: of each sample."""

    def __init__(
        self,
        means: Derivatives,
        jacobian2: Tensor,
        dimension: Tensor,
        options: Any,
        loss: Loss,
        norms: Norms,
    ) -> None:
        self.jacobian2, self.dimension = jacobian2, dimension
        super().__init__(means, options, loss, [norms])

    def by_name(self) -> dict[str, Tensor]:
        values = super().by_name()
        left_out = ["violations", "relative_flatness", "corrected_bound"]
        if self.exact.findings.generic:  # some parameters are differentiated for all samples
            left_out.append("sharpness_per_sample")
        return {name: value[0] for name, value in values.items() if name not in left_out}

    def network(self) -> dict[str, Tensor]:
        values = super().network()
        return values | {
            "jacobian_frobenius": self.jacobian2[None].sqrt(),
            "g": self.jacobian2[None].mean(1),
        }

    def volumes(self) -> dict[str, Tensor]:
        return {
            "local_dimension": self._mean(self.dimension, ~self.dimension.isnan()),
            "local_dimension_per_sample": self.dimension[None],
        }

    def layer_volumes(self) -> dict[str, Tensor]:
        return {}


def estimated(
    model: nn.Module,
    samples: SampleSet,
    settings: Settings,
    findings: Findings,
    loss: Loss,
    accuracy: float,
) -> tuple[dict[str, Tensor], Findings, bool, dict[str, Any]]:
    """All quantities that can be estimated, what rules cover, whether all is finite, and notes.

    loss: whose Hessian relative flatness would use.
    accuracy: relative standard error wanted of S and G, of the directions.
    """
    inputs, options, held = samples.inputs, settings.options, settings.budget or HELD
    findings = checked_findings(model, inputs[:2], findings)
    squares = drawn(
        model,
        inputs,
        findings,
        accuracy,
        adaptive="elementwise-adaptive-trace" in options.costly,
        size=settings.batch_size or samples_of_directions(findings, inputs, held),
        seed=settings.seed,
        progress=settings.progress,
    )
    largest = _norms(model, inputs, findings, wanted_of(options.quantities), settings)
    with torch.no_grad():
        table = [
            _values(squares, largest, findings, left_out, options, loss, settings.norms)
            for left_out in (None, *range(ROUND))
        ]
    values = _jackknife(table[0], table[1:])
    values |= _of_halves(squares.products, table[0], values)
    values["norm_residual"] = largest.residuals.max()
    parts = (squares.outputs, *squares.squares.values(), largest.values)
    finite = findings.finite and all(bool(part.isfinite().all()) for part in parts)
    notes = {
        "directions": ROUND * len(squares.products),
        "accuracy": accuracy,
        "estimated_error": "standard error of the random directions, not of the data",
        "quantities_left_out": LEFT_OUT,
    }
    return values, findings, finite, notes


def _norms(
    model: nn.Module, inputs: Tensor, findings: Findings, wanted: Wanted, settings: Settings
) -> NormsOfLayers:
    layers = findings.layers if wanted.layers else []
    if not wanted.jacobian:
        nothing = inputs.new_zeros(len(inputs), 1, dtype=torch.float64)
        return NormsOfLayers(nothing, nothing)
    held = settings.budget or HELD
    size = settings.batch_size or samples_at_a_time(model, inputs, held // 2)
    steps = 10 * (1 + len(layers)) * -(-len(inputs) // size)
    what = f"largest singular values of {1 + len(layers)} Jacobians for {len(inputs)} samples"
    with ProgressBar(what, steps, settings.progress) as forecast:
        return norms_of_layers(
            model,
            inputs,
            findings,
            layers=layers,
            residual=RESIDUAL,
            size=size,
            seed=settings.seed,
            tick=forecast.tick,
        )


def _values(
    squares: DirectionalSquares,
    largest: NormsOfLayers,
    findings: Findings,
    left_out: int | None,
    options: Any,
    loss: Loss,
    norms: Norms,
) -> dict[str, Tensor]:
    """The quantities from all directions, or from all but those of one place of each round."""
    kept = torch.tensor([k for k in range(ROUND) if k != left_out])
    mean = {key: value[:, kept].mean((0, 1)) for key, value in squares.squares.items()}
    layers = [
        Layer(
            x2=squares.x2[name],
            gamma2=mean[name, "gamma2"],
            weight2=mean[name, "weight2"],
            bias2=mean[name, "bias2"],
            singular=largest.values[:, 1 + place, None],
            hessian_trace=torch.full_like(squares.x2[name], torch.nan),
            scaled2=mean[name, "scaled2"],
            smallest2=torch.zeros_like(squares.x2[name]),
            **squares.about[name],
        )
        for place, name in enumerate(findings.layers if len(largest.values.T) > 1 else [])
    ]
    means = Derivatives(
        outputs=squares.outputs,
        sharpness=mean["", "sharpness"],
        adaptive=mean.get(("", "adaptive")),
        x2=squares.x2[""],
        singular=largest.values[:, :1],
        gram=squares.products[:0],
        scaled2=mean["", "scaled2"],
        layers=layers,
        findings=findings,
    )
    dimension = _dimension(squares.products, kept)
    return EstimatedValues(means, mean["", "jacobian2"], dimension, options, loss, norms).by_name()


def _dimension(products: Tensor, kept: Tensor) -> Tensor:
    """(sum sigma^2)^2 / sum sigma^4, both from the pairs of some directions: (samples,)."""
    chosen = products[:, :, kept][..., kept]
    traces = chosen.diagonal(dim1=2, dim2=3)
    own = traces.square().sum(2)
    return (traces.sum(2).square() - own).sum(0) / (chosen.square().sum((2, 3)) - own).sum(0)


def _of_halves(
    products: Tensor, of_all: Mapping[str, Tensor], values: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Standard errors of dimensions: the spread over halves of the directions, each with the rest.

    of_all: from all directions.  values: the same less their bias, and what else is reported.
    """
    name = "local_dimension_per_sample"
    if name not in values:
        return {}
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(ROUND, generator=generator) for _ in range(HALVES)]
    halves = torch.stack([_dimension(products, half) for o in orders for half in o.chunk(2)])
    means = torch.stack([half[~half.isnan()].mean() for half in halves])
    spreads = {name: halves - of_all[name], "local_dimension": means - of_all["local_dimension"]}
    return {f"{key}_error": s.square().mean(0).sqrt() for key, s in spreads.items()}


def _jackknife(
    of_all: Mapping[str, Tensor], without_one: list[dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Values less their bias, and standard errors of `ESTIMATED` ones."""
    values = dict(of_all)
    for name in ESTIMATED:
        if name in of_all:
            others = torch.stack([each[name] for each in without_one], -1)
            unbiased, values[f"{name}_error"] = jackknife(of_all[name], others)
            values[name] = torch.where(unbiased.isfinite(), unbiased, of_all[name])
    return values
