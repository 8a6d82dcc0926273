"""Norms, dimensions and volumes of A^l = dx^l/dx of each sample, from A^l itself.

Where the first layer is linear and alone reads x, every A^l = B W_1 has the row space of W_1: with
orthonormal columns Q that span it, A^l Q has the same singular values, and fewer columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.forecast import Forecast
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.singular_values import CONDITION, exact_values, singular_values

BYTES = 2**29
"""Of derivatives that are propagated at a time. Blocks of a quarter of it take 1.3 times as long on
a CPU: their memory, asked for anew each time, comes in small pages."""
SMALL = 64
"""The width up to which the Gram matrices of many samples at once are faster than one by one."""
REMEDY = "representations_accuracy=0.03 estimates the same"


@dataclass(frozen=True)
class Spectra:
    """Of A^l: (samples, layers), in float64.

    squares: ||A^l||_F^2.
    dimensions: (Tr C)^2 / Tr C^2 with C = A^l A^l^T; NaN where A^l = 0.
    largest: ||A^l||_2.
    volumes: the sum of ln sigma_j over the k largest singular values; minus infinity where one of
        them is zero.
    """

    squares: Tensor
    dimensions: Tensor
    largest: Tensor
    volumes: Tensor


def spectra(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    counts: list[int],
    size: int | None,
    progress: bool,
) -> Spectra:
    """Of all samples.

    maps: of the layers.
    inputs: (samples, ...).
    counts: k of each layer.
    size: samples at a time; None: as many as fit.
    progress: show a bar.
    """
    parts: list[Tensor] = []
    basis = _basis(inputs, findings)
    each = len(basis) * findings.numbers * inputs.element_size()
    size = size or max(1, min(len(inputs), BYTES // each))
    steps = len(inputs) * len(maps.modules)
    with Forecast(f"spectra of all layers ({REMEDY})", steps, progress) as forecast:
        for chunk in inputs.split(size):
            jacobians = _jacobians(maps, chunk, findings, basis)
            of_layers = []
            for name, count in zip(maps.modules, counts, strict=True):
                same = name in maps.unchanged
                of_layers.append(
                    _identity(chunk, count) if same else _of_layer(next(jacobians), count)
                )
                forecast.tick(len(chunk))
            parts.append(torch.stack(of_layers, 2))  # (4, samples, layers)
    return Spectra(*torch.cat(parts, 1))


def _jacobians(maps: FeatureMaps, x: Tensor, findings: Findings, basis: Tensor) -> Iterator[Tensor]:
    """A^l, or A^l Q, of each layer but those whose input is x itself: (columns, samples, M_l)."""
    others = {name: layer for name, layer in maps.modules.items() if name not in maps.unchanged}
    maps = FeatureMaps(maps.model, others)
    rows = sum(each.shape[1] for each in maps(x[:1].detach())[:-1])
    _refuse_what_does_not_fit(len(basis) * rows * len(x) * x.element_size(), x.device)
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


def _refuse_what_does_not_fit(needed: int, device: torch.device) -> None:
    if device.type == "cpu" and 2 * needed > psutil.virtual_memory().available:
        raise MeasureError(
            f"the derivatives of all layers of one sample need {2 * needed / 1e9:.1f} GB, there "
            f"are {psutil.virtual_memory().available / 1e9:.1f}; {REMEDY}"
        )


def _identity(x: Tensor, count: int) -> Tensor:
    """The fields of `Spectra` for A^l = 1: (4, samples)."""
    numbers = x[0].numel()
    volume = 0.0 if count <= numbers else -torch.inf
    values = torch.tensor([numbers, numbers, 1.0, volume], dtype=torch.float64, device=x.device)
    return values[:, None].expand(4, len(x))


def _of_layer(jacobians: Tensor, count: int) -> Tensor:
    """The fields of `Spectra`: (4, samples).  jacobians: (columns, samples, M_l)."""
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
