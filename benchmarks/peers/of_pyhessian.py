"""PyHessian, tried."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers import problem
from benchmarks.peers.problem import COUNT, Problem, Transformer, are_eigenvectors, close, same_mean

LONG = {"maxIter": 2000, "tol": 1e-9}
BY_FREEZING = "yes, if the others require no gradient"


def of(model: nn.Module, **data: Any) -> Any:
    from pyhessian import hessian

    return hessian(copy.deepcopy(model), nn.CrossEntropyLoss(), cuda=False, **data)


def values(p: Problem) -> np.ndarray:
    return np.array(of(p.model, data=(p.x, p.y)).eigenvalues(top_n=COUNT, **LONG)[0])


def one_layer(p: Problem) -> Any:
    model = copy.deepcopy(p.model)
    model[2].requires_grad_(False)
    found = of(model, data=(p.x, p.y)).eigenvalues(**LONG)[0]
    return close(found, problem.of_largest_modulus(p.hessian[:35, :35])[:1]) and BY_FREEZING


def vectors(p: Problem) -> bool:
    found, v = of(p.model, data=(p.x, p.y)).eigenvalues(top_n=COUNT, **LONG)
    flat = [torch.cat([part.reshape(-1) for part in one]).detach() for one in v]
    return are_eigenvectors(found, torch.stack(flat), p.hessian)


def left_alone(p: Problem) -> bool:
    from pyhessian import hessian

    model = copy.deepcopy(p.model).train()
    hessian(model, nn.CrossEntropyLoss(), data=(p.x, p.y), cuda=False).eigenvalues()
    return model.training and all(q.grad is None for q in model.parameters())


def top(model: nn.Module, **data: Any) -> Any:
    return of(model, **data).eigenvalues(**LONG)[0]


def of_batch(p: Problem) -> bool:
    batch = problem.dictionary(p)
    found = top(problem.OfDictionary(p.model), dataloader=[batch])
    return close(found, problem.of_largest_modulus(p.hessian)[:1])


def transformer(t: Transformer) -> bool:
    return close(top(t.model, dataloader=[t.batch]), t.of_largest_modulus)


TRIES = {
    "largest eigenvalues of H": lambda p: close(values(p), problem.largest(p.hessian)),
    "eigenvalues of H of largest modulus": lambda p: close(
        values(p), problem.of_largest_modulus(p.hessian)
    ),
    "of one layer": one_layer,
    "eigenvectors": vectors,
    "density of the eigenvalues": lambda p: same_mean(
        *of(p.model, data=(p.x, p.y)).density(iter=30, n_v=50), p
    ),
    "leaves mode and gradients": left_alone,
    "batches of 12, 12 and 6 samples": lambda p: close(
        top(p.model, dataloader=p.loader()), problem.of_largest_modulus(p.hessian)[:1]
    ),
    "batch that is a dictionary": of_batch,
    "network of transformers, its batch": transformer,
    "wrong second derivative is found": lambda p: close(
        top(problem.wrong(p), data=(p.x, p.y)), problem.of_largest_modulus(p.hessian)[:1]
    ),
}
