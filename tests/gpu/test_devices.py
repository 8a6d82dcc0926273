"""A step on a GPU touches nothing of the host: shapes and devices alone are followed, by torch."""

from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from flatlab.data._tensors import Split
from flatlab.lab.plan import keys_of
from flatlab.lab.train import stack
from flatlab.lab.train.minibatch_transforms import random_numbers, transforms_of
from flatlab.networks import build
from tests.lab.train.packs import DATA, RANDOM, settings

NETWORKS = {
    "perceptron": ("mlp", {}),
    "LeNet-5": ("lenet5", {}),
    "VGG with batch norm": ("vgg", {"normalization": "batch"}),
    "preactivation ResNet": ("resnet", {"order": "pre"}),
}
RULES = {
    "momentum and decay": {"momentum": 0.9, "weight_decay": 1e-3},
    "adam": {"optimizer": "adam", "loss": "cross-entropy", "label_smoothing": 0.1},
    "rmsprop": {"optimizer": "rmsprop", "alpha": 0.9, "lr": {"low": 0.1, "high": 0.2}},
    "ghost batches": {"minibatches": "full", "batch_size": 9},
    "epoch loss": {"stop": {"epoch_loss": 0.1}},
    "crops, mixup and SAM": {
        **RANDOM,
        "data": {**DATA, "augmentation": "crop-flip", "options": RANDOM["data"]["options"]},
    },
}


@pytest.fixture
def cuda():
    """Empty tensors on a GPU that need not be there, and what has their shapes and types."""
    with FakeTensorMode(), mock.patch.object(stack, "recordable", return_value=False):

        def like(tensor):
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")

        def moved(model):
            for module in model.modules():
                for tensors in (module._parameters, module._buffers):
                    for name, tensor in tensors.items():
                        tensors[name] = None if tensor is None else like(tensor)
            return model

        yield like, moved


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("network", "options"), NETWORKS.values(), ids=NETWORKS)
def test_a_step_needs_nothing_of_the_host(network, options, rule, cuda):
    like, moved = cuda
    given = settings(network, options=options, mode="batched", **rule)
    training, own = given["training"], isinstance(given["training"]["lr"], dict)
    with torch.utils._python_dispatch._disable_current_modes():
        models = [build(given["network"], (1, 8, 8), 3) for _ in "ab"]
        x = torch.zeros(22, 1, 8, 8)
        parts = x, torch.zeros(22, dtype=torch.int64), torch.zeros(22, 3), x[0], x[1]
        changes = transforms_of(given, Split(*parts))
        batch = 22 if training["minibatches"] == "full" else training["batch_size"]
        drawn = next(random_numbers(changes, (0, 1), batch, 0)) if changes else {}
        now = {
            "order": torch.zeros(2, batch, dtype=torch.int64),
            "rates": torch.zeros(2)[: 1 + own],
        }
        numbers = {name: torch.from_numpy(each) for name, each in drawn.items()}
        now |= {n: each.to(x) if each.is_floating_point() else each for n, each in numbers.items()}
    now = {name: like(each) for name, each in now.items()}
    now["rates"] = now["rates"] if own else now["rates"][0]
    split = Split(*map(like, parts))
    with mock.patch.object(torch, "equal", return_value=True):  # of values, before the first step
        changes = transforms_of(given, split)
    networks = stack.Stack([*map(moved, models)], split, training, keys_of("train/layers"), changes)
    networks.advance(now)
    assert {tensor.device.type for tensor in networks.views().values()} == {"cuda"}


def test_what_mixes_devices_is_found(cuda):
    like, _ = cuda
    with torch.utils._python_dispatch._disable_current_modes():
        host = torch.zeros(2)
    with pytest.raises(RuntimeError, match="device"):
        like(host) + torch.empty(2, device="cpu")
