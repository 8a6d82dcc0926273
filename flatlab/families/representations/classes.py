"""Classes in the inputs x^l of layers: neural collapse, dimensions, and what a linear map explains.

Source: Papyan, Han and Donoho (2020), "Prevalence of neural collapse during the terminal phase of
deep learning training"; chen2026 Sec. 3.5. Sigma_W is the mean over the classes of the (biased)
covariance within a class, Sigma_B the covariance of the class means, mu_G the mean of these.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

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

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor) -> "Classes":
        present, numbers = labels.unique(return_inverse=True)
        return cls(inputs, numbers, present)

    @property
    def counts(self) -> Tensor:
        return self.numbers.bincount(minlength=len(self.labels)).double()

    @property
    def of_half(self) -> Tensor:
        """Whether a sample is in the first half of its class, the larger one: (samples,)."""
        unit = nn.functional.one_hot(self.numbers, len(self.labels))
        place = (unit.cumsum(0) * unit).sum(1)  # 1 for the first of its class
        return 2 * place <= self.counts[self.numbers] + 1

    def half(self) -> "Classes":
        """The first half of the samples of each class."""
        kept = self.of_half
        return Classes(self.inputs[kept], self.numbers[kept], self.labels)

    def means(self, rows: Tensor) -> Tensor:
        """Of each class: (samples, numbers) -> (classes, numbers)."""
        sums = rows.new_zeros(len(self.labels), rows.shape[1])
        return sums.index_add_(0, self.numbers, rows) / self.counts.to(rows)[:, None]


def collapse(
    maps: FeatureMaps, classes: Classes, head: nn.Linear | None, size: int, memory: dict[str, Any]
) -> dict[str, Tensor]:
    """All quantities of global geometry by name: (layers,), or (layers, 3), or ().

    Those that end in `_half` are of the first half of each class.
    maps: the layers are read one after the other where their inputs together are many.
    head: the last layer, where the outputs are what it returns.
    size: samples at a time.
    memory: of the same samples; keeps the geometry of x itself, which does not depend on weights.
    """
    eps = torch.finfo(classes.inputs.dtype).eps
    with torch.no_grad():
        numbers = sum(each.shape[1] for each in maps(classes.inputs[:1]))
    together = 8 * numbers * len(classes.inputs) <= TOGETHER
    names = list(maps.modules)
    sets = ("", classes, slice(None)), ("_half", classes.half(), classes.of_half)
    of_layers: list[dict[str, Tensor]] = []
    for some in [names] if together else [[name] for name in names]:
        part = FeatureMaps(maps.model, {name: maps.modules[name] for name in some})
        with torch.no_grad():
            rows = [part(x) for x in classes.inputs.split(size)]
        *features, outputs = (torch.cat(each).double() for each in zip(*rows, strict=True))
        for name, x in zip(some, features, strict=True):
            known: dict[str, Any] = memory if name in maps.unchanged else {}
            values: dict[str, Tensor] = {}
            for end, chosen, which in sets:
                if f"geometry{end}" not in known:
                    known[f"geometry{end}"] = _geometry(x[which], chosen, eps)
                geometry, nearest = known[f"geometry{end}"]
                geometry = _with_nearest(geometry, nearest, outputs[which], chosen)
                values |= {f"{name}{end}": value for name, value in geometry.items()}
            of_layers.append(values)
    table = {name: torch.stack([each[name] for each in of_layers]) for name in of_layers[0]}
    for end, chosen, which in sets:
        table[f"collapse_duality{end}"] = _duality(head, features[-1][which], chosen)
    return table


def _geometry(x: Tensor, classes: Classes, eps: float) -> tuple[dict[str, Tensor], Tensor]:
    """What does not depend on the outputs, and the label of the nearest class mean: (samples,).

    x: the input of a layer, (samples, M_l).
    """
    count = len(classes.labels)
    means = classes.means(x)
    middle = means.mean(0)
    centred, inner = means - middle, x - means[classes.numbers]
    floor = (ROUNDING * eps) ** 2 * x.square().sum(1).mean()
    shares = 1 / (count * classes.counts[classes.numbers])  # of each sample in Sigma_W
    _, roots, axes = torch.linalg.svd(centred.nan_to_num() / count**0.5, full_matrices=False)
    kept = (roots.square() > CUT_OFF * roots[0].square()) & (roots.square() > floor)
    squares = (shares[:, None] * (inner @ axes[kept].T).square()).sum(0)
    deficient = kept.sum() < min(count - 1, x.shape[1])
    norms = centred.norm(dim=1)
    unit = centred / norms[:, None]
    first, second = torch.triu_indices(count, count, 1, device=x.device)
    cosines = (unit[first] * unit[second]).sum(1)
    apart = (norms.square() > floor).all()
    nothing = x.new_tensor(torch.nan)
    within = (squares / roots[kept].square()).sum() / count
    spread = norms.std(correction=0) / norms.mean()
    angles = (cosines + 1 / (count - 1)).abs().mean()
    scores = centred.square().sum(1) - 2 * (x - middle) @ centred.T
    values = {
        "collapse_within": torch.where(deficient, nothing, within),
        "collapse_norms": torch.where(apart, spread, nothing),
        "collapse_angles": torch.where(apart, angles, nothing),
        "representation_dimension": _dimensions(x, inner, centred, classes, floor),
        "collapse_means_rank": kept.sum().double(),
        "collapse_deficient": deficient.double(),
    }
    return values, classes.labels[scores.argmin(1)]


def _with_nearest(
    values: dict[str, Tensor], nearest: Tensor, outputs: Tensor, classes: Classes
) -> dict[str, Tensor]:
    """And how often the nearest class mean and the outputs (samples, N) disagree."""
    comparable = bool(classes.labels.max() < outputs.shape[1]) and outputs.shape[1] > 1
    disagree = (nearest != outputs.argmax(1)).double().mean()
    return values | {
        "collapse_nearest": disagree if comparable else torch.full_like(disagree, torch.nan)
    }


def _dimensions(
    x: Tensor, inner: Tensor, centred: Tensor, classes: Classes, floor: Tensor
) -> Tensor:
    """Participation ratios of the covariance of x, within classes and of their means: (3,).

    x, inner: and less the mean of its class, (samples, M_l).
    centred: class means less their mean, (classes, M_l).
    """
    samples, shares = len(x), 1 / (len(centred) * classes.counts)
    if samples <= x.shape[1]:
        whole = _gram((x - x.mean(0)) / samples**0.5)
        within = _gram(inner * shares.sqrt()[classes.numbers][:, None])
    else:  # both from the products of each class
        weights = classes.counts / samples
        off = centred - weights @ centred
        whole = (weights[:, None] * off).T @ off
        within = torch.zeros_like(whole)
        for number, share in enumerate(shares):
            rows = inner[classes.numbers == number]
            product = rows.T @ rows
            within += share * product
            whole += product / samples
    of_means = _gram(centred / len(centred) ** 0.5)
    return torch.stack([_participation(each, floor) for each in (whole, within, of_means)])


def _gram(rows: Tensor) -> Tensor:
    """The inner products of rows, or those of columns where these are fewer."""
    return rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows


def _participation(gram: Tensor, floor: Tensor) -> Tensor:
    """(Tr C)^2 / Tr C^2 of a covariance C with these nonzero eigenvalues."""
    trace = gram.trace()
    return torch.where(trace > floor, trace.square() / gram.square().sum(), torch.nan)


def _duality(head: nn.Linear | None, x: Tensor, classes: Classes) -> Tensor:
    """NC3; NaN unless the outputs are the classes present."""
    count = len(classes.labels)
    own = torch.arange(count, device=x.device)
    if head is None or len(head.weight) != count or not torch.equal(classes.labels, own):
        return x.new_tensor(torch.nan)
    means = classes.means(x)
    centred, weight = means - means.mean(0), head.weight.detach().double()
    return torch.linalg.vector_norm(weight / weight.norm() - centred / centred.norm())


def linear_shares(maps: FeatureMaps, classes: Classes, size: int) -> dict[str, Tensor]:
    """What A^l at the mean input of a class explains, of each layer: (layers,).

    size: samples at a time.
    """
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
