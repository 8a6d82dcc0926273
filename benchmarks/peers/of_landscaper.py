"""Landscaper, tried."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers import problem
from benchmarks.peers.of_pyhessian import BY_FREEZING, LONG
from benchmarks.peers.problem import COUNT, Problem, Transformer, are_eigenvectors, close, same_mean

CPU = torch.device("cpu")


def of(model: nn.Module, data: Any, **options: Any) -> Any:
    from landscaper.hessian import PyHessian

    with contextlib.redirect_stdout(io.StringIO()):
        return PyHessian(copy.deepcopy(model), nn.CrossEntropyLoss(), data, CPU, **options)


def values(p: Problem) -> np.ndarray:
    return np.array(of(p.model, p.batches()).eigenvalues(top_n=COUNT, **LONG)[0])


def one_layer(p: Problem) -> Any:
    model = copy.deepcopy(p.model)
    model[2].requires_grad_(False)
    found = of(model, p.batches()).eigenvalues(**LONG)[0]
    return close(found, problem.of_largest_modulus(p.hessian[:35, :35])[:1]) and BY_FREEZING


def vectors(p: Problem) -> bool:
    found, v = of(p.model, p.batches()).eigenvalues(top_n=COUNT, **LONG)
    flat = [torch.cat([part.reshape(-1) for part in one]).detach() for one in v]
    return are_eigenvectors(found, torch.stack(flat), p.hessian)


def density(p: Problem) -> Any:
    """Its weights are squares of whole eigenvectors; a quadrature has their first components."""
    nodes, weights = of(p.model, p.batches()).density(iter=30, n_v=50)
    at, w = np.asarray(nodes).real, np.asarray(weights).real
    assert w.shape == (50, 30, 30)
    return same_mean(at, w[:, 0], p) and "yes, by row 0 of its weights"


def on_grid(p: Problem, directions: list[Any], seen: list[torch.Tensor] | None = None) -> Any:
    """The losses, without what is printed; the parameters of all points are kept in `seen`."""
    from landscaper import LossLandscape

    model = copy.deepcopy(p.model)

    def loss(model: nn.Module, data: Any) -> float:
        if seen is not None:
            seen.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
        return float(problem.LOSS(model(data[0]), data[1]))

    how = {"steps": 5, "distance": 1.0, "dim": len(directions), "device": "cpu"}
    with contextlib.redirect_stdout(io.StringIO()):
        return LossLandscape.compute(model, (p.x, p.y), directions, loss, **how)


def random(p: Problem, dimensions: int) -> list[Any]:
    from landscaper.utils import generate_random_orthogonal_directions

    return generate_random_orthogonal_directions(p.model, dimensions)


def landscape(p: Problem, directions: list[Any]) -> Any:
    """All but the highest point, to which it adds noise, have the loss of their parameters."""
    seen: list[torch.Tensor] = []
    found = np.asarray(on_grid(p, directions, seen).loss).ravel()
    exact = np.array([p.loss(theta) for theta in seen])
    same = np.isclose(found, exact, rtol=1e-9)
    if same.all():
        return True
    noise = (~same).nonzero()[0].tolist() == [int(exact.argmax())]
    return noise and "yes, with noise at its maximum"


def by_filters(p: Problem) -> Any:
    """Whether rows of a direction are as long as those of the weights; it scales tensors."""
    from landscaper.compute import normalize_direction

    weights = [q.detach() for q in p.model.parameters()]
    (direction,) = random(p, 1)
    scaled = normalize_direction(direction, weights)
    return np.allclose(scaled[0].norm(dim=1), weights[0].norm(dim=1), rtol=1e-3)


def through_networks(p: Problem) -> bool:
    """Whether a line along the difference of two networks passes through the second one."""
    end = nn.utils.parameters_to_vector(p.other().parameters()).detach()
    parts = (end - p.theta).split([q.numel() for q in p.model.parameters()])
    shapes = [q.shape for q in p.model.parameters()]
    seen: list[torch.Tensor] = []
    on_grid(p, [[v.view(s).clone() for v, s in zip(parts, shapes, strict=True)]], seen)
    step = seen[-1] - p.theta
    along = float(step @ (end - p.theta) / step.norm() / (end - p.theta).norm())
    return along > 1 - 1e-6


def eigenvectors(p: Problem) -> list[Any]:
    found = of(p.model, p.batches()).eigenvalues(top_n=2, **LONG)[1]
    return [[part.detach() for part in one] for one in found]


def drawn(p: Problem, what: str) -> bool:
    import matplotlib as mpl

    mpl.use("Agg")
    if what == "landscape":
        return on_grid(p, random(p, 2)).show_contour(show=False) is not None
    from landscaper.plots import hessian_eigenvalues

    return hessian_eigenvalues(values(p), show=False) is not None


def topology(p: Problem) -> bool:
    return bool(on_grid(p, random(p, 2)).get_persistence())


def left_alone(p: Problem) -> bool:
    from landscaper.hessian import PyHessian

    model = copy.deepcopy(p.model).train()
    with contextlib.redirect_stdout(io.StringIO()):
        PyHessian(model, nn.CrossEntropyLoss(), p.batches(), CPU).eigenvalues()
    return model.training and all(q.grad is None for q in model.parameters())


def top(model: nn.Module, data: Any, **options: Any) -> Any:
    return of(model, data, **options).eigenvalues(**LONG)[0]


def named(model: nn.Module, criterion: Any, data: Any, device: Any) -> Iterator[Any]:
    """A generator of gradients as it takes one, of batches that are dictionaries."""
    parameters = [q for q in model.parameters() if q.requires_grad]
    for batch in data:
        out = model(**batch)
        loss = out.loss if hasattr(out, "loss") else criterion(out, batch["labels"])
        yield (
            len(batch["labels"]),
            torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True),
        )


def of_batch(p: Problem) -> Any:
    found = top(problem.OfDictionary(p.model), [problem.dictionary(p)], hessian_generator=named)
    return close(found, problem.of_largest_modulus(p.hessian)[:1]) and "yes, by code of one's own"


def transformer(t: Transformer) -> Any:
    found = top(t.model, [t.batch], hessian_generator=named)
    return close(found, t.of_largest_modulus) and "yes, by code of one's own"


TRIES = {
    "largest eigenvalues of H": lambda p: close(values(p), problem.largest(p.hessian)),
    "eigenvalues of H of largest modulus": lambda p: close(
        values(p), problem.of_largest_modulus(p.hessian)
    ),
    "of one layer": one_layer,
    "eigenvectors": vectors,
    "density of the eigenvalues": density,
    "loss on a random line": lambda p: landscape(p, random(p, 1)),
    "on a random plane": lambda p: landscape(p, random(p, 2)),
    "directions normalized by filters": by_filters,
    "on a plane of top eigenvectors": lambda p: landscape(p, eigenvectors(p)),
    "on a plane through networks": through_networks,
    "in three dimensions": lambda p: landscape(p, random(p, 3)),
    "topology of a landscape": topology,
    "picture of a spectrum": lambda p: drawn(p, "spectrum"),
    "picture of a landscape": lambda p: drawn(p, "landscape"),
    "leaves mode and gradients": left_alone,
    "batches of 12, 12 and 6 samples": lambda p: close(
        top(p.model, p.loader()), problem.of_largest_modulus(p.hessian)[:1]
    ),
    "batch that is a dictionary": of_batch,
    "network of transformers, its batch": transformer,
    "wrong second derivative is found": lambda p: close(
        top(problem.wrong(p), p.batches()), problem.of_largest_modulus(p.hessian)[:1]
    ),
}
