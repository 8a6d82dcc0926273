"""Every mode of the training engine does what a plain loop in the framework does."""

import numpy as np
import pytest

from flatlab.core.registry import literal
from flatlab.data import load
from flatlab.lab.train import train_packs
from tests.lab.train import by_hand
from tests.lab.train.by_hand import rate_of
from tests.lab.train.modes.rules import (
    ARCHITECTURES,
    EXACT,
    LARGE,
    NETWORKS,
    RATES,
    RULES,
    assert_equal,
    weights,
)
from tests.lab.train.packs import GIVEN, RANDOM, images, only, same, settings


def modes_agree(raw, network, exact=EXACT, modes=("batched", "graphs"), **given):
    """The stacked modes train as the loop does."""
    expected = weights(raw, network, mode="loop", **given)
    for mode in modes:
        assert_equal(weights(raw, network, mode=mode, **given), expected, exact)


def test_every_architecture_that_has_a_stacked_form_is_among_them():
    assert {name for name, *_ in NETWORKS.values()} == set(ARCHITECTURES)


@pytest.mark.first(6)
@pytest.mark.parametrize(("network", "options", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_every_mode_trains_every_architecture_as_the_loop_does(network, options, shape):
    raw, steps = images(shape), 8 if shape == LARGE else 20
    modes = (literal("networks", network, "MODE"),)  # the other one has the same layers
    modes_agree(raw, network, modes=modes, options=options, iterations=steps)


def with_rules():
    """Each rule with a network; with one that costs more than perceptrons only the different."""
    some = "momentum and decay", "full batch in ghost batches"
    for network in ("mlp", "lenet5", "resnet"):
        for name, rule in RULES.items():
            short = network == "mlp" or (network == "resnet" and name in some)
            marks = [] if short else [pytest.mark.long]
            yield pytest.param(network, rule, marks=marks, id=f"{network}-{name}")


@pytest.mark.first(6)
@pytest.mark.parametrize(("network", "rule"), [*with_rules()])
def test_every_mode_follows_every_rule_as_the_loop_does(network, rule):
    raw, rule = images((8, 8)), {"iterations": 20, **rule}
    modes_agree(raw, network, **rule)


SINGLE = {"precision": "float32", "iterations": 10}
FITTED = {"data": GIVEN, "loss": "sum-of-squares", "lr": 1e-4, "batch_size": 8, "iterations": 30}
PIECES = {"data": GIVEN, "minibatches": "full", "batch_size": 17, "iterations": 60}
DECAYING, OWN_RATES = RULES["momentum and decay"], RULES["adam with rates of their own"]
SPARSE = {**PIECES, "loss": "sum-of-squares", "lr": RATES}
OTHERS = {
    # In single precision the layout of images in memory is another one.
    "lenet5": ("images", {**SINGLE, **DECAYING}),
    # A regression has its own targets, inputs that are numbers, and no labels.
    "mlp relu": ("eight-points", {**FITTED, "options": {"activation": "relu"}}),
    # The two grids of linear models, whose runs see all samples in each step, in several pieces.
    "linear": ("gaussian-pair", {**PIECES, "loss": "logistic", "lr": 5.0}),
    "diagonal-linear": ("sparse-regression", SPARSE),
    "vgg": ("images", {**SINGLE, **OWN_RATES, "options": {"padding": 2}}),
    "resnet": ("images", {**SINGLE, **DECAYING, "options": {"normalization": "none"}}),
    "mlp tanh": ("eight-points", {**FITTED, "options": {"activation": "tanh"}}),
    "mlp gaussian": ("eight-points", {**FITTED, "options": {"activation": "gaussian"}}),
}


@pytest.mark.first(4)
@pytest.mark.parametrize("network", OTHERS)
def test_every_mode_trains_on_other_data_and_in_single_precision_as_the_loop_does(network):
    data, rule = OTHERS[network]
    raw = images((8, 8)) if data == "images" else load(data)
    modes_agree(raw, network.split()[0], exact=1e-5 if data == "images" else EXACT, **rule)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("network", "mode"), [("mlp", "loop"), ("mlp", "graphs"), ("resnet", "batched")]
)
def test_packs_do_not_depend_on_what_is_trained_beside_them(network, mode):
    raw = images((8, 8))
    packs = [
        settings(network, seeds=seeds, mode=mode, precision="float32", iterations=12, lr=lr)
        for seeds, lr in (((0, 1), 0.02), ((2, 5, 7), 0.02), ((0, 1), 0.1))
    ]
    together = train_packs(raw, packs)
    for pack, beside in zip(packs, together, strict=True):
        same(only(raw, pack), beside)


STOP = {"every": None, "loss": None, "accuracy": None, "mean_of": 1}
AT_A_LOSS = {"batch_size": 60, "iterations": 900, "stop": {**STOP, "every": 100, "loss": 1.0}}
AT_AN_EPOCH = {"lr": 0.05, "iterations": 200, "stop": {**STOP, "epoch_loss": 0.2}}
STOPPING = {
    "rates": ("diagonal-linear", {**SPARSE, **AT_A_LOSS}),
    "random numbers": ("mlp", {**RANDOM, "data": by_hand.data_of(0.2), **AT_AN_EPOCH}),
}


@pytest.mark.more
@pytest.mark.parametrize("theirs", STOPPING)
def test_runs_that_stop_take_what_is_theirs_with_them(theirs):
    """Others leave the stack, and each that stays keeps its own, and the sum of its losses."""
    network, rule = STOPPING[theirs]
    raw = images((8, 8)) if network == "mlp" else load("sparse-regression")
    (expected, about), (found, told) = (
        only(raw, settings(network, range(6), mode=mode, **rule)).weights
        for mode in ("loop", "batched")
    )
    assert len({*about["steps"]}) > 2
    assert told["steps"] == about["steps"]
    assert_equal(found, expected, 1e-7 if network == "mlp" else EXACT)


def test_the_rate_that_a_run_drew_is_told():
    """It belongs to the seed alone, in whichever pack."""
    raw = images((8, 8))
    for seeds in ((0, 3, 4), (3,)):
        pack = settings("mlp", seeds, iterations=2, lr=RATES, mode="batched")
        trained = only(raw, pack)
        expected = [rate_of(seed, RATES) for seed in seeds]
        assert trained.weights[1]["lr"] == pytest.approx(expected, rel=1e-12)
    assert "lr" not in only(raw, settings("mlp", iterations=2)).weights[1]


@pytest.mark.first(6)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_loop_is_what_one_writes_with_the_framework(rule):
    """SGD, schedulers and losses of torch, on the data in the order of numpy's generator."""
    steps = min(rule.get("iterations", 10), 10)
    arrays = weights(images((8, 8)), "resnet", mode="loop", **{**rule, "iterations": steps})
    rule = {key: value for key, value in rule.items() if key != "iterations"}
    for name, tensor in by_hand.weights("resnet", {}, steps, **rule).items():
        np.testing.assert_allclose(arrays[name][1, 0], tensor, rtol=0, atol=1e-9, err_msg=name)
