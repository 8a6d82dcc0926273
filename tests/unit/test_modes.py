"""Every mode of the training engine does what a plain loop in the framework does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.data import load
from flatlab.losses import loss_of
from flatlab.networks import Residual, build, options_of
from flatlab.plan import keys_of
from flatlab.plan.registry import imported, literal
from flatlab.splits import Split, prepare
from flatlab.train import train_packs
from flatlab.train.builder import NotStackable, ordered, stack
from flatlab.train.initializations import draw
from flatlab.train.layers.max_pool import max_pool
from flatlab.train.modes import MODES
from flatlab.train.schedules import drawn_rates, learning_rates
from flatlab.train.stacks import Stack
from tests.packs import DATA, GIVEN, TRAINING, images, settings, small

EXACT = 1e-10
RULES_OF_LAYERS = keys_of("train/layers")
ARCHITECTURES = [
    name for name in keys_of("networks") if literal("networks", name, "MODE") != "loop"
]
RATES = {"low": 0.0005, "high": 0.075}
RULES = {
    "plain": {},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005},
    "steps": {"schedule": "step", "milestones": [0.3, 0.6], "decay": 0.2, "momentum": 0.5},
    "cosine": {"schedule": "cosine", "lr": 0.05},
    "adam": {"optimizer": "adam", "lr": 0.002, "weight_decay": 1e-3},
    "adam with rates of their own": {"optimizer": "adam", "lr": {"low": 0.0005, "high": 0.004}},
    "rmsprop": {"optimizer": "rmsprop", "lr": 0.001, "alpha": 0.9, "weight_decay": 1e-3},
    "rmsprop with rates of their own": {
        "optimizer": "rmsprop",
        "alpha": 0.99,
        "momentum": 0.5,
        "lr": {"low": 0.0002, "high": 0.001},
    },
    "warm-up": {"schedule": "warmup-linear", "warmup": 0.4, "loss": "mean-mse"},
    "smoothed cross-entropy": {"loss": "cross-entropy", "label_smoothing": 0.2},
    "full batch in ghost batches": {"minibatches": "full", "batch_size": 9, "iterations": 40},
    "replacement": {"minibatches": "replacement", "loss": "cross-entropy"},
    "torch's replacement": {"minibatches": "torch-replacement", "loss": "cross-entropy"},
    "rates of their own": {"lr": {"low": 0.002, "high": 0.04}, "momentum": 0.5},
    "falling rates of their own": {
        "lr": {"low": 0.002, "high": 0.04},
        "schedule": "step",
        "milestones": [0.3, 0.6],
        "decay": 0.2,
    },
    "sum of squares": {"loss": "sum-of-squares", "lr": 0.001, "momentum": 0.9},
    "sum of squares in ghost batches": {
        "loss": "sum-of-squares",
        "lr": 0.001,
        "minibatches": "full",
        "batch_size": 9,
        "iterations": 40,
    },
}


def weights(raw, *args, **kwargs):
    [trained] = train_packs(raw, [settings(*args, **kwargs)])
    return trained.weights[0]


LARGE = (3, 32, 32)
NETWORKS = {
    "linear": ("linear", {}, (8, 8)),
    "diagonal-linear": ("diagonal-linear", {}, (8, 8)),
    "perceptron of one layer": ("mlp", {"depth": 1}, (8, 8)),
    "perceptron of three layers": ("mlp", {"width": 32, "depth": 3}, (8, 8)),
    "perceptron of several widths": ("mlp", {"width": [50, 20, 30]}, (8, 8)),
    "LeNet-5": ("lenet5", {"kernel": 5, "padding": 0}, LARGE),
    "LeNet-5 of small images": ("lenet5", {}, (8, 8)),
    "VGG-11": (
        "vgg",
        {"widths": [2, "pool", 4, "pool", 8, 8, "pool", 16, 16, "pool", 16, 16, "pool"]},
        LARGE,
    ),
    "VGG of the authors": (
        "vgg",
        {
            "widths": [16, "pool", 16, "pool", 32, "pool", 64, "pool", 64, "pool"],
            "hidden": [128],
            "padding": 2,
        },
        LARGE,
    ),
    "VGG of small images": ("vgg", {}, (8, 8)),
    "VGG without pooling": ("vgg", {"widths": [3, 4]}, (8, 8)),
    "VGG with batch norm": ("vgg", {"normalization": "batch"}, (8, 8)),
    "ResNet-18": ("resnet", {"widths": [2, 4, 4, 6]}, LARGE),
    "ResNet of small images": ("resnet", {}, (8, 8)),
    "ResNet without normalization": ("resnet", {"normalization": "none"}, (8, 8)),
    "preactivation ResNet": ("resnet", {"order": "pre"}, (8, 8)),
    "preactivation ResNet without normalization": (
        "resnet",
        {"order": "pre", "normalization": "none"},
        (8, 8),
    ),
}
"""Every architecture, with few channels: the layers of large ones, seconds instead of hours."""


def test_every_architecture_that_has_a_stacked_form_is_among_them():
    assert {name for name, *_ in NETWORKS.values()} == set(ARCHITECTURES)


def assert_equal(found, expected, exact=EXACT):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert np.isfinite(array).all(), name
        assert found[name] == pytest.approx(array, rel=0, abs=exact), name


@pytest.mark.parametrize(("network", "options", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_every_mode_trains_every_architecture_as_the_loop_does(network, options, shape):
    raw, steps = images(shape), 25 if shape == LARGE else 60
    expected = weights(raw, network, mode="loop", options=options, iterations=steps)
    for mode in ("batched", "graphs"):
        found = weights(raw, network, mode=mode, options=options, iterations=steps)
        assert_equal(found, expected)


def with_rules():
    """Each rule with a network; with one that costs more than perceptrons only the different."""
    some = (
        "momentum and decay",
        "adam with rates of their own",
        "rmsprop",
        "full batch in ghost batches",
    )
    for network in ("mlp", "lenet5", "resnet"):
        for name, rule in RULES.items():
            short = network == "mlp" or (network == "resnet" and name in some)
            marks = [] if short else [pytest.mark.long]
            yield pytest.param(network, rule, marks=marks, id=f"{network}-{name}")


@pytest.mark.parametrize(("network", "rule"), [*with_rules()])
def test_every_mode_follows_every_rule_as_the_loop_does(network, rule):
    raw, rule = images((8, 8)), {"iterations": 60, **rule}
    expected = weights(raw, network, mode="loop", **rule)
    for mode in ("batched", "graphs"):
        assert_equal(weights(raw, network, mode=mode, **rule), expected)


@pytest.mark.parametrize("rule", ["momentum and decay", "adam with rates of their own"])
@pytest.mark.parametrize(
    ("network", "options"),
    [("lenet5", {}), ("vgg", {"padding": 2}), ("resnet", {"normalization": "none"})],
)
def test_every_mode_trains_images_in_single_precision_as_the_loop_does(network, options, rule):
    """Whose layout in memory is another one than in double precision."""
    raw, rule = images((8, 8)), {"precision": "float32", "iterations": 10, **RULES[rule]}
    expected = weights(raw, network, mode="loop", options=options, **rule)
    for mode in ("batched", "graphs"):
        found = weights(raw, network, mode=mode, options=options, **rule)
        assert_equal(found, expected, exact=1e-5)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gaussian"])
def test_every_mode_fits_numbers_with_every_activation_as_the_loop_does(activation):
    """A regression: its own targets, inputs that are numbers, no labels."""
    raw, rule = load("eight-points"), {"loss": "sum-of-squares", "lr": 1e-4, "batch_size": 8}
    kind = {"data": GIVEN, "options": {"activation": activation}}
    expected = weights(raw, "mlp", mode="loop", **kind, **rule)
    for mode in ("batched", "graphs"):
        assert_equal(weights(raw, "mlp", mode=mode, **kind, **rule), expected)


def rate_of(seed, lr):
    """What a seed draws, log-uniformly, where it draws."""
    if not isinstance(lr, dict):
        return lr
    share = np.random.default_rng([seed, 2]).uniform()
    return lr["low"] * (lr["high"] / lr["low"]) ** share


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_loop_is_what_one_writes_with_the_framework(rule):
    """SGD, schedulers and losses of torch, on the data in the order of numpy's generator."""
    rule = {"iterations": 40, **rule}
    training = {**TRAINING, **rule, "lr": rate_of(3, rule.get("lr", TRAINING["lr"]))}
    raw, seed = images((8, 8)), 3
    arrays = weights(raw, "resnet", mode="loop", **rule)
    split = prepare(raw, DATA).train
    model = build(small("resnet"), (1, 8, 8), 3)
    draw(model, "framework", seed)
    model = model.double().train()
    decay = training["weight_decay"]
    if training["optimizer"] == "adam":
        update = torch.optim.Adam(model.parameters(), lr=training["lr"], weight_decay=decay)
    elif training["optimizer"] == "rmsprop":
        update = torch.optim.RMSprop(
            model.parameters(),
            lr=training["lr"],
            alpha=training["alpha"],
            momentum=training["momentum"],
            weight_decay=decay,
        )
    else:
        update = torch.optim.SGD(
            model.parameters(), lr=training["lr"], momentum=training["momentum"], weight_decay=decay
        )
    total = training["iterations"]
    scheduler = {
        "constant": lambda: torch.optim.lr_scheduler.ConstantLR(update, factor=1.0),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(update, total),
        "step": lambda: torch.optim.lr_scheduler.MultiStepLR(
            update, [int(0.3 * total), int(0.6 * total)], gamma=0.2
        ),
        "warmup-linear": lambda: torch.optim.lr_scheduler.SequentialLR(
            update,
            [
                torch.optim.lr_scheduler.LinearLR(update, 1e-12, 1.0, int(0.4 * total)),
                torch.optim.lr_scheduler.LinearLR(update, 1.0, 0.0, int(0.6 * total)),
            ],
            [int(0.4 * total)],
        ),
    }[training["schedule"]]()
    losses = {
        "half-mse": lambda f, y: nn.MSELoss(reduction="sum")(f, y) / 2 / len(f),
        "mean-mse": nn.MSELoss(),
        "cross-entropy": lambda f, y: nn.CrossEntropyLoss(
            label_smoothing=training["label_smoothing"]
        )(f, y.argmax(1)),
        "sum-of-squares": nn.MSELoss(reduction="sum"),
    }
    generator = np.random.default_rng([seed, 1])
    drawing = torch.Generator().manual_seed(seed)
    order = []
    while len(order) < total:
        if training["minibatches"] == "torch-replacement":
            order.append(torch.randint(22, (4,), generator=drawing).numpy())
        elif training["minibatches"] == "replacement":
            order += list(generator.integers(22, size=(5, 4)))
        elif training["minibatches"] == "reshuffled":
            order += list(generator.permutation(22)[:20].reshape(5, 4))
        else:
            order.append(np.arange(22))
    for batch in order[:total]:
        update.zero_grad()
        for ghost in np.split(
            batch, range(training["batch_size"], len(batch), training["batch_size"])
        ):
            outputs = model(split.inputs[ghost])
            loss = losses[training["loss"]](outputs, split.targets[ghost])
            added_up = training["loss"] == "sum-of-squares"
            (loss if added_up else loss * len(ghost) / len(batch)).backward()
        update.step()
        scheduler.step()
    for name, tensor in model.state_dict().items():
        assert arrays[name][1, 0] == pytest.approx(tensor.numpy(), rel=0, abs=1e-9), name


@pytest.mark.parametrize("network", ARCHITECTURES)
def test_the_default_mode_of_an_architecture_is_a_fast_one(network):
    assert literal("networks", network, "MODE") in ("batched", "graphs")


@pytest.mark.parametrize(("name", "options", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_an_architecture_lists_the_rules_of_its_layers_and_no_others(name, options, shape):
    """An edit to a rule that it does not need would train it again."""
    network = small(name, **options)
    model = build(network, shape if len(shape) == 3 else (1, *shape), 2)
    rules = options_of(network).layers()
    stack([model] * 2, rules)
    for rule in rules:
        with pytest.raises(NotStackable):
            stack([model], [other for other in rules if other != rule])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", ["mlp", "resnet"])
def test_packs_do_not_depend_on_what_is_trained_beside_them(network, mode):
    raw = images((8, 8))
    packs = [
        settings(network, seeds=seeds, mode=mode, precision="float32", iterations=30, lr=lr)
        for seeds, lr in (((0, 1), 0.02), ((2, 5, 7), 0.02), ((0, 1), 0.1))
    ]
    together = train_packs(raw, packs)
    for pack, beside in zip(packs, together, strict=True):
        [alone] = train_packs(raw, [pack])
        assert alone.curves.identical(beside.curves)
        for name, array in alone.weights[0].items():
            assert array.tobytes() == beside.weights[0][name].tobytes(), name


def split_of(raw, dtype=torch.float64):
    return prepare(raw, DATA, None, dtype).train


@pytest.mark.parametrize(
    ("name", "network", "rule"),
    [
        ("gaussian-pair", "linear", {"loss": "logistic", "lr": 5.0}),
        ("sparse-regression", "diagonal-linear", {"loss": "sum-of-squares", "lr": RATES}),
    ],
)
def test_every_mode_descends_with_all_samples_as_the_loop_does(name, network, rule):
    """The two grids of linear models, whose runs see the same samples in each step."""
    raw = load(name)
    rule = {**rule, "minibatches": "full", "batch_size": 17}  # in several pieces
    expected = weights(raw, network, mode="loop", data=GIVEN, **rule)
    for mode in ("batched", "graphs"):
        assert_equal(weights(raw, network, mode=mode, data=GIVEN, **rule), expected)


def test_runs_with_rates_of_their_own_stop_where_they_would_alone():
    """Those that stand still leave the stack: each of the others keeps its rate."""
    raw = load("sparse-regression")
    rule = {"loss": "sum-of-squares", "lr": RATES, "minibatches": "full", "batch_size": 60}
    rule |= {"stop": {"every": 100, "loss": 1.0, "mean_of": 1, "accuracy": None}}
    found = {}
    for mode in ("loop", "batched", "graphs"):
        pack = settings("diagonal-linear", range(6), data=GIVEN, mode=mode, iterations=900, **rule)
        [trained] = train_packs(raw, [pack])
        found[mode] = trained.weights
    steps = found["loop"][1]["steps"]
    assert len(set(steps)) > 2
    for arrays, about in found.values():
        assert about["steps"] == steps
        assert_equal(arrays, found["loop"][0])


def test_the_rate_that_a_run_drew_is_told():
    """It belongs to the seed alone, in whichever pack."""
    raw = images((8, 8))
    for seeds in ((0, 3, 4), (3,)):
        pack = settings("mlp", seeds, iterations=2, lr=RATES, mode="batched")
        [trained] = train_packs(raw, [pack])
        expected = [rate_of(seed, RATES) for seed in seeds]
        assert trained.weights[1]["lr"] == pytest.approx(expected, rel=1e-12)
    [trained] = train_packs(raw, [settings("mlp", iterations=2)])
    assert "lr" not in trained.weights[1]


@pytest.mark.parametrize(("lr", "total"), [(0.005, 300), (0.002, 1500), (0.3, 1), (1e-3, 7)])
def test_the_cosine_is_that_of_the_framework_to_the_bit(lr, total):
    """Theirs computes each rate from the one before, and so must whoever wants the same bits."""
    update = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(update, total)
    expected = []
    for _ in range(total):
        expected.append(update.param_groups[0]["lr"])
        update.step()
        scheduler.step()
    training = {"schedule": "cosine", "lr": lr}
    middle = total // 2
    found = [
        *learning_rates(training, [0], total, range(middle))[:, 0],
        *learning_rates(training, [0], total, range(middle, total))[:, 0],
    ]
    assert found == expected
    exact = lr * (1 + np.cos(np.pi * np.arange(total) / total)) / 2
    assert found == pytest.approx(exact, rel=1e-9)


def test_drawn_rates_are_uniform_in_their_logarithm():
    rates = drawn_rates({"lr": RATES}, range(4000))
    share = np.log(rates / RATES["low"]) / np.log(RATES["high"] / RATES["low"])
    counts, _ = np.histogram(share, bins=8, range=(0, 1))
    assert counts.sum() == 4000  # within the ends
    assert np.abs(counts - 500).max() < 4 * 500**0.5


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 3, 7, 9), (1, 1, 2, 2)])
@pytest.mark.parametrize("size", [2, 3])
def test_pooling_is_that_of_the_framework(shape, size, normal):
    x = normal(*shape)
    if min(shape[2:]) < size:
        return
    expected = nn.functional.max_pool2d(x.requires_grad_(), size)
    gradient = normal(*expected.shape, seed=1)
    (through,) = torch.autograd.grad(expected, x, gradient)
    y, backward = max_pool(x.detach(), size)
    assert torch.equal(y, expected.detach())
    assert torch.equal(backward(gradient), through)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_relu_may_follow_pooling_instead_of_preceding_it(dtype):
    """Small integers have many ties and zeros; the rest is what a diverged network has."""
    network = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(3))
    assert [name for name, _ in ordered(network)] == ["1", "0", "3", "2"]
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 3, (50, 4, 13, 12), generator=generator).to(dtype)
    x[::10, 0, 2:4, :3], x[5::10, 1, 5, 5:8] = torch.nan, torch.inf
    expected = network(x.requires_grad_())
    gradient = torch.randn(expected.shape, generator=generator, dtype=dtype)
    (through,) = torch.autograd.grad(expected, x, gradient)
    layers, _ = stack([network], RULES_OF_LAYERS)
    y, backward = layers.forward(x.detach()[None], True)
    exactly = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(y, expected.detach(), **exactly)
    torch.testing.assert_close(backward(gradient, True)[0][0], through, **exactly)


@pytest.mark.parametrize(
    ("name", "momentum"),
    [("sgd", 0.0), ("sgd", 0.9), ("adam", 0.0), ("rmsprop", 0.0), ("rmsprop", 0.9)],
)
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_update_is_that_of_the_framework(name, momentum, decay, recorded, normal):
    training = {"optimizer": name, "momentum": momentum, "weight_decay": decay, "alpha": 0.9}
    optimizer = imported("train/optimizers", training["optimizer"])
    start = [normal(3, 2), normal(4, seed=1)]
    ours = [tensor.clone() for tensor in start]
    theirs = [tensor.clone().requires_grad_() for tensor in start]
    update = optimizer.Stacked(ours, training, 1)
    expected = optimizer.reference(theirs, training)
    for step, rate in enumerate([0.1, 0.2, 0.05]):
        gradients = [normal(*tensor.shape, seed=10 * step + n) for n, tensor in enumerate(start)]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        expected.param_groups[0]["lr"] = rate
        expected.step()
        given = torch.tensor(rate, dtype=torch.float64) if recorded else rate
        update.step([gradient.clone() for gradient in gradients], given)
        for mine, other in zip(ours, theirs, strict=True):
            assert torch.allclose(mine, other.detach(), rtol=0, atol=1e-14)


NOT_STACKABLE = {
    "overlapping windows": nn.MaxPool2d(3, 2),
    "padding that is not zero": nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
    "padding in words": nn.Conv2d(2, 2, 3, padding="same"),
    "batch norm without averages": nn.BatchNorm2d(2, track_running_stats=False),
    "batch norm with a cumulative average": nn.BatchNorm2d(2, momentum=None),
    "dropout": nn.Dropout(),
    "linear layer on images": nn.Linear(4, 4),
}


@pytest.mark.parametrize("layer", NOT_STACKABLE.values(), ids=NOT_STACKABLE)
def test_what_has_no_stacked_form_is_refused_by_name(layer):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Residual(nn.Sequential(layer), nn.Sequential()))
    with pytest.raises(NotStackable, match=rf"1\.body\.0 .*{type(layer).__name__}"):
        stack([model], RULES_OF_LAYERS)


STACKABLE = {
    "groups, strides, dilation": nn.Conv2d(2, 4, 3, 2, 1, dilation=2, groups=2),
    "uneven kernel without bias": nn.Conv2d(2, 3, (3, 1), padding=(1, 0), bias=False),
    "padding beyond half a kernel": nn.Conv2d(2, 3, 3, padding=2),
    "uneven padding beyond it": nn.Conv2d(2, 3, (3, 2), 2, padding=(4, 1), dilation=(3, 1)),
    "batch norm without parameters": nn.BatchNorm2d(2, affine=False),
    "batch norm": nn.BatchNorm2d(2),
    "pooling of three": nn.MaxPool2d(3),
    "average": nn.AdaptiveAvgPool2d((1, 1)),
    "residual": Residual(nn.Sequential(nn.Conv2d(2, 2, 1), nn.Tanh()), nn.Sequential()),
    "nested residuals": Residual(
        nn.Sequential(Residual(nn.Sequential(nn.Conv2d(2, 2, 1)), nn.Sequential())),
        nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)),
    ),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("layer", STACKABLE.values(), ids=STACKABLE)
def test_gradients_of_a_stack_are_those_of_autograd(layer, layout, normal, monkeypatch):
    """In the layouts of both precisions, to the digits of float64."""
    for module in ("chain", "builder"):
        monkeypatch.setattr(f"flatlab.train.{module}.image_format", lambda x: layout)
    torch.manual_seed(0)
    probe = nn.Sequential(layer, nn.Flatten()).double()
    size = probe(normal(2, 2, 8, 8)).shape[1]

    def network():
        first = nn.Conv2d(1, 2, 1)
        return nn.Sequential(first, nn.ReLU(), layer, nn.Flatten(), nn.Linear(size, 3)).double()

    models = [network(), network()]
    training = {**TRAINING, "loss": "cross-entropy"}
    targets = nn.functional.one_hot(torch.arange(6) % 3, 3).double()
    split = Split(normal(6, 1, 8, 8, seed=4), torch.arange(6) % 3, targets)
    part = Stack(models, split, training, RULES_OF_LAYERS, {})
    index = torch.tensor([[0, 1, 2, 5], [3, 4, 5, 0]])
    found = part._gradients(index, part.chain, {})
    for run, model in enumerate(models):
        outputs = model.train()(split.inputs[index[run]])
        loss = loss_of(training).reference(outputs, split.targets[index[run]])
        expected = torch.autograd.grad(loss, list(model.parameters()))
        assert len(expected) == len(found)
        for (name, _), theirs, ours in zip(model.named_parameters(), expected, found, strict=True):
            mine = ours.reshape(2, *theirs.shape)[run]
            assert torch.allclose(mine, theirs, rtol=0, atol=1e-13), name
