"""What other libraries do, tried: `python -m benchmarks.peers` prints a table of docs/peers.md.

Each cell is a function that calls the library on a small perceptron and compares with the matrix
written out; a library that is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

import flatlab

COUNT = 3
LOSS = nn.functional.cross_entropy


class Problem:
    """A perceptron in float64, samples, and its Hessian and Gauss-Newton matrix written out."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
        self.x, self.y = torch.randn(30, 6).double(), torch.arange(30) % 3
        names = [name for name, _ in self.model.named_parameters()]
        theta = nn.utils.parameters_to_vector(self.model.parameters()).detach()
        sizes = [p.numel() for p in self.model.parameters()]

        def outputs(vector: Tensor) -> Tensor:
            shapes = (p.shape for p in self.model.parameters())
            parts = (v.view(s) for v, s in zip(vector.split(sizes), shapes, strict=True))
            return functional_call(self.model, dict(zip(names, parts, strict=True)), (self.x,))

        self.hessian = torch.func.hessian(lambda v: LOSS(outputs(v), self.y))(theta)
        jacobian = torch.func.jacrev(outputs)(theta)
        p = outputs(theta).softmax(1)
        curved = torch.diag_embed(p) - p[:, :, None] * p[:, None]
        self.gauss_newton = torch.einsum("nia,nij,njb->ab", jacobian, curved, jacobian) / 30

    def largest(self, matrix: Tensor) -> np.ndarray:
        return torch.linalg.eigvalsh(matrix).flip(0)[:COUNT].numpy()

    def smallest(self, matrix: Tensor) -> np.ndarray:
        return torch.linalg.eigvalsh(matrix)[:COUNT].numpy()


def close(values: Any, exact: np.ndarray) -> bool:
    return np.allclose(np.sort(np.asarray(values, float)), np.sort(exact), rtol=1e-2, atol=1e-6)


def ours(p: Problem, matrix: str, end: str) -> np.ndarray:
    wanted = {"largest": 0, "smallest": 0, end: COUNT}
    report = flatlab.measure(
        p.model, p.x, p.y, families="spectrum", loss="cross-entropy", matrices=[matrix], **wanted
    )
    assert report[f"{end}_residual"].notnull().all()
    return report[f"{end}_eigenvalue"].values.flatten()


def eigenthings(p: Problem, matrix: str, which: str) -> np.ndarray:
    import hessian_eigenthings as peer

    data = p.model, [(p.x, p.y)]
    linear: Any = peer.HessianOperator(*data, peer.supervised_loss(LOSS))
    if matrix == "gauss-newton":
        of_output = peer.supervised_loss_of_output(LOSS)
        linear = peer.GGNOperator(*data, peer.supervised_forward, of_output)
    pairs = peer.lanczos(linear, k=COUNT, max_iter=40, which=which, seed=0)
    assert pairs.residuals.isfinite().all()
    return pairs.eigenvalues.numpy()


def curvlinops(p: Problem, matrix: str, which: str) -> np.ndarray:
    import curvlinops as peer
    from scipy.sparse.linalg import eigsh

    kind = peer.HessianLinearOperator if matrix == "hessian" else peer.GGNLinearOperator
    parts = p.model, nn.CrossEntropyLoss(), [*p.model.parameters()], [(p.x, p.y)]
    return np.asarray(eigsh(kind(*parts).to_scipy(), k=COUNT, which=which)[0])


def pyhessian(p: Problem) -> Any:
    from pyhessian import hessian

    return hessian(p.model, nn.CrossEntropyLoss(), data=(p.x, p.y), cuda=False)


def landscaper(p: Problem) -> Any:
    from landscaper.hessian import PyHessian

    return PyHessian(p.model, nn.CrossEntropyLoss(), [(p.x, p.y)], torch.device("cpu"))


def leading(values: Any) -> np.ndarray:
    """Those of the largest modulus, which these two libraries return."""
    return np.array([float(value) for value in values])


def by_modulus(p: Problem) -> np.ndarray:
    values = torch.linalg.eigvalsh(p.hessian)
    return values[values.abs().argsort(descending=True)[:COUNT]].numpy()


def same_mean(nodes: Any, weights: Any, p: Problem) -> bool:
    """Whether a density, given by quadratures (starts, nodes), has the mean of all eigenvalues."""
    w, at = np.asarray(weights, float), np.asarray(nodes, float)
    means = (w * at).sum(1) / w.sum(1)
    error = means.std(ddof=1) / len(means) ** 0.5
    return bool(abs(means.mean() - float(p.hessian.trace()) / len(p.hessian)) < 5 * error)


def our_density(p: Problem) -> bool:
    report = flatlab.measure(
        p.model, p.x, p.y, families="spectrum", loss="cross-entropy", largest=0, density_probes=50
    )
    here = report.isel(block=0, matrix=0)
    assert here["spectral_density_error"].notnull().all()
    distance = abs(float(here["spectral_trace"]) - float(p.hessian.trace()))
    return distance < 5 * float(here["spectral_trace_error"])


def eigenthings_density(p: Problem) -> bool:
    import hessian_eigenthings as peer

    linear = peer.HessianOperator(p.model, [(p.x, p.y)], peer.supervised_loss(LOSS))
    result = peer.spectral_density(linear, num_runs=50, lanczos_steps=30, seed=0)
    return same_mean(result.raw_eigenvalues, result.raw_weights, p)


def cells(p: Problem) -> dict[str, dict[str, Callable[[], bool]]]:
    """By row and library: whether it does so, and rightly."""
    h, g = p.hessian, p.gauss_newton
    tries = {"maxIter": 2000, "tol": 1e-8, "top_n": COUNT}
    return {
        "largest eigenvalues of H": {
            "flatlab": lambda: close(ours(p, "hessian", "largest"), p.largest(h)),
            "hessian_eigenthings": lambda: close(eigenthings(p, "hessian", "LA"), p.largest(h)),
            "curvlinops": lambda: close(curvlinops(p, "hessian", "LA"), p.largest(h)),
        },
        "those of largest modulus": {
            "pyhessian": lambda: close(
                leading(pyhessian(p).eigenvalues(**tries)[0]), by_modulus(p)
            ),
            "landscaper": lambda: close(
                leading(landscaper(p).eigenvalues(**tries)[0]), by_modulus(p)
            ),
        },
        "smallest eigenvalues of H": {
            "flatlab": lambda: close(ours(p, "hessian", "smallest"), p.smallest(h)),
            "hessian_eigenthings": lambda: close(eigenthings(p, "hessian", "SA"), p.smallest(h)),
            "curvlinops": lambda: close(curvlinops(p, "hessian", "SA"), p.smallest(h)),
        },
        "density of the eigenvalues of H": {
            "flatlab": lambda: our_density(p),
            "hessian_eigenthings": lambda: eigenthings_density(p),
            "pyhessian": lambda: same_mean(*pyhessian(p).density(iter=30, n_v=50), p),
            "landscaper": lambda: same_mean(*landscaper(p).density(iter=30, n_v=50), p),
        },
        "largest eigenvalues of Gauss-Newton": {
            "flatlab": lambda: close(ours(p, "gauss-newton", "largest"), p.largest(g)),
            "hessian_eigenthings": lambda: close(
                eigenthings(p, "gauss-newton", "LA"), p.largest(g)
            ),
            "curvlinops": lambda: close(curvlinops(p, "gauss-newton", "LA"), p.largest(g)),
        },
    }


def main() -> None:
    warnings.simplefilter("ignore")
    names = ["flatlab", "hessian_eigenthings", "curvlinops", "pyhessian", "landscaper"]
    there = [name for name in names if importlib.util.find_spec(name)]
    print("| |", " | ".join(there), "|")
    print("|---" * (len(there) + 1) + "|")
    for row, tried in cells(Problem()).items():
        said = []
        for name in there:
            try:
                said.append(("yes" if tried[name]() else "differs") if name in tried else "")
            except Exception as error:  # of whatever a library raises
                said.append(f"{type(error).__name__}: {str(error)[:60]}")
        print(f"| {row} |", " | ".join(said), "|", flush=True)


if __name__ == "__main__":
    main()
