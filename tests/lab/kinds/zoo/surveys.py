"""A survey of networks by two families, with few steps; zoos as their files declare them."""

from pathlib import Path

import yaml

from flatlab.core.resume_state import ResumeState
from flatlab.lab import plan
from flatlab.metrics import _measure_zoo

EXPERIMENTS = Path(__file__).resolve().parents[4] / "experiments"
RADII = {"worst-adaptive-linf": [0.01, 0.02], "average-normalized-linf": [0.1]}
SHARPNESS = {"sharpness_radii": RADII, "sharpness_steps": 3, "sharpness_draws": 3}
FAMILIES = {"accuracy": {"more": ("errors", "gaps")}, "sharpness": SHARPNESS}


def surveyed(settings, folder, files=None):
    left = ResumeState(folder / "unfinished", {})
    return _measure_zoo.measure_zoo(settings, files, folder, left, "cpu")


def experiment(key, scale, folder=EXPERIMENTS):
    """An experiment of a folder, whose grids are there or the project's."""

    def find(other, where=""):
        place = folder if (folder / f"{other}.yaml").exists() else EXPERIMENTS
        return plan.load_experiment(place, other, scale, find, where)

    return find(key)


def changed(key, folder, change):
    """A file of an experiment, changed, in another folder."""
    content = yaml.safe_load((EXPERIMENTS / f"{key}.yaml").read_text())
    change(content)
    (folder / f"{key}.yaml").write_text(yaml.safe_dump(content))
