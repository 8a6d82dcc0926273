"""Training on a GPU: as by a loop on the CPU, the same to the byte each time; memory comes back."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from flatlab.lab.train import Interrupted, cuda_graphs, train_packs
from tests.lab.train.packs import RANDOM, images, interrupt_after, same, settings

pytestmark = pytest.mark.gpu
EXACT = 1e-9
LARGE = (3, 32, 32)
NETWORKS = {
    "perceptron": ("mlp", {}, (8, 8)),
    "LeNet-5": ("lenet5", {}, (8, 8)),
    "VGG": ("vgg", {}, (8, 8)),
    "VGG with batch norm": ("vgg", {"normalization": "batch"}, (8, 8)),
    "ResNet": ("resnet", {}, (8, 8)),
    "narrow ResNet-18": ("resnet", {"widths": [4, 8, 8, 8]}, LARGE),
}
RULES = {
    "plain": {},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005},
    "falling rates of their own": {
        **{"lr": {"low": 0.002, "high": 0.04}, "momentum": 0.5},
        **{"schedule": "step", "milestones": [0.3, 0.6], "decay": 0.2},
    },
    "adam": {"optimizer": "adam", "lr": 0.002, "weight_decay": 1e-3},
    "rmsprop": {"optimizer": "rmsprop", "lr": 0.001, "alpha": 0.9, "momentum": 0.5},
    "ghost batches": {"minibatches": "full", "batch_size": 9},
    "mixup and SAM": {name: RANDOM[name] for name in ("regularizer", "mixup_alpha", "sam_radius")},
}
AT_ONCE = ("perceptron", "batched"), ("perceptron", "graphs"), ("VGG with batch norm", "graphs")
RULES_AT_ONCE = ("falling rates of their own", "mixup and SAM")  # rates; the data and the step
"""Without a GPU the others are left to the long suite; `make gpu` asks all of them."""


LONG = pytest.mark.long
EACH_NETWORK = [
    pytest.param(*about, mode, marks=[LONG] * ((name, mode) not in AT_ONCE), id=f"{name}-{mode}")
    for name, about in NETWORKS.items()
    for mode in ("batched", "graphs")
]
EACH_RULE = [
    pytest.param(rule, marks=[LONG] * (name not in RULES_AT_ONCE), id=name)
    for name, rule in RULES.items()
]
BATCHED_LATER = [pytest.param("batched", marks=LONG), "graphs"]
"""Graphs are recorded of the steps of `batched`, which the tests of train/ ask on a CPU."""


def steps(gpu):
    """A fake needs fewer: what is recorded is the same in each."""
    return 200 if gpu.type == "cuda" else 31


def trained(raw, gpu, given, **more):
    """A pack on the device, recorded without interruption."""
    return train_packs(raw, [{**given, "curves": "none"}], gpu.type, **more)[0]


def assert_as_on_the_cpu(raw, gpu, given, mode):
    [expected] = train_packs(raw, [given])
    found = trained(raw, gpu, {**given, "training": {**given["training"], "mode": mode}})
    for name, array in expected.weights[0].items():
        assert np.isfinite(array).all(), name
        assert found.weights[0][name] == pytest.approx(array, rel=0, abs=EXACT), name


@pytest.mark.first(2)
@pytest.mark.parametrize(("network", "options", "shape", "mode"), EACH_NETWORK)
def test_every_network_is_trained_as_by_the_loop_on_the_cpu(network, options, shape, mode, gpu):
    given = settings(network, options=options, iterations=steps(gpu))
    assert_as_on_the_cpu(images(shape), gpu, given, mode)


@pytest.mark.more
@pytest.mark.parametrize("rule", EACH_RULE)
def test_every_rule_is_followed_as_by_the_loop_on_the_cpu(rule, gpu):
    given = settings("vgg", iterations=steps(gpu), **rule)
    assert_as_on_the_cpu(images((8, 8)), gpu, given, "batched")


@pytest.mark.more
@pytest.mark.parametrize(
    ("mode", "precision"),
    [
        ("graphs", "tf32"),
        *(pytest.param("batched", each, marks=LONG) for each in ("float32", "tf32")),
    ],
)
def test_bytes_repeat_beside_others_and_after_a_stop(mode, precision, gpu, tmp_path, monkeypatch):
    raw, how = images((8, 8)), {"mode": mode, "precision": precision, "iterations": steps(gpu)}
    packs = [settings(name, seeds, **how) for name in ("vgg", "mlp") for seeds in ((0, 3), (5, 7))]
    packs = [{**pack, "curves": {"every": None, "log_spaced": 3}} for pack in packs]
    alone = [train_packs(raw, [pack], gpu.type)[0] for pack in packs]
    for found, expected in zip(train_packs(raw, packs, gpu.type), alone, strict=True):
        same(found, expected)
    folders = [tmp_path / str(number) for number in range(len(packs))]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 67)
        with pytest.raises(Interrupted):
            train_packs(raw, packs, gpu.type, folders=folders)
    resumed = train_packs(raw, packs, gpu.type, folders=folders)
    for found, expected in zip(resumed, alone, strict=True):
        same(found, expected)


@pytest.mark.more
@pytest.mark.parametrize("mode", BATCHED_LATER)
def test_one_that_diverges_stands_still_beside_others_that_do_not(mode, gpu):
    raw, count = images((8, 8)), steps(gpu)
    how = {"mode": mode, "precision": "float32", "lr": {"low": 0.01, "high": 50.0}}
    both = [settings("mlp", seeds=range(6), iterations=n, **how) for n in (count, count + 9)]
    found, longer = (trained(raw, gpu, given) for given in both)
    ends = found.weights[1]["ended"]
    assert set(ends) == {"diverged", "finished"}
    for run, why in enumerate(ends):
        for name, array in found.weights[0].items():
            if why == "diverged":
                assert array[run].tobytes() == longer.weights[0][name][run].tobytes()
            else:
                assert np.isfinite(array[run]).all()


@pytest.mark.more
@pytest.mark.parametrize("mode", BATCHED_LATER)
def test_one_that_stops_leaves_the_others_bytes(mode, gpu):
    raw = images((8, 8))
    how = {"mode": mode, "precision": "float32", "iterations": steps(gpu)}
    how |= {"lr": {"low": 0.001, "high": 0.1}}
    rule = {"every": 10, "accuracy": None, "loss": 0.26, "mean_of": 1}
    free = trained(raw, gpu, settings("mlp", seeds=range(6), **how))
    stopped = trained(raw, gpu, settings("mlp", seeds=range(6), stop=rule, **how))
    assert set(stopped.weights[1]["ended"]) == {"stopped", "finished"}
    for run, why in enumerate(stopped.weights[1]["ended"]):
        pairs = [(a[run], stopped.weights[0][name][run]) for name, a in free.weights[0].items()]
        assert all(np.array_equal(*pair) for pair in pairs) == (why == "finished")


@pytest.mark.first(1)
@pytest.mark.parametrize("place", ["steps", "everything else"])
def test_streams_wait_for_each_other_however_slow_one_is(place, gpu, monkeypatch):
    raw = images((8, 8))
    given = settings("mlp", mode="graphs", precision="float32", iterations=steps(gpu))
    given |= {"checkpoints": [7, 20]}
    expected = trained(raw, gpu, given)

    def slow(original):
        def method(self, *arguments):
            if place == "steps":
                with torch.cuda.stream(self.stream):
                    torch.cuda._sleep(10_000_000)
            result = original(self, *arguments)
            if place != "steps":
                torch.cuda._sleep(10_000_000)
            return result

        return method

    recorded = cuda_graphs.RecordedSteps
    for name in ("load", "launch", "settle"):
        monkeypatch.setattr(recorded, name, slow(getattr(recorded, name)))
    same(trained(raw, gpu, given), expected)


def test_the_memory_of_many_networks_is_bounded_and_given_back(real):
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    how = {"mode": "graphs", "precision": "float32", "iterations": 100, "batch_size": 20}
    given = settings("lenet5", seeds=range(100), options={"kernel": 5, "padding": 0}, **how)
    trained(images(LARGE, samples=200), real, given)
    assert torch.cuda.max_memory_reserved() - before < 8 * 2**30
    assert torch.cuda.memory_reserved() - before < 2**26


STOPPED = """
import sys, pytest
from flatlab.cli import main
from tests.lab.train.packs import interrupt_after
interrupt_after(pytest.MonkeyPatch(), 700)
sys.exit(main(sys.argv[1:]))
"""


def test_a_command_that_is_stopped_goes_on_where_it_was(real, tmp_path):
    run = ["run", "mlp-grid", "lr0.1-b20-s0-4", "--scale", "demo", "--device", "cuda"]
    paths = [os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def results(name, *before):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").symlink_to(os.path.abspath("config.yaml"))
        for start in (*before, ["-m", "flatlab"]):
            ended = subprocess.run([sys.executable, *start, *run], cwd=folder, env=here)
            assert bool(ended.returncode) == (start in before)
        files = (path for path in sorted(folder.glob("results/**/*")) if path.is_file())
        kept = (path for path in files if not path.name.endswith(".provenance.json"))
        return {path.relative_to(folder): path.read_bytes() for path in kept}

    assert results("stopped", ["-c", STOPPED]) == results("undisturbed") != {}
