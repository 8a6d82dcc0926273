"""Fixed baselines for the benchmarks: the methods in use today, each in its usual form.

They are written from the descriptions of the methods, and are never optimized.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def three_passes(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    """One pass each for sharpness, for MLS with volume and dimension, and for NMLS with its bound.

    This is how the chen papers' public code works: batches of one sample, one backward pass per
    output, gradients copied to NumPy. NMLS takes one backward pass per layer and output; its bound
    recomputes the norm of each weight for each sample (spectral if the network has no convolutions,
    otherwise Frobenius).
    """
    parameters = list(model.parameters())
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    order = 2 if all(isinstance(m, nn.Linear) for m in layers) else "fro"
    sharpness = mls = log_volume = dimension = nmls = bound = 0.0
    for x in inputs.split(1):
        for output in model(x)[0]:
            model.zero_grad()
            output.backward(retain_graph=True)
            flat = [p.grad.detach().cpu().numpy().reshape(-1) for p in parameters]  # type: ignore[union-attr]
            sharpness += float(np.sum(np.concatenate(flat) ** 2))
    model.zero_grad()
    for x in inputs.split(1):
        x = x.clone().requires_grad_()
        outputs = model(x)[0]
        jacobian = np.zeros((len(outputs), x.numel()))
        for k, output in enumerate(outputs):
            (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
            jacobian[k] = gradient.cpu().numpy().reshape(-1)
        sigma = np.linalg.svd(jacobian, compute_uv=False)
        mls += sigma[0]
        log_volume += np.log(sigma).sum()
        dimension += (sigma**2).sum() ** 2 / (sigma**4).sum()
    for x in inputs.split(1):
        seen: list[Tensor] = []

        def keep(module: nn.Module, given: Any, output: Tensor, seen: list[Tensor] = seen) -> None:
            seen.append(given[0])

        hooks = [m.register_forward_hook(keep) for m in layers]
        outputs = model(x.clone().requires_grad_())[0]
        for hook in hooks:
            hook.remove()
        for layer, activation in zip(layers, seen, strict=True):
            rows = [torch.autograd.grad(f, activation, retain_graph=True)[0] for f in outputs]
            nmls += float(torch.linalg.svdvals(torch.stack(rows).flatten(1)).max())
            norm = torch.linalg.matrix_norm(layer.weight.detach().flatten(1), order)
            bound += float(norm.square() / (activation.detach().square().sum() + 1e-4))
    count = len(inputs)
    return {
        "sharpness": sharpness / count,
        "mls": mls / count,
        "log_volume": log_volume / count,
        "local_dimension": dimension / count,
        "nmls": nmls / count,
        "nmls_bound": (bound / count * sharpness / count) ** 0.5,
    }


def double_loop(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    """Sharpness and MLS by `autograd.grad` for each sample and output."""
    parameters = list(model.parameters())
    sharpness = mls = 0.0
    for x in inputs.split(1):
        x = x.clone().requires_grad_()
        rows = []
        for output in model(x)[0]:
            row, *gradients = torch.autograd.grad(output, [x, *parameters], retain_graph=True)
            sharpness += sum(float(gradient.square().sum()) for gradient in gradients)
            rows.append(row.flatten())
        mls += float(torch.linalg.matrix_norm(torch.stack(rows), 2))
    return {"sharpness": sharpness / len(inputs), "mls": mls / len(inputs)}


def jacrev(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    """Sharpness from all per-sample Jacobians with respect to the parameters, by torch.func."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def outputs(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (x[None],))[0]

    jacobians = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, inputs)
    total = sum(float(jacobian.square().sum()) for jacobian in jacobians.values())
    return {"sharpness": total / len(inputs)}


def backpack_trace(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    """Sharpness as half the trace of the Gauss-Newton matrix, by BackPACK's DiagGGNExact."""
    import backpack
    from backpack.extensions import DiagGGNExact

    extended = backpack.extend(model)
    outputs = extended(inputs)
    loss = backpack.extend(nn.MSELoss(reduction="sum"))(outputs, torch.zeros_like(outputs))
    with backpack.backpack(DiagGGNExact()):
        loss.backward()
    total = sum(float(p.diag_ggn_exact.sum()) for p in extended.parameters())
    return {"sharpness": total / 2 / len(inputs)}


def eager_loop(
    models: Sequence[nn.Module],
    inputs: Tensor,
    targets: Tensor,
    steps: int,
    batch_size: int,
    lr: float,
) -> None:
    """Train one network after the other with autograd and torch.optim.SGD, on tensors in memory.

    The loss is |f - y|^2 / 2, averaged over the batch. The models are changed in place.
    """
    for model in models:
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for [index] in itertools.islice(_minibatches(inputs, batch_size, 1), steps):
            outputs = model(inputs[index])
            loss = nn.functional.mse_loss(outputs, targets[index], reduction="sum")
            optimizer.zero_grad(set_to_none=True)
            (loss / (2 * len(index))).backward()
            optimizer.step()


def vmap_loop(
    models: Sequence[nn.Module],
    inputs: Tensor,
    targets: Tensor,
    steps: int,
    batch_size: int,
    lr: float,
) -> dict[str, Tensor]:
    """Train all networks at once with torch.func, and return their stacked weights.

    Raises `NotImplementedError` for networks that have buffers.
    """
    stacked, buffers = torch.func.stack_module_state(list(models))
    if buffers:
        raise NotImplementedError(f"the buffer {min(buffers)} would be changed in place")
    parameters = {name: tensor.detach() for name, tensor in stacked.items()}

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = torch.func.functional_call(models[0], parameters, (x,))
        return nn.functional.mse_loss(outputs, y, reduction="sum") / (2 * len(x))

    gradients_of = torch.func.vmap(torch.func.grad(loss))
    for index in itertools.islice(_minibatches(inputs, batch_size, len(models)), steps):
        gradients = gradients_of(parameters, inputs[index], targets[index])
        for name, tensor in parameters.items():
            tensor.sub_(gradients[name], alpha=lr)
    return parameters


def _minibatches(inputs: Tensor, batch_size: int, runs: int) -> Iterator[Tensor]:
    """Endless sample indices (runs, batch): permutations, dropping an incomplete last batch."""
    samples = len(inputs)
    while True:
        epoch = [torch.randperm(samples, device=inputs.device) for _ in range(runs)]
        yield from torch.stack(epoch).split(batch_size, 1)[: samples // batch_size]
