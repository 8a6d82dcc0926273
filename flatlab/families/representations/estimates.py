"""Estimates of norms and dimensions of A^l from products with random signs, and ||A^l||_2.

For independent signs r, s in the space of x: E ||A r||^2 = ||A||_F^2 and E <A r, A s>^2 = Tr C^2,
C = A A^T. One forward derivative along r gives A^l r of all layers. The signs of a sample are its
own, so that errors of samples are independent; ratios are corrected by the jackknife.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.core.progress import ProgressBar
from flatlab.derivatives.estimates.random_directions import jackknife
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.jacobians.golub_kahan import (
    Jacobian,
    largest_singular_values,
    samples_at_a_time,
)
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.families.representations.bounds import inverse
from flatlab.measuring.quantity import Settings

BLOCK = 20
"""Directions that are drawn together, and the fewest."""
MOST = 100
"""The most blocks."""
BYTES = 2**26
"""Of derivatives held at a time."""
STEPS = 50
"""The most products with A^l for its largest singular value."""
TYPICAL = 5
"""Of these products, for the forecast."""


@dataclass(frozen=True)
class Estimates:
    """Means over the samples and their standard errors over the directions, in float64.

    squares, dimensions: of ||A^l||_F^2 and of (Tr C)^2 / Tr C^2, (2, layers): values and errors.
    share: of ||P A^L||_F^2 / ||A^L||_F^2, (2,), NaN without a linear head.
    per_sample: ||A^l||_F^2 of each sample, (2, samples, layers).
    zero: whether A^l is zero, (samples, layers).
    starts: the longest combination of A^l r over the directions r, (samples, M_l) of each layer.
    directions: how many were drawn.
    """

    squares: Tensor
    dimensions: Tensor
    share: Tensor
    per_sample: Tensor
    zero: Tensor
    starts: list[Tensor]
    directions: int


def estimates(
    maps: FeatureMaps,
    inputs: Tensor,
    findings: Findings,
    head: nn.Linear | None,
    accuracy: float,
    settings: Settings,
) -> Estimates:
    """Blocks of directions, until the relative standard errors are within the accuracy.

    head: the last layer, where the outputs are what it returns.
    accuracy: relative standard error of squares and dimensions of every layer.
    """
    numbers = BLOCK * findings.numbers * inputs.element_size()
    size = settings.batch_size or max(1, BYTES // numbers)
    with ProgressBar("random directions", len(inputs), settings.progress) as forecast:
        block = partial(_block, maps, inputs, head, settings.seed, size, forecast)
        blocks = [block(0)]
        values, errors = torch.stack([blocks[0].squares, blocks[0].dimensions], 1)
        own = [name in maps.unchanged for name in maps.modules]  # where both are known
        relative = (errors / values).masked_fill(torch.tensor(own, device=inputs.device), 0.0)
        worst = relative.nan_to_num(0.0).max().item()
        wanted = min(MOST, max(1, math.ceil((worst / accuracy) ** 2)))
        forecast.extend((wanted - 1) * len(inputs))
        blocks += map(block, range(1, wanted))
    names = ("squares", "dimensions", "share", "per_sample")
    return Estimates(
        **{name: _mean([getattr(block, name) for block in blocks]) for name in names},
        zero=torch.stack([block.zero for block in blocks]).all(0),
        starts=blocks[0].starts,
        directions=BLOCK * len(blocks),
    )


def _mean(parts: Sequence[Tensor]) -> Tensor:
    """Of independent estimates (2, ...): their mean and its error."""
    table = torch.stack([*parts])
    return torch.stack([table[:, 0].mean(0), table[:, 1].square().sum(0).sqrt() / len(parts)])


def _block(
    maps: FeatureMaps,
    inputs: Tensor,
    head: nn.Linear | None,
    seed: int,
    size: int,
    forecast: ProgressBar,
    number: int,
) -> Estimates:
    grams, seen, starts = [], [], []
    for first in range(0, len(inputs), size):
        x = inputs[first : first + size]
        signs = torch.stack([_signs(each, seed, number, first + k) for k, each in enumerate(x)], 1)
        *moved, change = maps.along(x, signs)
        rows = [each.transpose(0, 1) for each in moved]
        grams.append(torch.stack([(each @ each.mT).double() for each in rows], 1))
        if number == 0:
            longest = _leading(grams[-1]).to(x)
            starts.append([(longest[:, k] @ each)[:, 0] for k, each in enumerate(rows)])
        if head is not None:
            seen.append((change.double() @ inverse(head).T).square().sum(2).T)
        forecast.tick(len(x))
    gram = torch.cat(grams)  # (samples, layers, BLOCK, BLOCK)
    diagonal = gram.diagonal(dim1=2, dim2=3)
    squares = torch.stack([diagonal.mean((0, 2)), _error(diagonal.mean(0))])
    per_sample = torch.stack([diagonal.mean(2), _error(diagonal)])
    share = squares.new_full((2,), torch.nan)
    if head is not None:
        share = _with_error(_ratio(torch.cat(seen), diagonal[:, -1]))
    return Estimates(
        squares=squares,
        dimensions=_with_error(_dimensions(gram)),
        share=share,
        per_sample=per_sample,
        zero=diagonal.amax(2) == 0,
        starts=[torch.cat(of_layer) for of_layer in zip(*starts, strict=True)],
        directions=BLOCK,
    )


def _leading(gram: Tensor) -> Tensor:
    """Roughly the eigenvector of the largest eigenvalue: (..., n, n) -> (..., 1, n)."""
    vector = gram.new_ones(*gram.shape[:-2], 1, gram.shape[-1])
    for _ in range(8):
        vector = vector @ gram
        vector = vector / torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector


def _signs(x: Tensor, seed: int, block: int, sample: int) -> Tensor:
    """The random signs of one sample, the same whatever its batch is: (BLOCK, ...)."""
    generator = np.random.default_rng([seed, block, sample])
    drawn = generator.integers(2, size=(BLOCK, *x.shape), dtype=np.int8)
    return torch.from_numpy(2 * drawn - 1).to(x)


def _with_error(found: Tensor) -> Tensor:
    """Value and error, (2, ...), from that with all directions and those without each."""
    return torch.stack(jackknife(found[..., 0], found[..., 1:]))


def _error(draws: Tensor) -> Tensor:
    """Standard error of the mean over the last dimension."""
    return draws.std(-1) / draws.shape[-1] ** 0.5


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Mean over the samples of a ratio of sums over directions, both (samples, directions).

    With all directions first, then without each of them: (1 + directions,).
    """

    def without(table: Tensor) -> Tensor:
        whole = table.sum(1, keepdim=True)
        return torch.cat([whole, whole - table], 1)

    return (without(above) / without(below))[below.amax(1) > 0].mean(0)


def _dimensions(gram: Tensor) -> Tensor:
    """The mean dimension with all directions and without each of them: (layers, 1 + directions).

    gram: <A r_i, A r_j>, (samples, layers, directions, directions). Pairs of different directions
    give unbiased estimates of (Tr C)^2 and Tr C^2.
    """
    diagonal = gram.diagonal(dim1=2, dim2=3)
    whole, squares = diagonal.sum(2, keepdim=True), diagonal.square()
    traces = whole.square() - squares.sum(2, keepdim=True)
    fewer = traces - 2 * diagonal * (whole - diagonal)
    inner = gram.square().sum(3) - squares
    pairs = inner.sum(2, keepdim=True)
    ratios = torch.cat([traces / pairs, fewer / (pairs - 2 * inner)], 2)
    return ratios.nanmean(0)  # without the samples where A^l is zero


def largest_values(
    maps: FeatureMaps,
    inputs: Tensor,
    starts: Sequence[Tensor],
    accuracy: float,
    progress: bool = False,
) -> Tensor:
    """||A^l||_2, until its mean over the samples changes by less than the accuracy.

    Lower bounds, and relative residuals of the singular vectors: (2, samples, layers), float64.

    starts: of the iterations, (samples, M_l) of each layer.
    accuracy: relative to the mean.
    """
    columns = []
    others = len(maps.modules) - len({*maps.modules} & {*maps.unchanged})
    with ProgressBar("norms of layers", TYPICAL * len(inputs) * others, progress) as forecast:
        for name, start in zip(maps.modules, starts, strict=True):
            if name in maps.unchanged:
                one = torch.ones(len(inputs), dtype=torch.float64, device=inputs.device)
                columns.append(torch.stack([one, one * 0]))
                continue
            zero = (start == 0).all(1, keepdim=True) | ~start.isfinite().all(1, keepdim=True)
            start = torch.where(zero, 1.0, start).to(inputs)
            alone = FeatureMaps(maps.model, {name: maps.modules[name]})
            columns.append(_of_layer(alone, inputs, start, accuracy, forecast))
    return torch.stack(columns, 2)


def _of_layer(
    alone: FeatureMaps, inputs: Tensor, starts: Tensor, accuracy: float, forecast: ProgressBar
) -> Tensor:
    """The same of one layer: (2, samples)."""

    def features(x: Tensor) -> Tensor:
        return alone(x)[0] + 0 * x.flatten(1)[:, :1]  # of x, also where the layer is not

    size = samples_at_a_time(features, inputs)
    parts = []
    for x, u in zip(inputs.split(size), starts.split(size), strict=True):
        how: dict[str, Any] = {"in_the_mean": True, "tick": partial(forecast.tick, len(x))}
        found = largest_singular_values(Jacobian(features, x), accuracy, STEPS, start=u, **how)
        parts.append(torch.stack([found.values, found.residuals]))
    return torch.cat(parts, 1)
