"""curvlinops, tried; eigenvalues are by ARPACK in scipy, to which it hands its operators."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import problem
from benchmarks.peers.problem import COUNT, Problem, Transformer, are_eigenvectors, close


def operator(model: nn.Module, batches: Any, kind: str = "Hessian", **options: Any) -> Any:
    import curvlinops as peer

    parameters = options.pop("parameters", [*model.parameters()])
    linear = getattr(peer, f"{kind}LinearOperator")
    return linear(model, nn.CrossEntropyLoss(), parameters, batches, **options)


def arpack(linear: Any, which: str = "LA", k: int = COUNT) -> Any:
    from scipy.sparse.linalg import eigsh

    return eigsh(linear.to_scipy(), k=k, which=which)


def values(p: Problem, kind: str, which: str = "LA", **options: Any) -> np.ndarray:
    return arpack(operator(p.model, [(p.x, p.y)], kind, **options), which)[0]


def fisher(p: Problem) -> Any:
    found = values(p, "FisherMC", mc_samples=20000, check_deterministic=False)
    return close(found, problem.largest(p.fisher), 0.05) and "yes, of sampled classes"


def density(p: Problem) -> bool:
    """Whether its mean is that of the eigenvalues, up to a fiftieth of their range."""
    import curvlinops as peer

    torch.manual_seed(0)
    linear = operator(p.model, [(p.x, p.y)])
    at, density = peer.lanczos_approximate_spectrum(linear, 30, num_repeats=200)
    mean = torch.trapezoid(at * density, at) / torch.trapezoid(density, at)
    exact = p.hessian.trace() / len(p.hessian)
    return float(abs(mean - exact)) < 0.02 * float(at[-1] - at[0])


def left_alone(p: Problem) -> bool:
    model = copy.deepcopy(p.model).train()
    arpack(operator(model, [(p.x, p.y)]))
    return model.training and all(q.grad is None for q in model.parameters())


def inverse(p: Problem) -> bool:
    import curvlinops as peer
    from curvlinops.examples import IdentityLinearOperator

    linear = operator(p.model, [(p.x, p.y)], "GGN")
    shapes = [tuple(q.shape) for q in p.model.parameters()]
    damped = linear + IdentityLinearOperator(shapes, linear.device, linear.dtype)
    v = torch.randn(len(p.theta)).double()
    found = peer.CGInverseLinearOperator(damped, eps=1e-10) @ v
    exact = torch.linalg.solve(p.gauss_newton + torch.eye(len(v)).double(), v)
    return torch.allclose(found, exact, rtol=1e-4, atol=1e-6)


def top(model: nn.Module, batches: Any, **options: Any) -> Any:
    return arpack(operator(model, batches, **options), k=1)[0]


def of_batch(p: Problem) -> bool:
    batch = problem.dictionary(p)
    found = top(
        problem.OfDictionary(p.model),
        [(batch, batch["labels"])],
        batch_size_fn=lambda b: len(b["labels"]),
    )
    return close(found, problem.largest(p.hessian, 1))


def transformer(t: Transformer) -> Any:
    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = t.model

        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return self.model(**{k: v for k, v in batch.items() if k != "labels"}).logits

    labels = t.batch["labels"]
    found = top(Logits(), [(t.batch, labels)], batch_size_fn=lambda b: len(b["labels"]))
    return close(found, t.largest) and "yes, in a wrapper"


TRIES = {
    "largest eigenvalues of H": lambda p: close(values(p, "Hessian"), problem.largest(p.hessian)),
    "smallest eigenvalues of H": lambda p: close(
        values(p, "Hessian", "SA"), problem.smallest(p.hessian)
    ),
    "eigenvalues of H of largest modulus": lambda p: close(
        values(p, "Hessian", "LM"), problem.of_largest_modulus(p.hessian)
    ),
    "of Gauss-Newton": lambda p: close(values(p, "GGN"), problem.largest(p.gauss_newton)),
    "of the Fisher matrix": fisher,
    "of the empirical Fisher": lambda p: close(
        values(p, "EF"), problem.largest(p.empirical_fisher)
    ),
    "of one layer": lambda p: close(
        values(p, "Hessian", parameters=[*p.model[0].parameters()]),
        problem.of_first_layer(p.hessian),
    ),
    "eigenvectors": lambda p: are_eigenvectors(
        *(part.T for part in arpack(operator(p.model, [(p.x, p.y)]))), p.hessian
    ),
    "density of the eigenvalues": density,
    "products with an inverse": inverse,
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
