"""A survey of networks by two families, with few steps."""

from types import SimpleNamespace

from flatlab.core import store
from flatlab.core.resume_state import ResumeState
from flatlab.lab.train import train_packs
from flatlab.measuring.networks import measure_networks

RADII = {"worst-adaptive-linf": [0.01, 0.02], "average-normalized-linf": [0.1]}
SHARPNESS = {"sharpness_radii": RADII, "sharpness_steps": 3, "sharpness_draws": 3}
FAMILIES = {"accuracy": {"more": ("errors", "gaps")}, "sharpness": SHARPNESS}


def surveyed(settings, folder, files=None):
    left = ResumeState(folder / "unfinished", {})
    return measure_networks(settings, files, folder, left, "cpu")


def networks_of_a_grid(folder, raw, asked, seeds, **known):
    """Networks that are trained as asked: what a zoo's job is told of some, its files, weights."""
    [trained] = train_packs(raw, [asked])
    weights, data = (
        str(folder / "pack.safetensors"),
        str(folder / f"{asked['data']['set']}.zarr.zip"),
    )
    files = SimpleNamespace(weights=[weights], data=[data])
    store.save_weights(weights, *trained.weights)
    store.save_dataset(data, raw)
    about = {"network": asked["network"], "data": asked["data"], "outputs": None, "file": 0}
    chosen = [{**about, "run": f"s{seed}", "hyperparameters": known} for seed in seeds]
    return chosen, files, trained.weights
