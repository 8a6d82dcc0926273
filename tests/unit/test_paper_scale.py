"""What no machine here can train as published at least starts: ten steps of every configuration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flatlab import plan
from flatlab.plan.registry import literal
from flatlab.train import train_packs
from tests.packs import images

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
GRIDS = ("minima-grid", "minima-readings-grid")
STEPS, SAMPLES, BATCH = 10, 40, 4


def configurations(grid) -> dict[str, dict]:
    """The first run of every setting, on few samples and in small batches; each once."""
    found = {}
    for pack in grid.packs:
        settings = json.loads(json.dumps(grid.training(pack).settings))
        settings |= {"checkpoints": "none", "curves": "none"}
        settings |= {"seeds": [0], "runs": ["first"]}
        settings["data"]["samples"] = "all"
        training = settings["training"]
        training |= {"iterations": STEPS, "epochs": None}
        training["batch_size"] = min(training["batch_size"], BATCH)
        found.setdefault(json.dumps(settings, sort_keys=True), pack)
    return {pack: json.loads(settings) for settings, pack in found.items()}


def at_paper_scale() -> list:
    def find(key, where=""):
        return plan.load_experiment(FOLDER, key, "paper", find, where)

    return [
        pytest.param(settings, id=f"{key}:{pack}")
        for key in GRIDS
        for pack, settings in configurations(find(key)).items()
    ]


@pytest.mark.parametrize("settings", at_paper_scale())
def test_paper_scale_takes_steps(settings):
    name = settings["data"]["set"]
    shape, classes = (literal("data", name, which) for which in ("SHAPE", "OUTPUTS"))
    raw = images(shape, samples=SAMPLES, classes=classes)
    before, after = (
        train_packs(raw, [settings | {"training": settings["training"] | {"iterations": steps}}])
        for steps in (1, STEPS)
    )
    arrays, about = after[0].weights
    assert about["steps"] == [STEPS] or about["ended"] == ["diverged"]
    assert all(np.isfinite(array).all() for array in arrays.values())
    changed = [not np.array_equal(array, before[0].weights[0][n]) for n, array in arrays.items()]
    assert all(changed)
