"""A survey of networks by two families, with few steps."""

from flatlab.core.resume_state import ResumeState
from flatlab.metrics import _measure_zoo

RADII = {"worst-adaptive-linf": [0.01, 0.02], "average-normalized-linf": [0.1]}
SHARPNESS = {"sharpness_radii": RADII, "sharpness_steps": 3, "sharpness_draws": 3}
FAMILIES = {"accuracy": {"more": ("errors", "gaps")}, "sharpness": SHARPNESS}


def surveyed(settings, folder, files=None):
    left = ResumeState(folder / "unfinished", {})
    return _measure_zoo.measure_zoo(settings, files, folder, left, "cpu")
