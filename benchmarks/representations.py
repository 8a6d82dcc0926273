"""Representations of the 500-wide perceptron: exact, and estimated to 3 %, against what is in use.

`products` are the matrix products that exact values cannot avoid: for each sample
A^(l+1) = D_l W_l A^l and its Gram matrix, without eigenvalues, as one would write them for this
network alone. `jacrev` forms A^l of each layer by torch.func, one layer after the other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import flatlab
from benchmarks.timing import paired, report
from flatlab.networks import mlp

SAMPLES, FEW = 100, 4
LOCAL = {"families": "representations", "representations": ["local"]}


@torch.no_grad()
def products(model: nn.Sequential, inputs: Tensor) -> Tensor:
    """||A^l||_F^2 of each layer behind the first, from Gram matrices: (layers,)."""
    linear = [module for module in model if isinstance(module, nn.Linear)]
    totals = inputs.new_zeros(len(linear) - 1)
    for x in inputs:
        slope: Tensor | None = None
        for number, layer in enumerate(linear[:-1]):
            z = layer(x)
            step = layer.weight if slope is None else layer.weight @ slope
            slope, x = step * (z > 0)[:, None], z.relu()
            totals[number] += (slope @ slope.T).trace()
    return totals / len(inputs)


def jacrev(model: nn.Sequential, inputs: Tensor) -> Tensor:
    """||A^l||_F^2 of each layer behind the first, and ||A^l||_2."""
    places = [place for place, module in enumerate(model) if isinstance(module, nn.Linear)][1:]
    totals = []
    for place in places:
        part = model[:place]
        jacobians = torch.func.vmap(torch.func.jacrev(lambda x, part=part: part(x[None])[0]))(
            inputs
        )
        singular = torch.linalg.svdvals(jacobians.detach())
        totals.append(singular.square().sum(1).mean())
    return torch.stack(totals)


def representations() -> None:
    """In float64; exact values of a few samples, estimates of a hundred."""
    torch.manual_seed(0)
    model = mlp.build((784,), 10, mlp.Options(activation="relu")).double().eval()
    inputs, labels = torch.rand(SAMPLES, 784).double(), torch.arange(SAMPLES) % 10
    few = inputs[:FEW]

    def exact() -> Tensor:
        found = flatlab.measure(model, few, **LOCAL)  # type: ignore[arg-type]
        return torch.from_numpy(found.feature_sensitivity.values[1:])

    for name, baseline in (("products", products), ("jacrev", jacrev)):
        assert torch.allclose(exact(), baseline(model, few), rtol=1e-8), name
        times = paired(exact, lambda baseline=baseline: baseline(model, few))
        what = "its matrix products" if name == "products" else "jacrev and SVD by layer"
        report(f"representations, exact, {FEW} samples", *times, what)

    def estimated() -> object:
        options = {"families": "representations", "representations_accuracy": 0.03}
        return flatlab.measure(model, inputs, labels, **options)  # type: ignore[arg-type]

    times = paired(estimated, lambda: flatlab.measure(model, inputs))
    report(f"representations, 3 %, {SAMPLES} samples", *times, "geometry")
    compare = paired(estimated, lambda: jacrev(model, few))
    per_sample = compare[1] * SAMPLES / FEW
    report(f"representations, 3 %, {SAMPLES} samples", compare[0], per_sample, "jacrev by layer")
