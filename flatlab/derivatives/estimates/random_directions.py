"""Sums over all outputs of a network, estimated from derivatives along random signs.

With J the derivative of the outputs of a sample in some variables and r a vector of random signs,
E |J^T r|^2 = ||J||_F^2, and with an independent s, E <J^T r, J^T s>^2 = ||J J^T||_F^2: one backward
pass of all samples for each r, whatever the number of outputs. Signs are drawn for each sample on
its own. Source: Hutchinson (1990).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.core.progress import ProgressBar
from flatlab.derivatives.per_sample.forward_pass import ForwardPass, Record
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.values import ParameterSquares, squared_norm

ROUND = 30
"""Directions of a round, the fewest of an estimate."""

MOST_ROUNDS = 100
HELD = 2**31
"""Bytes of derivatives and graphs held at a time, unless a budget is given."""

Squares = dict[tuple[str, str], Tensor]
"""By layer ("" for the network) and quantity."""


@dataclass(frozen=True)
class DirectionalSquares:
    """Squares of derivatives along a number of random directions, of some samples.

    squares: |J^T r|^2 by layer ("" for the network) and by what the derivatives are in,
        (rounds, ROUND, samples): of the network `sharpness`, `adaptive`, `jacobian2` and `scaled2`,
        of a layer `weight2`, `bias2`, `gamma2` and `scaled2`, as in `Layer` and `Derivatives`.
    products: <J^T r, J^T s> in the inputs, of pairs of a round, (rounds, samples, ROUND, ROUND).
    outputs: (samples, N).
    x2: by layer ("" for the network), ||x||^2 of its input, (samples,).
    about: by layer, the further fields of a `Layer`.
    """

    squares: Squares
    products: Tensor
    outputs: Tensor
    x2: dict[str, Tensor]
    about: dict[str, dict[str, Any]]


def samples_of_directions(findings: Findings, inputs: Tensor, held: int) -> int:
    """How many samples fit at a time.  held: bytes."""
    of_one = 2 * findings.numbers + ROUND * inputs[0].numel() + 4 * findings.outputs
    return min(max(1, held // (2 * of_one * inputs.element_size())), len(inputs))


def drawn(
    model: nn.Module,
    inputs: Tensor,
    findings: Findings,
    accuracy: float,
    *,
    of: Sequence[str] = ("sharpness", "jacobian2"),
    adaptive: bool,
    size: int,
    seed: int,
    progress: bool,
) -> DirectionalSquares:
    """As many rounds as are needed for an accuracy, at least one.

    findings: of `checked_findings`.
    accuracy: the relative standard error wanted, due to the directions.
    of: quantities of the network that must reach it.
    adaptive: also the sums weighted by theta^2.
    """

    def along(rounds: range) -> DirectionalSquares:
        """A forward pass of each batch, a backward pass for each direction of these rounds."""
        parts = []
        for start in range(0, len(inputs), size):
            graph = ForwardPass(model, inputs[start : start + size], findings)
            which = range(start, start + len(graph.inputs))
            squares: list[Squares] = []
            products = []
            for number in rounds:
                pulled = []
                for k in range(ROUND * number, ROUND * (number + 1)):
                    direction = signs(k, which, graph.outputs.shape[1], graph.outputs, seed)
                    found, row = _one(model, graph.along(direction), findings, adaptive)
                    squares.append(found)
                    pulled.append(row)
                    forecast.tick(len(which))
                rows = torch.stack(pulled, 1)
                products.append(torch.stack([(sample @ sample.mT).double() for sample in rows]))
            parts.append(_batch(squares, products, graph, findings))
            del graph
        return _joined(parts)

    steps = ROUND * len(inputs)
    what = f"random directions for {len(inputs)} samples of {findings.outputs} outputs"
    with ProgressBar(what, steps, progress) as forecast:
        squares = along(range(1))
        while (error := _relative_error(squares, of)) > accuracy:
            have = len(squares.products)
            needed = math.ceil(have * (error / accuracy) ** 2)
            further = range(have, min(max(have + 1, needed), MOST_ROUNDS))
            if not further:
                break
            forecast.extend(steps * len(further))
            more = along(further)
            sums = {k: torch.cat([v, more.squares[k]]) for k, v in squares.squares.items()}
            products = torch.cat([squares.products, more.products])
            squares = replace(squares, squares=sums, products=products)
    return squares


def _relative_error(squares: DirectionalSquares, of: Sequence[str]) -> float:
    """The largest of the relative standard errors of some sums; 0 where they are not numbers."""
    errors = [0.0]
    for name in of:
        of_directions = squares.squares["", name].mean(2).flatten()
        ratio = of_directions.std() / of_directions.mean()
        errors.append(float(ratio.nan_to_num(0.0, 0.0, 0.0)) / len(of_directions) ** 0.5)
    return max(errors)


def signs(number: int, samples: Sequence[int], outputs: int, like: Tensor, seed: int) -> Tensor:
    """The random signs of one direction, (samples, outputs): the same in every batch.

    number: of the direction.  samples: their numbers.  like: of the type and device wanted.
    """
    draws = [
        np.random.default_rng((seed, number, sample)).integers(0, 2, outputs, dtype=np.int8)
        for sample in samples
    ]
    return torch.from_numpy(2 * np.stack(draws) - 1).to(like)


def _one(
    model: nn.Module, record: Record, findings: Findings, adaptive: bool
) -> tuple[Squares, Tensor]:
    """The squares along one direction, (samples,) each, and J^T r, (samples, M).

    Parameters that no rule covers are differentiated for all samples at once: as the signs of
    different samples are independent, the square of the sum is that of the mean, in expectation.
    It is given to each sample in equal parts.
    """
    here = len(record.inputs)
    with torch.no_grad():
        rest = {}
        for name, gradient in record.generic.items():
            weighted = gradient * dict(model.named_parameters())[name].detach()
            sums = torch.stack([gradient.square().sum(), weighted.square().sum()])
            rest[name] = sums[:, None].expand(2, here) / here
        squares = ParameterSquares(
            model, record.inputs, findings, record.out, adaptive, False, rest
        )
        pulled = record.whole[0].flatten(1)
        result = {
            ("", "sharpness"): squares.plain,
            ("", "jacobian2"): squared_norm(pulled),
            ("", "scaled2"): squared_norm(pulled * record.x.flatten(1)),
        }
        if squares.adaptive is not None:
            result["", "adaptive"] = squares.adaptive
        for name in findings.layers:
            scaled = [row[0] * use.x for use, row in record.into.items() if use.name == name]
            result[name, "scaled2"] = sum(
                (squared_norm(part.reshape(here, -1)) for part in scaled), pulled.new_zeros(here)
            )
            for key in ("weight2", "bias2", "gamma2"):
                result[name, key] = squares.layers[name][key]
    return {key: value.double() for key, value in result.items()}, pulled


def _batch(
    squares: list[Squares], products: list[Tensor], graph: ForwardPass, findings: Findings
) -> DirectionalSquares:
    """squares: of each direction.  products: of each round."""
    here = len(graph.inputs)
    x2 = {"": squared_norm(graph.source.values.flatten(1)).double()}
    about = {}
    for name in findings.layers:
        uses = [use for use in graph.uses if use.name == name]
        rows = [use.x.reshape(here, -1) for use in uses]
        x2[name] = torch.stack([squared_norm(each).double() for each in rows]).sum(0)
        weight = uses[0].module.weight
        positions = uses[0].numbers // (here * len(weight))
        about[name] = {
            "name": name,
            "module": uses[0].module,
            "positions": positions * sum(use.module.weight is weight for use in graph.uses),
            "output_positions": positions,
            "elsewhere": f"{name}.weight" in findings.generic,
            "input_shape": tuple(uses[0].x.shape[1:]),
        }
    stacked = {key: torch.stack([each[key] for each in squares]) for key in squares[0]}
    of_rounds = {key: value.unflatten(0, (-1, ROUND)) for key, value in stacked.items()}
    outputs = graph.outputs.detach()
    return DirectionalSquares(of_rounds, torch.stack(products), outputs, x2, about)


def _joined(batches: list[DirectionalSquares]) -> DirectionalSquares:
    """All samples of the batches."""
    first = batches[0]
    return DirectionalSquares(
        {key: torch.cat([b.squares[key] for b in batches], 2) for key in first.squares},
        torch.cat([b.products for b in batches], 1),
        torch.cat([b.outputs for b in batches]),
        {name: torch.cat([b.x2[name] for b in batches]) for name in first.x2},
        first.about,
    )


def jackknife(whole: Tensor, without: Tensor) -> tuple[Tensor, Tensor]:
    """An estimate less its bias, and its standard error.

    whole: from all directions.  without: leaving out some each time, along the last dimension.
    """
    count, mean = without.shape[-1], without.mean(-1)
    variance = (count - 1) / count * (without - mean[..., None]).square().sum(-1)
    return count * whole - (count - 1) * mean, variance.sqrt()
