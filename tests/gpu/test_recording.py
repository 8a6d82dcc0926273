"""Steps touch nothing of the host, and are recorded and launched in order, without waiting."""

import contextlib
import gc
import weakref
from functools import partial
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from flatlab.data._tensors import Split, prepare
from flatlab.lab.plan import keys_of
from flatlab.lab.train import cuda_graphs, pack, run, stack, stack_group, train_packs
from flatlab.lab.train.minibatch_transforms import random_numbers, transforms_of
from flatlab.networks import build
from tests.gpu.fake import NotRecordable, Race, fake_gpu
from tests.lab.train.packs import DATA, RANDOM, images, settings

TRAINED = {"iterations": 35, "mode": "graphs"}


@pytest.fixture
def fake():
    with fake_gpu() as gpu:
        yield gpu


def group_of(given, seeds=(0, 3)):
    split = prepare(images((8, 8)), DATA).train
    models = [build(given["network"], (1, 8, 8), 3).double() for _ in seeds]
    rules = keys_of("train/layers")
    make = partial(stack.Stack, split=split, training=given["training"], rules=rules, transforms={})
    return stack_group.StackGroup(models, make), models


def test_networks_are_gone_when_their_memory_is_given_back(monkeypatch):
    made, alive = [], []

    class Followed(pack.PackTraining):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(weakref.ref(self.networks))

    @contextlib.contextmanager
    def given_back(packs, device):
        yield
        gc.collect()
        alive.extend(each() for each in made)

    monkeypatch.setattr(run, "PackTraining", Followed)
    monkeypatch.setattr(run, "explained_memory_errors", given_back)
    train_packs(images((8, 8)), [settings("mlp", iterations=3)])
    assert alive == [None]


def chunk(steps, runs=2, batch=4):
    order = torch.randint(22, (steps, runs, batch), generator=torch.Generator().manual_seed(0))
    return {"order": order, "rates": torch.full((steps, runs), 0.02, dtype=torch.float64)}


def test_a_step_is_a_launch_of_its_graph_or_a_tenth_of_one(fake):
    group, _ = group_of(settings("vgg", mode="batched"))
    group.load(chunk(40))
    group.step()
    fake.launched.clear()
    before = fake.operations, fake.waits
    for _ in range(36):
        group.step()
    assert (fake.operations, fake.waits) == before
    assert len(fake.launched) == 3
    group.full_stack().views()  # after the seven that are asked for and not launched yet
    assert len(fake.launched) == 3 + 7
    assert fake.launched[-1] is not fake.launched[0]


@pytest.mark.parametrize(
    ("method", "does"), [("_follow", None), ("settle", cuda_graphs.RecordedSteps.launch)]
)
def test_streams_that_do_not_wait_for_each_other_are_found(method, does, fake, monkeypatch):
    train_packs(images((8, 8)), [settings("mlp", **TRAINED)])
    monkeypatch.setattr(cuda_graphs.RecordedSteps, method, does or (lambda self: None))
    with pytest.raises(Race):
        train_packs(images((8, 8)), [settings("mlp", **TRAINED)])


@pytest.mark.parametrize("looks", [lambda x: x.item(), lambda x: x + torch.tensor([1.0])])
def test_a_step_that_waits_or_copies_from_the_host_is_found(looks, fake, monkeypatch):
    original = stack.Stack.advance

    def advance(self, now):
        original(self, now)
        looks(self.losses[:1].sum())

    monkeypatch.setattr(stack.Stack, "advance", advance)
    with pytest.raises(NotRecordable):
        train_packs(images((8, 8)), [settings("mlp", **TRAINED)])


def test_what_the_host_reads_into_a_step_stays_as_it_was_recorded(fake, monkeypatch):
    """As on a GPU; this is why rates and positions are on the device."""
    group, _ = group_of(settings("mlp", mode="batched"))
    numbers = iter(range(1, 1000))
    monkeypatch.setattr(
        stack.Stack, "advance", lambda self, now: self.losses.copy_(self.losses + next(numbers))
    )
    group.load(chunk(20))
    for _ in range(5):
        group.step()
    group.full_stack().views()
    warm = sum(range(1, 1 + cuda_graphs.WARM_UP))
    assert group.full_stack().losses.tolist() == [warm + 5.0 * (1 + cuda_graphs.WARM_UP)] * 2


def test_neither_a_stack_nor_its_networks_wait_for_the_garbage_collector(fake):
    given = settings("mlp", mode="batched")
    gc.disable()
    try:
        group, models = group_of(given)
        group.load(chunk(12))
        for _ in range(12):
            group.step()
        second, whole = weakref.ref(models[1]), weakref.ref(group.full_stack())
        del models
        assert second() is None
        del group
        assert whole() is None
    finally:
        gc.enable()


def test_packs_of_the_same_data_share_them(fake, monkeypatch):
    seen = []
    original = pack.PackTraining.__init__

    def init(self, models, split, *rest):
        seen.append(split)
        original(self, models, split, *rest)

    monkeypatch.setattr(pack.PackTraining, "__init__", init)
    raw = images((8, 8))
    train_packs(raw, [settings("mlp", seeds=seeds, iterations=1) for seeds in ((0,), (1,))])
    assert seen[0] is seen[1]


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
