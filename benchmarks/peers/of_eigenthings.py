"""hessian-eigenthings, tried."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
from torch import nn

from benchmarks.peers import problem
from benchmarks.peers.problem import COUNT, LOSS, Problem, Transformer, are_eigenvectors, close


def operator(model: nn.Module, batches: Any, matrix: str = "hessian", **options: Any) -> Any:
    import hessian_eigenthings as peer

    if matrix == "gauss-newton":
        of_output = peer.supervised_loss_of_output(LOSS)
        return peer.GGNOperator(model, batches, peer.supervised_forward, of_output, **options)
    if matrix == "empirical-fisher":
        per_sample = peer.supervised_per_sample_loss(LOSS)
        return peer.EmpiricalFisherOperator(model, batches, per_sample, **options)
    return peer.HessianOperator(model, batches, peer.supervised_loss(LOSS), **options)


def pairs(linear: Any, which: str = "LA", k: int = COUNT) -> Any:
    import hessian_eigenthings as peer

    return peer.lanczos(
        linear, k=k, max_iter=min(50, linear.size), which=which, seed=0, reorthogonalize=True
    )


def values(p: Problem, matrix: str, which: str = "LA", **options: Any) -> np.ndarray:
    found = pairs(operator(p.model, [(p.x, p.y)], matrix, **options), which)
    return found.eigenvalues.numpy()


def fisher(p: Problem) -> Any:
    return close(values(p, "gauss-newton"), problem.largest(p.fisher)) and "yes, as Gauss-Newton"


def one_layer(p: Problem) -> bool:
    from hessian_eigenthings import match_names

    found = values(p, "hessian", param_filter=match_names("0.*"))
    return close(found, problem.of_first_layer(p.hessian))


def residuals(p: Problem) -> bool:
    import hessian_eigenthings as peer

    linear = operator(p.model, [(p.x, p.y)])
    found = peer.lanczos(linear, k=COUNT, max_iter=20, which="LA", seed=0, reorthogonalize=True)
    v = found.eigenvectors.numpy()
    rest = v @ p.hessian.numpy() - found.eigenvalues.numpy()[:, None] * v
    return np.allclose(np.linalg.norm(rest, axis=1), found.residuals, rtol=1e-2, atol=1e-6)


def vectors(p: Problem) -> bool:
    found = pairs(operator(p.model, [(p.x, p.y)]))
    return are_eigenvectors(found.eigenvalues, found.eigenvectors, p.hessian)


def density(p: Problem) -> Any:
    import hessian_eigenthings as peer

    linear = operator(p.model, [(p.x, p.y)])
    return peer.spectral_density(linear, num_runs=50, lanczos_steps=30, seed=0)


def has_density(p: Problem) -> bool:
    found = density(p)
    return problem.same_mean(found.raw_eigenvalues, found.raw_weights, p)


def density_error(p: Problem) -> bool:
    """Whether what it returns has an error; it has the quadratures of each start."""
    names = [field.name for field in dataclasses.fields(density(p))]
    return any("err" in name or "std" in name for name in names)


def left_alone(p: Problem) -> bool:
    model = copy.deepcopy(p.model).train()
    pairs(operator(model, [(p.x, p.y)]))
    return model.training and all(q.grad is None for q in model.parameters())


def top(model: nn.Module, batches: Any, loss: Any = None) -> Any:
    import hessian_eigenthings as peer

    linear = peer.HessianOperator(model, batches, loss or peer.supervised_loss(LOSS))
    return pairs(linear, k=1).eigenvalues


def of_batch(p: Problem) -> Any:
    model = problem.OfDictionary(p.model)
    found = top(model, [problem.dictionary(p)], lambda m, b: LOSS(m(b), b["labels"]))
    return close(found, problem.largest(p.hessian, 1))


def transformer(t: Transformer) -> bool:
    import hessian_eigenthings as peer

    return close(top(t.model, [t.batch], peer.hf_lm_loss()), t.largest)


TRIES = {
    "largest eigenvalues of H": lambda p: close(values(p, "hessian"), problem.largest(p.hessian)),
    "smallest eigenvalues of H": lambda p: close(
        values(p, "hessian", "SA"), problem.smallest(p.hessian)
    ),
    "eigenvalues of H of largest modulus": lambda p: close(
        values(p, "hessian", "LM"), problem.of_largest_modulus(p.hessian)
    ),
    "of Gauss-Newton": lambda p: close(values(p, "gauss-newton"), problem.largest(p.gauss_newton)),
    "of the Fisher matrix": fisher,
    "of the empirical Fisher": lambda p: close(
        values(p, "empirical-fisher"), problem.largest(p.empirical_fisher)
    ),
    "of one layer": one_layer,
    "residual of each": residuals,
    "eigenvectors": vectors,
    "density of the eigenvalues": has_density,
    "its standard error": density_error,
    "leaves mode and gradients": left_alone,
    "batches of 12, 12 and 6 samples": lambda p: close(
        top(p.model, p.loader()), problem.largest(p.hessian, 1)
    ),
    "batch that is a dictionary": of_batch,
    "network of transformers, its batch": transformer,
    "wrong second derivative is found": lambda p: close(
        top(problem.wrong(p), [(p.x, p.y)]), problem.largest(p.hessian, 1)
    ),
}
