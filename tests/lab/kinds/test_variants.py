"""What the papers leave open is a key: each variant, trained and measured from a grid's file."""

import copy
import functools

import numpy as np
import pytest

from tests.lab.kinds.experiments import content_of, load, table_of, written
from tests.lab.train.packs import images

RAW = {"mlp-grid": images((28, 28), 40, 10), "other": images((3, 32, 32), 40, 10)}
STEPS = 4

VGG11 = {
    "widths": [64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"],
    "hidden": [512, 512],
    "padding": 1,
}
VARIANTS = {
    "mlp-grid": {
        "two classes": ("data", {"classes": [0, 1]}),
        "standardized": ("data", {"scaling": "standardized"}),
        "tanh": ("network", {"activation": "tanh"}),
        "He": ("network", {"initialization": "he-normal"}),
        "more outputs": ("network", {"outputs": 12}),
        "Xavier": ("network", {"initialization": "xavier-normal"}),
        "mean-mse": ("training", {"loss": "mean-mse"}),
        "with replacement": ("training", {"minibatches": "replacement"}),
        "three singular values": ("measure", {"singular_values": 3}),
        "flatness of the mean loss": ("measure", {"relative_flatness_loss": "mean-mse"}),
        "every second step": ("checkpoints", {"dense": {"every": 2}}),
        "gap of the losses": ("measure", {"generalization_gap": "loss"}),
    },
    "vgg-grid": {"vgg11": ("network", VGG11), "ten outputs": ("network", {"outputs": 10})},
    "lenet-grid": {"framework": ("network", {"initialization": "framework"})},
}
LONG = {("vgg-grid", "vgg11")}
CASES = [(grid, None) for grid in VARIANTS]
CASES += [(grid, name) for grid, variants in VARIANTS.items() for name in variants]
CASES = [pytest.param(*case, marks=[pytest.mark.long] * (case in LONG)) for case in CASES]


def made(grid_key, change, folder):
    """Four steps and two samples of a grid's experiment with one key changed, as a table."""
    content = content_of(grid_key)
    content["seeds"] = ["0-1"]
    content["scales"]["paper"] = {}
    content["settings"] = content["settings"][:1]
    content["settings"][0] = {"lr": 0.0001, "batch_size": 4}  # no variant diverges
    content["checkpoints"] = {"dense": "none", "seeds": "all"}
    content["training"]["iterations"] = STEPS
    content["measure"] |= {"families": ["accuracy", "geometry"], "diverged_below": 0}
    for chosen in content["measure"]["samples"].values():
        chosen["size"] = 2
    if grid_key == "vgg-grid":
        content["network"] |= content["scales"]["short"]["network"]
    if change:
        section, keys = copy.deepcopy(change)
        content[section] |= keys
    grid = load(written(folder, grid_key, content), "paper")
    table, trained = table_of(grid, RAW.get(grid_key, RAW["other"]))
    ((weights, _),) = (each.weights for each in trained.values())
    return table, weights


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """The table of each grid as the paper has it."""
    return functools.cache(lambda grid: made(grid, None, tmp_path_factory.mktemp(grid)))


@pytest.mark.every(7)
@pytest.mark.parametrize(("grid", "variant"), CASES, ids=lambda value: str(value))
def test_every_variant_is_trained_and_measured_and_changes_the_numbers(
    grid, variant, default, tmp_path
):
    if variant is None:
        table, _ = default(grid)
    else:
        change = VARIANTS[grid][variant]
        table, weights = made(grid, change, tmp_path)
        assert not table.identical(default(grid)[0])
        if outputs := change[1].get("outputs"):
            *_, bias = weights.values()
            assert bias.shape[-1] == outputs
    end = table.isel(checkpoint=-1).sel(samples="train")
    assert end.sizes["run"] == 2
    assert np.isfinite(end["train_loss"]).all()
    assert np.isfinite(end["sharpness"]).all()
    assert (end["sharpness"] > 0).all()
    assert table["checkpoint"].values[-1] == STEPS
