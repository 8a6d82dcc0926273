"""Compare classes in the inputs x^l of layers: neural collapse, and what a linear map explains.

Source: Papyan, Han and Donoho (2020), "Prevalence of neural collapse during the terminal phase of
deep learning training"; chen2026 Sec. 3.5. Sigma_W is the mean over the classes of the (biased)
covariance within a class, Sigma_B the covariance of the class means.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flatlab.derivatives.jacobians.feature_maps import FeatureMaps

CUT_OFF = 1e-10
"""Of eigenvalues of Sigma_B, relative to the largest."""
ROUNDING = 100.0
"""Units of rounding, relative to the size of x^l, up to which deviations count as none."""

TOGETHER = 2**28
"""Bytes of the inputs of all layers up to which one forward pass serves them all."""


@dataclass(frozen=True)
class Classes:
    """Samples with their classes.

    inputs: (samples, ...).
    numbers: of the class of each sample among those present, (samples,).
    labels: of the classes present, ascending.
    """

    inputs: Tensor
    numbers: Tensor
    labels: Tensor

    @property
    def counts(self) -> Tensor:
        return self.numbers.bincount(minlength=len(self.labels)).double()

    def means(self, rows: Tensor) -> Tensor:
        """Of each class: (samples, numbers) -> (classes, numbers)."""
        sums = rows.new_zeros(len(self.labels), rows.shape[1])
        return sums.index_add_(0, self.numbers, rows) / self.counts.to(rows)[:, None]


def collapse_within(
    maps: FeatureMaps, classes: Classes, size: int, memory: dict[str, Any]
) -> Tensor:
    """Tr(Sigma_W Sigma_B^+) / K of each layer: (layers,).

    maps: the layers are read one after the other where their inputs together are many.
    memory: of the same samples; keeps the value of x itself, which does not depend on weights.
    """
    eps = torch.finfo(classes.inputs.dtype).eps
    with torch.no_grad():
        numbers = sum(each.shape[1] for each in maps(classes.inputs[:1]))
    together = 8 * numbers * len(classes.inputs) <= TOGETHER
    names = list(maps.modules)
    found = []
    for some in [names] if together else [[name] for name in names]:
        part = FeatureMaps(maps.model, {name: maps.modules[name] for name in some})
        with torch.no_grad():
            rows = [part(x)[:-1] for x in classes.inputs.split(size)]
        for name, x in zip(some, zip(*rows, strict=True), strict=True):
            known: dict[str, Any] = memory if name in maps.unchanged else {}
            if "collapse" not in known:
                known["collapse"] = _within(torch.cat(x).double(), classes, eps)
            found.append(known["collapse"])
    return torch.stack(found)


def _within(x: Tensor, classes: Classes, eps: float) -> Tensor:
    """NC1 of the input of a layer; NaN where the class means are too few or alike.

    x: (samples, M_l).
    """
    count = len(classes.labels)
    means = classes.means(x)
    centred, inner = means - means.mean(0), x - means[classes.numbers]
    floor = (ROUNDING * eps) ** 2 * x.square().sum(1).mean()
    shares = 1 / (count * classes.counts[classes.numbers])  # of each sample in Sigma_W
    _, roots, axes = torch.linalg.svd(centred.nan_to_num() / count**0.5, full_matrices=False)
    kept = (roots.square() > CUT_OFF * roots[0].square()) & (roots.square() > floor)
    squares = (shares[:, None] * (inner @ axes[kept].T).square()).sum(0)
    deficient = kept.sum() < min(count - 1, x.shape[1])
    within = (squares / roots[kept].square()).sum() / count
    return torch.where(deficient, x.new_tensor(torch.nan), within)


def linear_shares(maps: FeatureMaps, classes: Classes, size: int) -> dict[str, Tensor]:
    """What A^l at the mean input of a class explains, of each layer: (layers,)."""
    inputs, eps = classes.inputs, torch.finfo(classes.inputs.dtype).eps
    centres = classes.means(inputs.flatten(1)).view(-1, *inputs.shape[1:])
    chunks = list(zip(inputs.split(size), classes.numbers.split(size), strict=True))
    with torch.no_grad():
        of_centres = [each.double() for each in maps(centres)[:-1]]
        sums = [torch.zeros_like(each) for each in of_centres]
        squares = [each.new_zeros(()) for each in of_centres]
        for x, numbers in chunks:
            for layer, each in enumerate(maps(x)[:-1]):
                sums[layer].index_add_(0, numbers, each.double())
                squares[layer] += torch.linalg.vector_norm(each.double()).square()
        means = [each / classes.counts[:, None] for each in sums]
    totals = torch.zeros(2, 2, len(means), dtype=torch.float64, device=inputs.device)
    for x, numbers in chunks:
        at = centres[numbers]
        predicted = maps.along(at, (x - at)[None])
        with torch.no_grad():
            features = maps(x)[:-1]
        for layer, each in enumerate(features):
            for kind, origin in enumerate((of_centres[layer], means[layer])):
                moved = each.double() - origin[numbers]
                for part in range(2):
                    totals[kind, part, layer] += torch.linalg.vector_norm(moved).square()
                    moved -= predicted[layer][0]
    floor = (ROUNDING * eps) ** 2 * torch.stack(squares)
    shares = torch.where(totals[:, 0] > floor, 1 - totals[:, 1] / totals[:, 0], torch.nan)
    return dict(zip(("linear_share", "linear_share_within"), shares, strict=True))
