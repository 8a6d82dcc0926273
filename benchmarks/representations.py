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

SAMPLES, FEW, FEWEST = 100, 16, 4
"""Estimated; exact, beside products; exact, beside jacrev, which is slow."""
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

    def exact(x: Tensor) -> Tensor:
        found = flatlab.measure(model, x, **LOCAL)  # type: ignore[arg-type]
        return torch.from_numpy(found.feature_sensitivity.values[1:])

    for what, baseline, count in (
        ("its matrix products", products, FEW),
        ("jacrev and SVD by layer", jacrev, FEWEST),
    ):
        few = inputs[:count]
        assert torch.allclose(exact(few), baseline(model, few), rtol=1e-8), what
        times = paired(lambda few=few: exact(few), lambda f=baseline, few=few: f(model, few))
        report(f"representations, exact, {count} samples", *times, what)

    def estimated() -> object:
        options = {"families": "representations", "representations_accuracy": 0.03}
        return flatlab.measure(model, inputs, labels, **options)  # type: ignore[arg-type]

    times = paired(estimated, lambda: flatlab.measure(model, inputs))
    report(f"representations, 3 %, {SAMPLES} samples", *times, "geometry")
    compare = paired(estimated, lambda: jacrev(model, inputs[:FEWEST]))
    per_sample = compare[1] * SAMPLES / FEWEST
    report(f"representations, 3 %, {SAMPLES} samples", compare[0], per_sample, "jacrev by layer")
