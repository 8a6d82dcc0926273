"""The quantities of local compression, from exact spectra or from estimates."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.families._representations.estimates import Largest, estimates, largest
from flatlab.families._representations.spectra import spectra

ENOUGH = 1e-3
"""Accuracy from which float32 is precise enough for estimates."""


@dataclass(frozen=True)
class Local:
    """Local compression of all layers.

    squares, errors: ||A^l||_F^2 and its standard error, 0 where it is exact: (samples, layers).
    values: quantities by name.
    directions: how many were drawn; 0 where it is exact.
    """

    squares: Tensor
    errors: Tensor
    values: dict[str, Tensor]
    directions: int = 0


def exact_compression(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    largest_values: str | int,
    size: int | None,
    progress: bool,
) -> Local:
    """From the singular values of A^l.  largest_values: k, or "auto"."""
    lengths, widths = _lengths(maps, inputs, size)
    numbers = inputs[0].numel()
    counts = [
        min(findings.outputs, width, numbers) if largest_values == "auto" else int(largest_values)
        for width in widths
    ]
    found = spectra(maps, inputs, findings, counts, size, progress)
    zero = torch.zeros_like(found.squares)
    full = ~(found.volumes == -torch.inf)
    values = {
        "feature_sensitivity": found.squares.mean(0),
        "feature_sensitivity_error": zero[0],
        "feature_sensitivity_per_sample": found.squares,
        "feature_dimension": found.dimensions.nanmean(0),
        "feature_dimension_error": zero[0],
        "feature_log_volume": torch.where(full, found.volumes, torch.nan).nanmean(0),
        "feature_volume_rank": torch.tensor(counts, dtype=torch.float64),
        "feature_samples_zero_jacobian": (found.squares == 0).double().sum(0),
        "feature_samples_rank_deficient": (~full).double().sum(0),
        **_of_largest(Largest(found.largest, zero), inputs, lengths),
    }
    return Local(found.squares, zero, values)


def estimated_compression(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    head: nn.Linear | None,
    accuracy: float,
    seed: int,
    size: int | None,
    progress: bool,
) -> Local:
    """From random directions and Krylov iterations, in float32, and without volumes.

    head: the last layer, where the outputs are what it returns.
    accuracy: relative.
    """
    lengths, _ = _lengths(maps, inputs, size)
    if accuracy >= ENOUGH:
        maps, inputs = _single(maps, inputs)
    found = estimates(maps, inputs, findings, head, accuracy, seed, size, progress)
    own = torch.tensor([name in maps.unchanged for name in maps.modules], device=inputs.device)
    known = torch.tensor([[float(inputs[0].numel())], [0.0]], device=inputs.device).double()
    dimensions = torch.where(own, known, found.dimensions)  # A^l = 1
    squares = torch.where(own, known, found.squares)
    values = {
        "feature_sensitivity": squares[0],
        "feature_sensitivity_error": squares[1],
        "feature_sensitivity_per_sample": found.per_sample[0],
        "feature_dimension": dimensions[0],
        "feature_dimension_error": dimensions[1],
        "feature_samples_zero_jacobian": found.zero.double().sum(0),
        "head_share": found.share[0],
        "head_share_error": found.share[1],
        **_of_largest(largest(maps, inputs, found.starts, accuracy, progress), inputs, lengths),
    }
    return Local(found.per_sample[0], found.per_sample[1], values, found.directions)


def _of_largest(found: Largest, inputs: Tensor, lengths: Tensor) -> dict[str, Any]:
    """Quantities of ||A^l||_2.  lengths: ||x^l||, (samples, layers)."""
    norms = found.values
    normalized = norms * (inputs.flatten(1).double().norm(dim=1)[:, None] / lengths)
    return {
        "feature_mls": norms.mean(0),
        "feature_mls_per_sample": norms,
        "feature_mls_residual": found.residuals.mean(0),
        "normalized_feature_mls": torch.where(lengths > 0, normalized, torch.nan).nanmean(0),
        "feature_samples_zero": (lengths == 0).double().sum(0),
    }


def _single(maps: FeatureMaps, inputs: Tensor) -> tuple[FeatureMaps, Tensor]:
    """The same in float32."""
    model = copy.deepcopy(maps.model).float()
    layers = {name: model.get_submodule(name) for name in maps.modules}
    return FeatureMaps(model, layers, maps.unchanged), inputs.float()


@torch.no_grad()
def _lengths(maps: FeatureMaps, inputs: Tensor, size: int | None) -> tuple[Tensor, list[int]]:
    """||x^l||, (samples, layers) in float64, and M_l of each layer."""
    rows = []
    for x in inputs.split(size or 256):
        features = maps(x)[:-1]
        rows.append(torch.stack([each.double().norm(dim=1) for each in features], 1))
    return torch.cat(rows), [each.shape[1] for each in features]
