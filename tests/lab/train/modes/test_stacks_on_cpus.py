"""On a CPU, mode `batched` trains convolutional networks in several stacks if they are many."""

import numpy as np
import pytest

from flatlab.data._tensors import prepare
from flatlab.lab.train import modes, train_packs
from flatlab.lab.train.modes import Stacks
from flatlab.networks import build
from tests.lab.train.packs import DATA, images, settings

RAW = images((8, 8))


def pack(network, runs, **training):
    return settings(network, range(runs), mode="batched", **training)


def widths(network, runs, **training):
    """How many networks each stack has."""
    given = pack(network, runs, **training)
    models = [build(given["network"], (1, 8, 8), 3).double() for _ in range(runs)]
    return [len(group.slots) for group in Stacks(models, prepare(RAW, DATA).train, given).groups]


@pytest.mark.parametrize(
    ("network", "runs", "expected"),
    [
        ("lenet5", 6, [6]),
        ("lenet5", 7, [4, 3]),
        ("resnet", 15, [5, 5, 5]),
        ("lenet5", 13, [5, 5, 3]),
        ("mlp", 15, [15]),
    ],
)
def test_many_convolutional_networks_are_cut_into_stacks_of_about_one_width(
    network, runs, expected
):
    assert widths(network, runs) == expected


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [(8, [6, 6]), (32, [6, 6]), (64, [3] * 4), (128, [2] * 6), (1000, [2] * 6)],
)
def test_larger_minibatches_make_narrower_stacks(batch_size, expected):
    assert widths("lenet5", 12, batch_size=batch_size) == expected


STOP = {"stop": {"every": None, "epoch_loss": 0.25}, "lr": 0.05}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("network", "rule"), [("lenet5", STOP), ("resnet", {"iterations": 60, "momentum": 0.5})]
)
def test_several_stacks_train_as_the_loop_does(network, rule, monkeypatch):
    """With runs that stop at steps of their own, in stacks of 2, 2 and 1."""
    monkeypatch.setattr(modes, "MOST_NETWORKS", 2)
    [found] = train_packs(RAW, [pack(network, 5, **rule)])
    [expected] = train_packs(RAW, [settings(network, range(5), mode="loop", **rule)])
    assert found.weights[1] == expected.weights[1]
    assert len(set(found.weights[1]["steps"])) > 1 or "stop" not in rule
    for name, array in expected.weights[0].items():
        assert np.isfinite(array).all(), name
        np.testing.assert_allclose(found.weights[0][name], array, rtol=0, atol=1e-10)
    for name, curve in expected.curves.items():
        assert found.curves[name].values == pytest.approx(curve.values, rel=0, abs=1e-8), name
