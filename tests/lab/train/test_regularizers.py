"""Regularizers: every mode does what their papers write, written out here."""

import itertools
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flatlab.data import DataError, load
from flatlab.data._tensors import prepare
from flatlab.lab.train import TrainError, train_packs
from flatlab.lab.train.minibatch_transforms import random_numbers, transforms_of
from flatlab.lab.train.modes import MODES
from tests.lab.train import by_hand
from tests.lab.train.by_hand import SEED
from tests.lab.train.modes.rules import PLAIN, PRE
from tests.lab.train.packs import DATA, GIVEN, images, only, same, settings

EXACT, STEPS = 1e-10, 15
NARROW = {"widths": [4, "pool", 6, "pool"], "hidden": [8]}
VIT = {"patch": 4, "width": 8, "depth": 2, "heads": 2, "head_width": 4, "mlp_width": 12}
NETWORKS = {
    "mlp": ("mlp", {"width": 16}),
    "lenet5": ("lenet5", {}),
    "vgg": ("vgg", NARROW),
    "vgg with batch norm": ("vgg", {**NARROW, "normalization": "batch"}),
    "resnet": ("resnet", {}),
    "resnet without batch norm": ("resnet", PLAIN),
    "preactivation resnet": ("resnet", PRE),
    "preactivation resnet without batch norm": ("resnet", {**PRE, **PLAIN}),
    "simple-vit": ("simple-vit", VIT),
}
STRENGTHS = {"sam_radius": 0.1, "mixup_alpha": 0.5}
BOTH = {"regularizer": "mixup+sam", **STRENGTHS}
MIXUP = {"regularizer": "mixup", "mixup_alpha": 0.5}
SAM = {"regularizer": "sam", "sam_radius": 0.1}
SMOOTHED = {"loss": "cross-entropy", "label_smoothing": 0.3}
RMSPROP = {"optimizer": "rmsprop", "alpha": 0.9, "lr": 0.001}
RULES = {
    "sam": SAM,
    "sam with momentum, decay and cross-entropy": {
        **SAM,
        **{"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005, "loss": "cross-entropy"},
    },
    "sam with adam": {**SAM, "optimizer": "adam", "lr": 0.001, "weight_decay": 1e-3},
    "sam with rmsprop": {**SAM, **RMSPROP, "momentum": 0.5},
    "sam with rates of their own": {**SAM, "lr": {"low": 0.002, "high": 0.04}},
    "mixup": MIXUP,
    "mixup, sam and adam": {**BOTH, "optimizer": "adam", "lr": 1e-3},
    "mixup with smoothed cross-entropy": {**MIXUP, **SMOOTHED, "minibatches": "replacement"},
    "crops and flips": {"augmented": 1.0},
    "crops and flips of some": {"augmented": 0.4, "momentum": 0.9, "lr": 0.005},
    "randaugment": {"operations": 2},
    "everything": {**BOTH, **SMOOTHED, "momentum": 0.9, "augmented": 0.7, "operations": 2},
    "everything with rmsprop": {**BOTH, **RMSPROP, "augmented": 0.7, "operations": 2},
    "sam on all samples in pieces": {**SAM, "minibatches": "full", "batch_size": 9},
}


NOISE = [
    ("vgg with batch norm", rule)
    for rule in ("sam with rmsprop", "mixup, sam and adam", "everything with rmsprop")
]
"""Gradients of biases in front of batch norm are rounding alone; these rules enlarge it."""


def cases():
    """Every rule of perceptrons, and one or two of each network; all other pairs are long."""
    for network, rule in itertools.product(NETWORKS, RULES):
        if (network, rule) in NOISE:
            continue
        resnet = (network, rule) == ("resnet", "sam with rmsprop")
        quick = network == "mlp" or rule == "everything" or resnet
        marks = [] if quick else [pytest.mark.long]
        yield pytest.param(network, rule, marks=marks, id=f"{network}-{rule}")


def pack(network, seeds=(0, SEED), augmented=None, operations=None, **given):
    return settings(network, seeds, data=by_hand.data_of(augmented, operations), **given)


def trained(network, seeds=(0, SEED), **given):
    return only(images((8, 8)), pack(network, seeds, **given))


@pytest.mark.first(4)
@pytest.mark.parametrize(("network", "rule"), [*cases()])
def test_every_mode_does_what_the_papers_write(network, rule):
    (name, options), training = NETWORKS[network], RULES[rule]
    expected = by_hand.weights(name, options, STEPS, **training)
    modes = MODES if name == "mlp" else ("loop",) if name == "simple-vit" else ("batched",)
    for mode in modes:
        found = trained(name, options=options, mode=mode, iterations=STEPS, **training)
        assert set(found.weights[0]) == set(expected)
        for key, tensor in expected.items():
            array = found.weights[0][key][1, 0]
            np.testing.assert_allclose(array, tensor, rtol=0, atol=EXACT, err_msg=f"{mode} {key}")


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("rule", "mode"),
    [
        ({**SAM, "sam_radius": 0.0}, "batched"),
        ({**MIXUP, "mixup_alpha": 0.0}, "graphs"),
        ({"augmented": 0.0}, "batched"),
        ({"operations": 0}, "batched"),
        (
            {**BOTH, "sam_radius": 0.0, "mixup_alpha": 0.0, "augmented": 0.0, "operations": 0},
            "loop",
        ),
    ],
)
def test_what_has_strength_zero_changes_no_bit(rule, mode):
    given = {"options": NETWORKS["resnet"][1], "mode": mode, "iterations": 20}
    plain, off = (trained("resnet", **given, **r) for r in ({}, rule))
    same(off, plain)
    off = trained("mlp", mode=mode, iterations=2, minibatches="full", **rule)
    same(off, trained("mlp", mode=mode, iterations=2, minibatches="full"))


@pytest.mark.first(1)
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


@pytest.mark.parametrize("start", [0, 1, 99, 100, 250])
def test_random_numbers_depend_on_seed_and_step_alone(start):
    """They can be entered anywhere, in whichever pack the run is."""
    changes = transforms_of(pack("mlp", **RULES["everything"]), prepare(images((8, 8)), DATA).train)
    whole = [*islice(random_numbers(changes, (2, 7), 4, 0), 300)]
    rest = [*islice(random_numbers(changes, (7,), 4, start), 300 - start)]
    for one, other in zip(whole[start:], rest, strict=True):
        for name, numbers in one.items():
            assert np.array_equal(numbers[1], other[name][0])
    shares = np.array([step["mixup.share"] for step in whole])
    assert len(np.unique(shares)) == shares.size
    assert 0.3 < shares.mean() < 0.7
    places = np.stack([step["crop-flip.place"] for step in whole]).reshape(-1, 3)
    changed = (places != [2, 2, 0]).any(1)
    assert abs(changed.mean() - 0.7 * (1 - 1 / 50)) < 0.03
    assert {*places[:, 0], *places[:, 1]} == {0, 1, 2, 3, 4}
    assert abs(places[:, 2].mean() - 0.7 / 2) < 0.03


PAIR, PICTURES, VECTORS = load("gaussian-pair"), images((8, 8)), images((64,))
CROPPED, AUGMENTED = by_hand.data_of(1.0), by_hand.data_of(1.0, 2)
MIXED_SIGNS = {"data": GIVEN, "loss": "logistic", **MIXUP}
COMPONENTS, MEANS = {**CROPPED, "scaling": "components"}, {**AUGMENTED, "pixels": 4}
REFUSED = {
    "mixup of all samples": (PICTURES, {**MIXUP, "minibatches": "full"}, "full .* without mixup"),
    # The logistic loss of a target between -1 and 1 is no mixture of two losses.
    "mixed signs": (PAIR, MIXED_SIGNS, "logistic has no mixed targets, as mixup needs"),
    "classes as signs": (PICTURES, {"loss": "logistic"}, r"logistic needs targets of \+-1"),
    "crops of components": (PICTURES, {"data": COMPONENTS}, r"scaling must not be components"),
    "crops of vectors": (VECTORS, {"data": CROPPED}, "these data are not images"),
    "randaugment of vectors": (VECTORS, {"data": AUGMENTED}, "are not images"),
    "randaugment of means": (PICTURES, {"data": MEANS}, "no images of 8 bits; data.pixels"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_data_or_the_loss_do_not_allow_is_refused(kind):
    raw, rule, sentence = REFUSED[kind]
    network = "linear" if raw is PAIR else "mlp"
    with pytest.raises((TrainError, DataError), match=sentence):
        train_packs(raw, [settings(network, iterations=2, **rule)])


@pytest.mark.parametrize("mode", MODES)
def test_curves_are_those_of_the_samples_themselves(mode):
    """At the start nothing has been trained: what changes minibatches leaves no trace."""
    plain = trained("mlp", mode=mode, iterations=1)
    other = trained("mlp", mode=mode, iterations=1, **RULES["everything with rmsprop"])
    start = {"iteration": 0}
    assert plain.curves.isel(start).equals(other.curves.isel(start))


@pytest.mark.parametrize("scaling", ["unit", "standardized"])
def test_randaugment_is_that_of_torchvision(scaling):
    """On images of 8 bits in colour, with the seed of the step."""
    raw = images((3, 8, 8))
    data = {**AUGMENTED, "scaling": scaling}
    split = prepare(raw, data).train
    changes = transforms_of(settings("mlp", data=data), split)
    numbers = next(random_numbers(changes, (SEED,), 5, 7))
    before = torch.get_rng_state()
    seed = torch.tensor(numbers["rand-augment.seed"])
    found, _ = changes["rand-augment"].apply(split.inputs[None, :5], split.targets[None, :5], seed)
    assert torch.equal(torch.get_rng_state(), before)
    moments = (0, 255) if scaling == "unit" else None
    scaled = by_hand.changed(range(5), 0.0, 2, 7, raw["train_inputs"].values, moments)
    assert torch.allclose(found[0], scaled, rtol=0, atol=1e-13)
    assert not torch.allclose(found[0], split.inputs[:5], rtol=0, atol=0.1)


def test_randaugment_cannot_be_part_of_a_recorded_step(monkeypatch):
    split = prepare(images((3, 8, 8)), AUGMENTED).train
    change = transforms_of(settings("mlp", data=AUGMENTED), split)["rand-augment"]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(DataError, match=r"on a GPU it needs training\.mode: loop"):
        change.apply(SimpleNamespace(is_cuda=True), torch.zeros(1), torch.tensor([0]))
