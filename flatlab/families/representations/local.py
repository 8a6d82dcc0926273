"""The quantities of local compression, from exact spectra or from estimates."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.per_sample.memory import AFFORDABLE, limit
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.singular_values import CONDITION, exact_values, singular_values
from flatlab.families.representations.estimates import estimates, largest_values
from flatlab.measuring.quantity import Settings

ENOUGH = 1e-3
"""Accuracy from which float32 is precise enough for estimates."""


def accuracy_of(
    maps: FeatureMaps, inputs: Tensor, findings: Findings, settings: Settings
) -> float | None:
    """The relative standard error that is wanted; None: exact, as `auto` is where A^l fits."""
    accuracy = settings.options.representations_accuracy
    if accuracy != "auto":
        return None if accuracy == "exact" else float(accuracy)
    with torch.no_grad():
        rows = sum(each.shape[1] for each in maps(inputs[:1])[:-1])
    needed = 2 * len(_basis(inputs, findings)) * rows * inputs.element_size()
    if needed <= limit(inputs.device, settings.budget):
        return None
    warnings.warn(
        "representations estimates, with standard errors beside the values: the derivatives of all "
        f"layers of a sample take {needed / 1e9:.3g} GB; representations_accuracy='exact' needs it",
        stacklevel=2,
    )
    return AFFORDABLE


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
    maps: FeatureMaps, inputs: Tensor, findings: Findings, settings: Settings
) -> Local:
    """From the singular values of A^l."""
    lengths, widths = _lengths(maps, inputs, settings.batch_size)
    counts = [min(findings.outputs, width, inputs[0].numel()) for width in widths]
    squares, dimensions, largest, volumes = spectra(maps, inputs, findings, counts, settings)
    zero = torch.zeros_like(squares)
    full = ~(volumes == -torch.inf)
    values = {
        "feature_sensitivity": squares.mean(0),
        "feature_sensitivity_error": zero[0],
        "feature_sensitivity_per_sample": squares,
        "feature_dimension": dimensions.nanmean(0),
        "feature_dimension_error": zero[0],
        "feature_log_volume": torch.where(full, volumes, torch.nan).nanmean(0),
        "feature_volume_rank": torch.tensor(counts, dtype=torch.float64),
        "feature_samples_zero_jacobian": (squares == 0).double().sum(0),
        "feature_samples_rank_deficient": (~full).double().sum(0),
        **_of_largest(largest, zero, inputs, lengths),
    }
    return Local(squares, zero, values)


def estimated_compression(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    head: nn.Linear | None,
    accuracy: float,
    settings: Settings,
) -> Local:
    """From random directions and Krylov iterations, in float32, and without volumes.

    head: the last layer, where the outputs are what it returns.
    """
    lengths, _ = _lengths(maps, inputs, settings.batch_size)
    if accuracy >= ENOUGH:
        maps, inputs = _single(maps, inputs)
    found = estimates(maps, inputs, findings, head, accuracy, settings)
    own = torch.tensor([name in maps.unchanged for name in maps.modules], device=inputs.device)
    known = torch.tensor([[float(inputs[0].numel())], [0.0]], device=inputs.device).double()
    dimensions = torch.where(own, known, found.dimensions)  # A^l = 1
    squares = torch.where(own, known, found.squares)
    norms, residuals = largest_values(maps, inputs, found.starts, accuracy, settings.progress)
    values = {
        "feature_sensitivity": squares[0],
        "feature_sensitivity_error": squares[1],
        "feature_sensitivity_per_sample": found.per_sample[0],
        "feature_dimension": dimensions[0],
        "feature_dimension_error": dimensions[1],
        "feature_samples_zero_jacobian": found.zero.double().sum(0),
        "head_share": found.share[0],
        "head_share_error": found.share[1],
        **_of_largest(norms, residuals, inputs, lengths),
    }
    return Local(found.per_sample[0], found.per_sample[1], values, found.directions)


def _of_largest(
    norms: Tensor, residuals: Tensor, inputs: Tensor, lengths: Tensor
) -> dict[str, Any]:
    """Quantities of ||A^l||_2.  norms, residuals, lengths (||x^l||): (samples, layers)."""
    normalized = norms * (inputs.flatten(1).double().norm(dim=1)[:, None] / lengths)
    return {
        "feature_mls": norms.mean(0),
        "feature_mls_per_sample": norms,
        "feature_mls_residual": residuals.mean(0),
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


BYTES = 2**29
"""Of derivatives that are propagated at a time. Blocks of a quarter of it take 1.3 times as long on
a CPU: their memory, asked for anew each time, comes in small pages."""
SMALL = 64
"""The width up to which the Gram matrices of many samples at once are faster than one by one."""
REMEDY = "representations_accuracy=0.03 estimates the same"


def spectra(
    maps: FeatureMaps, inputs: Tensor, findings: Findings, counts: list[int], settings: Settings
) -> Tensor:
    """What the singular values of A^l tell: (4, samples, layers), in float64.

    ||A^l||_F^2; (Tr C)^2 / Tr C^2 with C = A^l A^l^T, NaN where A^l = 0; ||A^l||_2; and the sum of
    ln sigma_j over the k largest, minus infinity where one of them is zero.  counts: k by layer, at
    most as many as x has numbers.
    """
    parts: list[Tensor] = []
    basis = _basis(inputs, findings)
    each = len(basis) * findings.numbers * inputs.element_size()
    size = settings.batch_size or max(1, min(len(inputs), BYTES // each))
    steps = len(inputs) * len(maps.modules)
    with ProgressBar(f"spectra of all layers ({REMEDY})", steps, settings.progress) as forecast:
        for chunk in inputs.split(size):
            jacobians = _jacobians(maps, chunk, findings, basis)
            of_layers = []
            for name, count in zip(maps.modules, counts, strict=True):
                same = name in maps.unchanged
                of_layers.append(_identity(chunk) if same else _of_layer(next(jacobians), count))
                forecast.tick(len(chunk))
            parts.append(torch.stack(of_layers, 2))  # (4, samples, layers)
    return torch.cat(parts, 1)


def _jacobians(maps: FeatureMaps, x: Tensor, findings: Findings, basis: Tensor) -> Iterator[Tensor]:
    """A^l, or A^l Q, of each layer but those whose input is x itself: (columns, samples, M_l)."""
    others = {name: layer for name, layer in maps.modules.items() if name not in maps.unchanged}
    maps = FeatureMaps(maps.model, others)
    rows = sum(each.shape[1] for each in maps(x[:1].detach())[:-1])
    needed = 2 * len(basis) * rows * len(x) * x.element_size() / 1e9
    free = psutil.virtual_memory().available / 1e9
    if x.device.type == "cpu" and needed > free:
        raise MeasureError(
            f"the derivatives of all layers of one sample need {needed:.1f} GB, there are "
            f"{free:.1f}; {REMEDY}"
        )
    if _fewer_rows(rows, len(basis)):
        yield from (each.permute(2, 0, 1) for each in maps.rows(x))
        return
    step = max(1, BYTES // (findings.numbers * len(x) * x.element_size()))
    pieces = [maps.along(x, tangents) for tangents in basis.split(step)]
    for of_layer in zip(*(piece[:-1] for piece in pieces), strict=True):
        yield torch.cat(of_layer) if len(of_layer) > 1 else of_layer[0]


def _fewer_rows(rows: int, columns: int) -> bool:
    """Whether backward passes, one for each row of every A^l, are fewer than forward ones."""
    return rows < columns


def _basis(x: Tensor, findings: Findings) -> Tensor:
    """Orthonormal directions of x that the network can see: (directions, 1, ...)."""
    first = findings.modules[findings.layers[0]]
    numbers = x[0].numel()
    alone = findings.direct and getattr(first, "in_features", None) == numbers
    if isinstance(first, nn.Linear) and alone and len(first.weight) < numbers:
        rows = torch.linalg.qr(first.weight.detach().T).Q.T
        return rows.reshape(-1, 1, *x.shape[1:])
    return torch.eye(numbers, dtype=x.dtype, device=x.device).view(-1, 1, *x.shape[1:])


def _identity(x: Tensor) -> Tensor:
    """What `spectra` has for A^l = 1: (4, samples)."""
    numbers = x[0].numel()
    values = torch.tensor([numbers, numbers, 1.0, 0.0], dtype=torch.float64, device=x.device)
    return values[:, None].expand(4, len(x))


def _of_layer(jacobians: Tensor, count: int) -> Tensor:
    """What `spectra` has of a layer: (4, samples).  jacobians: (columns, samples, M_l)."""
    by_sample, precision = jacobians.transpose(0, 1), jacobians.dtype
    if min(by_sample.shape[1:]) <= SMALL:
        return _of_batch(by_sample.double(), count, precision)
    alone = (each[:, each.any(0)] for each in by_sample)  # behind a ReLU many columns are zero
    return torch.cat([_of_batch(each[None].double(), count, precision) for each in alone], 1)


def _of_batch(jacobians: Tensor, count: int, precision: torch.dtype) -> Tensor:
    """The same.  jacobians: A^l^T, (samples, columns, M_l)."""
    wide, count = jacobians.shape[1] <= jacobians.shape[2], max(1, count)
    gram = jacobians @ jacobians.mT if wide else jacobians.mT @ jacobians
    squares = gram.diagonal(dim1=1, dim2=2).sum(1)
    dimensions = squares.square() / gram.square().sum((1, 2))  # 0 / 0 is NaN
    singular = nn.functional.pad(singular_values(gram), (0, count))[:, :count]
    poor = (singular[:, -1] * CONDITION < singular[:, 0]) & singular.isfinite().all(1)
    if poor.any():
        short = jacobians[poor] if wide else jacobians[poor].mT
        singular[poor] = nn.functional.pad(exact_values(short), (0, count))[:, :count]
    rank = singular[:, -1] > 10 * torch.finfo(precision).eps * singular[:, 0]
    volumes = torch.where(rank | singular[:, -1].isnan(), singular.log().sum(1), -torch.inf)
    return torch.stack([squares, dimensions, singular[:, 0], volumes])
