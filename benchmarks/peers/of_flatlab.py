"""flatlab, tried."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import torch
from torch import nn

import flatlab
from benchmarks.peers import problem
from benchmarks.peers.problem import COUNT, Problem, Transformer, are_eigenvectors, close
from flatlab.lab.figures.reports import pictures

HOW: dict[str, Any] = {"loss": "cross-entropy"}


def values(p: Problem, matrix: str, end: str = "largest", **options: Any) -> np.ndarray:
    count = {"largest": 0, "smallest": 0, end: COUNT}
    report = flatlab.measure(
        p.model, p.x, p.y, families="spectrum", matrices=[matrix], **HOW, **count, **options
    )
    return report[f"{end}_eigenvalue"].values


def by_modulus(p: Problem) -> bool:
    both = np.concatenate([values(p, "hessian", end).ravel() for end in ("largest", "smallest")])
    return close(both[np.argsort(-abs(both))[:COUNT]], problem.of_largest_modulus(p.hessian))


def spectrum(p: Problem, **options: Any) -> Any:
    report = flatlab.measure(p.model, p.x, p.y, families="spectrum", **HOW, **options)
    return report.isel(block=0, matrix=0)


def residuals(p: Problem) -> bool:
    here = spectrum(p, largest=COUNT, eigenvectors=True)
    v = here["largest_eigenvector"].values
    rest = v @ p.hessian.numpy() - here["largest_eigenvalue"].values[:, None] * v
    return np.allclose(np.linalg.norm(rest, axis=1), here["largest_residual"], atol=1e-6)


def vectors(p: Problem) -> bool:
    here = spectrum(p, largest=COUNT, eigenvectors=True)
    return are_eigenvectors(here["largest_eigenvalue"], here["largest_eigenvector"], p.hessian)


def density(p: Problem) -> bool:
    here = spectrum(p, largest=0, density_probes=50)
    distance = abs(float(here["spectral_trace"]) - float(p.hessian.trace()))
    return distance < 5 * float(here["spectral_trace_error"])


def density_error(p: Problem) -> bool:
    return bool((spectrum(p, largest=0, density_probes=50)["spectral_density_error"] > 0).any())


def landscape(p: Problem, dimensions: int, along: Any) -> bool:
    """Whether there is one, with the loss of the network at the origin."""
    found = flatlab.landscape(
        p.model, p.x, p.y, along=along, dimensions=dimensions, points=5, **HOW
    )
    at = found["loss"].sel({dim: 0 for dim in found["loss"].dims}, method="nearest")
    return found["loss"].ndim == dimensions and abs(float(at) - p.loss(p.theta)) < 1e-9


def by_filters(p: Problem) -> bool:
    """The loss at 1 of a line through a linear network of one filter is that of a step |w| long."""
    net = nn.Linear(6, 1, bias=False).double()
    line = flatlab.landscape(net, p.x, torch.zeros(30, 1).double(), points=3, loss="half-mse")
    ends = line["loss"].sel(first=[-1, 1]).values
    w, covariance = net.weight.detach(), p.x.T @ p.x / 30
    # (w + d) C (w + d) / 2 and (w - d) C (w - d) / 2 add up to w C w + d C d, with |d| = |w|.
    rest = ends.sum() - float((w @ covariance @ w.T).squeeze())
    bounds = torch.linalg.eigvalsh(covariance) * float((w @ w.T).squeeze())
    return bool(bounds[0] <= rest <= bounds[-1])


def through_networks(p: Problem) -> bool:
    others = [p.other(), p.other()]
    plane = flatlab.landscape(p.model, p.x, p.y, along=others, points=5, span=(0, 1), **HOW)
    there = float(problem.LOSS(others[0](p.x), p.y))
    return abs(float(plane["loss"].sel(first=1, second=0)) - there) < 1e-9


def barriers(p: Problem) -> bool:
    other = p.other()
    found = flatlab.barriers([p.model, other], p.x, p.y, points=11, **HOW)
    end = nn.utils.parameters_to_vector(other.parameters()).detach()
    losses = [p.loss(p.theta + t * (end - p.theta)) for t in np.linspace(0, 1, 11)]
    straight = np.linspace(losses[0], losses[-1], 11)
    highest = max(np.array(losses) - straight)
    return abs(float(found["barrier"].sel(network="0", other="1")) - highest) < 1e-6


def drawn(p: Problem, kind: str) -> bool:
    if kind == "landscape":
        report = flatlab.landscape(p.model, p.x, p.y, points=5, **HOW)
    else:
        report = flatlab.measure(p.model, p.x, p.y, families="spectrum", **HOW)
    return {*pictures(kind, {"one": report})} == {"pdf", "svg", "png", "csv"}


def tracker(p: Problem) -> bool:
    """A run with a tracker and one without: the same bytes and the same random numbers."""
    ends = []
    for tracked in (False, True):
        torch.manual_seed(0)
        model = copy.deepcopy(p.model).append(nn.Dropout(0.2)).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        track = flatlab.Tracker(model, p.x, p.y, every=2, **HOW)
        for step in range(5):
            if tracked:
                track(step)
            optimizer.zero_grad()
            problem.LOSS(model(p.x), p.y).backward()
            optimizer.step()
        state = nn.utils.parameters_to_vector(model.parameters()).detach().numpy().tobytes()
        ends.append((state, torch.rand(()).item(), random.getstate()))
    return ends[0] == ends[1] and track.table.sizes["step"] == 3


def left_alone(p: Problem) -> bool:
    model = copy.deepcopy(p.model).train()
    flatlab.measure(model, p.x, p.y, families="hessian", **HOW)
    return model.training and all(q.grad is None for q in model.parameters())


def top(model: nn.Module, *samples: Any) -> float:
    found = flatlab.measure(model, *samples, families="spectrum", largest=1, **HOW)
    return found["largest_eigenvalue"].values.item()


def transformer(t: Transformer) -> bool:
    return close(top(t.model, t.batch), t.largest)


def three_dimensions(p: Problem) -> bool:
    return bool(flatlab.landscape(p.model, p.x, p.y, dimensions=3, points=3, **HOW))


TRIES = {
    "largest eigenvalues of H": lambda p: close(values(p, "hessian"), problem.largest(p.hessian)),
    "smallest eigenvalues of H": lambda p: close(
        values(p, "hessian", "smallest"), problem.smallest(p.hessian)
    ),
    "eigenvalues of H of largest modulus": by_modulus,
    "of Gauss-Newton": lambda p: close(values(p, "gauss-newton"), problem.largest(p.gauss_newton)),
    "of the Fisher matrix": lambda p: close(values(p, "fisher"), problem.largest(p.fisher)),
    "of the empirical Fisher": lambda p: close(
        values(p, "empirical-fisher"), problem.largest(p.empirical_fisher)
    ),
    "of one layer": lambda p: close(
        values(p, "hessian", blocks=["0"]), problem.of_first_layer(p.hessian)
    ),
    "residual of each": residuals,
    "eigenvectors": vectors,
    "density of the eigenvalues": density,
    "its standard error": density_error,
    "loss on a random line": lambda p: landscape(p, 1, "random"),
    "on a random plane": lambda p: landscape(p, 2, "random"),
    "directions normalized by filters": by_filters,
    "on a plane of top eigenvectors": lambda p: landscape(p, 2, "eigenvectors"),
    "on a plane through networks": through_networks,
    "barriers between networks": barriers,
    "in three dimensions": three_dimensions,
    "picture of a spectrum": lambda p: drawn(p, "spectrum"),
    "picture of a landscape": lambda p: drawn(p, "landscape"),
    "tracker that leaves a run the same": tracker,
    "leaves mode and gradients": left_alone,
    "batches of 12, 12 and 6 samples": lambda p: close(
        top(p.model, p.loader()), problem.largest(p.hessian, 1)
    ),
    "batch that is a dictionary": lambda p: close(
        top(problem.OfDictionary(p.model), problem.dictionary(p)), problem.largest(p.hessian, 1)
    ),
    "network of transformers, its batch": transformer,
    "wrong second derivative is found": lambda p: close(
        top(problem.wrong(p), p.x, p.y), problem.largest(p.hessian, 1)
    ),
}
