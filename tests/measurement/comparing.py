"""When two reports agree, and what a measurement must leave as it is."""

import random

import numpy as np
import pytest
import torch
from torch import nn

ALL_COSTLY = ("elementwise-adaptive-trace", "operator-norm", "corrected-bound")


def same(first, second):
    """Whether two datasets have the same numbers, bit for bit."""
    assert list(first.data_vars) == list(second.data_vars)
    different = [
        name
        for name in first.data_vars
        if not np.array_equal(first[name].values, second[name].values, equal_nan=True)
    ]
    assert not different, different
    return True


def close(first, second, rel=1e-9):
    for name in first.data_vars:
        ours, theirs = first[name].values, second[name].values
        assert ours == pytest.approx(theirs, rel=rel, abs=1e-12, nan_ok=True), name
    return True


def sharpness(model, x):
    """|df/dtheta|^2 of each sample, by a plain backward pass for each output."""
    theta = [p for p in model.parameters() if p.requires_grad]
    flags = {"retain_graph": True, "materialize_grads": True}

    def of(output):
        return sum(g.double().square().sum() for g in torch.autograd.grad(output, theta, **flags))

    return [sum(float(of(output)) for output in row) for row in model(x)]


class Spy(nn.Module):
    """Passes its input on, and calls a function each time."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        self.function()
        return x


def state(model):
    """All that a measurement must leave as it is."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    modules = dict(model.named_modules())
    return {
        "parameters": {n: (id(p), p.detach().numpy().tobytes()) for n, p in named(model)},
        "buffers": {n: b.to_dense().numpy().tobytes() for n, b in model.named_buffers()},
        "gradients": {n: None if p.grad is None else p.grad.tolist() for n, p in named(model)},
        "requires_grad": {n: p.requires_grad for n, p in named(model)},
        "training": {name: module.training for name, module in modules.items()},
        "hooks": {n: [list(getattr(m, h).items()) for h in hooks] for n, m in modules.items()},
        "attributes": {name: sorted(vars(module)) for name, module in modules.items()},
        "random": (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1:3]),  # noqa: NPY002
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "default": (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "flags": flags(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def named(model):
    return list(model.named_parameters())


def flags():
    backends = torch.backends
    return {
        "matmul": torch.get_float32_matmul_precision(),
        "tf32": (backends.cudnn.allow_tf32, backends.cuda.matmul.allow_tf32),
        "cudnn": (backends.cudnn.deterministic, backends.cudnn.benchmark),
    }


def assert_same_state(before, after):
    for key in before:
        assert str(before[key]) == str(after[key]), key
