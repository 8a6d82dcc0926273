"""Regularizers: every mode does what their papers write, written out here."""

import numpy as np
import pytest
import torch

from flatlab.losses import loss_of
from flatlab.networks import build
from flatlab.plan import keys_of
from flatlab.splits import prepare
from flatlab.train import train_packs
from flatlab.train.initializations import draw
from flatlab.train.modes import MODES
from flatlab.train.recorded import Recorded
from flatlab.train.stacks import Stack
from tests.packs import DATA, TRAINING, images, same, settings, small

EXACT, STEPS = 1e-10, 60
SEED, SAMPLES, CLASSES = 3, 22, 3
NETWORKS = {
    "mlp": ("mlp", {}),
    "lenet5": ("lenet5", {}),
    "vgg": ("vgg", {}),
    "vgg with batch norm": ("vgg", {"normalization": "batch"}),
    "resnet": ("resnet", {}),
    "resnet without batch norm": ("resnet", {"normalization": "none"}),
}
SAM = {"regularizer": "sam", "sam_radius": 0.1}
RULES = {
    "sam": SAM,
    "sam with momentum, decay and cross-entropy": {
        **SAM,
        **{"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005, "loss": "cross-entropy"},
    },
    "sam with adam": {**SAM, "optimizer": "adam", "lr": 0.001},
    "sam with rates of their own": {**SAM, "lr": {"low": 0.002, "high": 0.04}},
    "sam on all samples in pieces": {**SAM, "minibatches": "full", "batch_size": 9},
}


def trained(network, seeds=(0, SEED), **given):
    [found] = train_packs(images((8, 8)), [settings(network, seeds, **given)])
    return found


def ascend(parameters, radius):
    """The step of SAM as published: to w + rho g / |g|; returns the way back."""
    before = [p.detach().clone() for p in parameters]
    norm = sum(float(p.grad.square().sum()) for p in parameters) ** 0.5
    with torch.no_grad():
        for p in parameters:
            p += radius * p.grad / norm

    def back():
        with torch.no_grad():
            for p, value in zip(parameters, before, strict=True):
                p.copy_(value)

    return back


def batches(training, steps):
    """The samples of each step, from numpy's generator of (seed, 1)."""
    if training["minibatches"] == "full":
        return [np.arange(SAMPLES)] * steps
    generator, size = np.random.default_rng([SEED, 1]), training["batch_size"]
    epochs = (generator.permutation(SAMPLES) for _ in range(steps))
    parts = (epoch[start : start + size] for epoch in epochs for start in range(0, 20, size))
    return [part for part, _ in zip(parts, range(steps), strict=False)]


def by_hand(network, options, training, steps):
    """The weights of a run that is trained by torch and the formulas of the papers."""
    training = {**TRAINING, **training}
    if isinstance(lr := training["lr"], dict):
        share = np.random.default_rng([SEED, 2]).uniform()
        training["lr"] = lr["low"] * (lr["high"] / lr["low"]) ** share
    split = prepare(images((8, 8)), DATA).train
    model = build(small(network, **options), (1, 8, 8), CLASSES)
    draw(model, "framework", SEED)
    model = model.double().train()
    parameters = list(model.parameters())
    given = {"lr": training["lr"], "weight_decay": training["weight_decay"]}
    update = (
        torch.optim.Adam(parameters, **given)
        if training["optimizer"] == "adam"
        else torch.optim.SGD(parameters, momentum=training["momentum"], **given)
    )
    loss = loss_of(training)

    def differentiate(batch):
        update.zero_grad()
        for piece in np.split(
            batch, range(training["batch_size"], len(batch), training["batch_size"])
        ):
            value = loss.reference(model(split.inputs[piece]), split.targets[piece])
            (value * len(piece) / len(batch)).backward()

    for batch in batches(training, steps):
        differentiate(batch)
        if radius := training.get("sam_radius"):
            averages = [tensor.clone() for tensor in model.buffers()]
            back = ascend(parameters, radius)
            differentiate(batch)
            back()
            for tensor, value in zip(model.buffers(), averages, strict=True):
                tensor.copy_(value)
        update.step()
    return model.state_dict()


@pytest.mark.parametrize(
    ("network", "rule"),
    [
        *((network, "sam") for network in NETWORKS),
        *(("mlp", rule) for rule in RULES if rule != "sam"),
        ("resnet", "sam with momentum, decay and cross-entropy"),
    ],
)
def test_every_mode_does_what_the_papers_write(network, rule):
    (name, options), training = NETWORKS[network], RULES[rule]
    expected = by_hand(name, options, training, STEPS)
    for mode in MODES:
        found = trained(name, options=options, mode=mode, iterations=STEPS, **training)
        for key, tensor in expected.items():
            array = found.weights[0][key][1, 0]
            assert array == pytest.approx(tensor.numpy(), rel=0, abs=EXACT), (mode, key)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_step_that_a_gpu_records_is_the_step_of_the_cpu(rule):
    """The recorded step reads all that changes from the device; here it is called."""
    given = settings("resnet", (0, SEED), mode="batched", **rule)
    split = prepare(images((8, 8)), DATA).train
    model = build(given["network"], (1, 8, 8), CLASSES).double()
    plain, recorded = (
        Stack([model] * 2, split, given["training"], keys_of("train/layers")) for _ in "ab"
    )
    record = Recorded(recorded, torch.device("cpu"))
    size = (
        SAMPLES if given["training"]["minibatches"] == "full" else given["training"]["batch_size"]
    )
    order = torch.randint(SAMPLES, (7, 2, size), generator=torch.Generator().manual_seed(0))
    chunk = {"order": order, "rates": torch.linspace(0.01, 0.02, 7)[:, None].expand(7, 2).double()}
    plain.load(chunk)
    each = isinstance(given["training"]["lr"], dict)
    record.load({**chunk, "rates": chunk["rates"] if each else chunk["rates"][:, 0]})
    for _ in order:
        plain.step()
        record.advance()
    for name, tensor in plain.views().items():
        assert torch.allclose(tensor, recorded.views()[name], rtol=0, atol=EXACT), name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", [{**SAM, "sam_radius": 0.0}])
def test_a_regularizer_of_strength_zero_changes_no_bit(rule, mode):
    plain, off = (trained("resnet", mode=mode, iterations=20, **r) for r in ({}, rule))
    same(off, plain)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_diverges_uphill_leaves_its_companions_alone(mode):
    """Its norm is not finite; theirs are their own."""
    rule = {**SAM, "lr": {"low": 0.02, "high": 30.0}, "precision": "float32", "iterations": 60}
    seeds = (0, 1, 2, 3, 4, 5)
    found = trained("mlp", seeds, mode=mode, **rule)
    ended = found.weights[1]["ended"]
    assert {*ended} == {"diverged", "finished"}
    if mode != "batched":  # which rounds differently at another width
        [alone] = [run for run, end in enumerate(ended) if end == "finished"][:1]
        other = trained("mlp", (seeds[alone],), mode=mode, **rule)
        for name, array in other.weights[0].items():
            assert array[0].tobytes() == found.weights[0][name][alone].tobytes(), name
