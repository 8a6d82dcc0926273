"""What no machine here can train as published at least starts: steps of every configuration.

Configurations that differ in how large a number is, such as a learning rate, are one.
"""

import json

import numpy as np
import pytest

from flatlab.core.registry import literal
from flatlab.lab import plan
from flatlab.lab.train import train_packs
from tests.lab.kinds.experiments import content_of, load
from tests.lab.train.packs import images

STEPS, SAMPLES, BATCH = 3, 10, 2


def grids():
    """Those of photographs at scale `paper`."""
    for key in sorted(plan.experiment_files()):
        content = content_of(key)
        if content["kind"] == "grid" and content["data"]["set"] in ("cifar10", "cifar100"):
            yield load(key, "paper")


def signs(settings):
    """Settings with a number that tells whether each is on, in place of how much."""
    if isinstance(settings, dict):
        return {key: signs(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return [signs(value) for value in settings]
    number = isinstance(settings, (int, float)) and not isinstance(settings, bool)
    return settings > 0 if number else settings


def configurations():
    """The first run of each, on few samples and in small batches.

    Of each architecture, normalization and depth one is asked at once, in minibatches, and all
    others in the long suite.
    """
    cases, kinds, networks = [], set(), set()
    for grid in grids():
        for pack in grid.packs:
            settings = json.loads(json.dumps(grid.training(pack).settings))
            training = {**settings["training"], "iterations": STEPS, "epochs": None}
            batch = SAMPLES // 2 if training["minibatches"] == "full" else BATCH
            training["batch_size"] = min(training["batch_size"], batch)
            if not isinstance(training["lr"], dict):  # rates are meant for larger batches
                training["lr"] = min(training["lr"], 0.01)
            settings |= {"training": training, "checkpoints": [1], "curves": "none"}
            settings |= {"seeds": [0], "runs": ["first"]}
            settings["data"]["samples"] = "all"
            on = {name: signs(settings[name]) for name in ("data", "training")}
            network = json.dumps(settings["network"], sort_keys=True)
            if (kind := json.dumps([network, on], sort_keys=True)) in kinds:
                continue
            kinds.add(kind)
            marks = [pytest.mark.long]
            options = settings["network"]["options"]
            kind = (settings["network"]["name"], options.get("normalization"))
            if kind not in networks and training["minibatches"] != "full":
                networks.add(kind)
                marks = []
            cases.append(pytest.param(settings, id=f"{grid.key}:{pack}", marks=marks))
    return cases


@pytest.mark.first(1)
@pytest.mark.parametrize("settings", configurations())
def test_paper_scale_takes_steps(settings):
    name = settings["data"]["set"]
    shape, classes = (literal("data", name, which) for which in ("SHAPE", "OUTPUTS"))
    raw = images(shape, samples=SAMPLES, classes=classes)
    [trained] = train_packs(raw, [settings])
    arrays, about = trained.weights
    assert about["steps"] == [STEPS] or about["ended"] == ["stopped"]
    assert all(np.isfinite(array).all() for array in arrays.values())
    before, first = trained.dense
    assert first["iterations"] == [1]
    # the gradient of a bias before batch norm is rounding, and may be zero
    weights = [name for name in arrays if name.endswith("weight")]
    assert not any(np.array_equal(arrays[name], before[name]) for name in weights)
