"""On a CPU, mode `batched` trains convolutional networks in several stacks if they are many."""

import os
import subprocess
import sys

import numpy as np
import pytest

from flatlab.data._tensors import prepare
from flatlab.lab.train import modes
from flatlab.lab.train.modes import Stacks
from flatlab.networks import build
from tests.lab.train.packs import DATA, images, only, settings

RAW = images((8, 8))


@pytest.mark.parametrize(
    ("network", "runs", "batch_size", "expected"),
    [
        ("lenet5", 6, 4, [6]),
        ("lenet5", 7, 4, [4, 3]),
        ("lenet5", 13, 4, [5, 5, 3]),
        ("resnet", 15, 4, [5, 5, 5]),
        ("mlp", 15, 4, [15]),
        *(("lenet5", 12, size, [6, 6]) for size in (8, 32)),
        ("lenet5", 12, 64, [3] * 4),
        *(("lenet5", 12, size, [2] * 6) for size in (128, 1000)),
    ],
)
def test_many_convolutional_networks_are_cut_into_stacks_of_about_one_width(
    network, runs, batch_size, expected
):
    """Larger minibatches make narrower stacks."""
    given = settings(network, range(runs), mode="batched", batch_size=batch_size)
    models = [build(given["network"], (1, 8, 8), 3).double() for _ in range(runs)]
    stacks = Stacks(models, prepare(RAW, DATA).train, given)
    assert [len(group.slots) for group in stacks.groups] == expected


STOP = {"stop": {"every": None, "epoch_loss": 0.25}, "lr": 0.05}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("network", "rule"), [("lenet5", STOP), ("resnet", {"iterations": 60, "momentum": 0.5})]
)
def test_several_stacks_train_as_the_loop_does(network, rule, monkeypatch):
    """With runs that stop at steps of their own, in stacks of 2, 2 and 1."""
    monkeypatch.setattr(modes, "MOST_NETWORKS", 2)
    found, expected = (
        only(RAW, settings(network, range(5), mode=mode, **rule)) for mode in ("batched", "loop")
    )
    assert found.weights[1] == expected.weights[1]
    assert len(set(found.weights[1]["steps"])) > 1 or "stop" not in rule
    for name, array in expected.weights[0].items():
        assert np.isfinite(array).all(), name
        np.testing.assert_allclose(found.weights[0][name], array, rtol=0, atol=1e-10)
    for name, curve in expected.curves.items():
        assert found.curves[name].values == pytest.approx(curve.values, rel=0, abs=1e-8), name


@pytest.mark.more
def test_gradients_of_kernels_of_one_pixel_keep_within_their_memory():
    """As torch's own do not with AVX2 alone: the process of this training used to crash."""
    train = (
        "from tests.lab.train.packs import images, only, settings\n"
        "how = {'mode': 'batched', 'precision': 'float32', 'iterations': 300}\n"
        "print(only(images((3, 8, 8)), settings('resnet', [0], **how)).weights[1]['ended'])"
    )
    older = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", train], env=older, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "['finished']\n"), done.stderr
