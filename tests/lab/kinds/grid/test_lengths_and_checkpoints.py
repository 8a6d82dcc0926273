"""How long a grid trains, in which mode, and what it keeps."""

import copy
from pathlib import Path

import pytest

from flatlab.lab import plan
from flatlab.lab.kinds.grid import Grid
from flatlab.lab.kinds.grids.jobs import train_settings
from tests.lab.kinds.experiments import load, written
from tests.lab.kinds.grid.grids import GRID, changed


def with_training(folder: Path, checkpoints: object = "none", **training: object) -> Grid:
    """The project's grid at its own scale, with other training keys."""
    grid = copy.deepcopy(GRID)
    grid["scales"]["demo"] |= {"training": {}, "checkpoints": {}}
    grid["training"].update(training)
    grid["checkpoints"]["dense"] = checkpoints
    return load(written(folder, "mlp-grid", grid), "demo")


@pytest.mark.parametrize(
    ("network", "mode"),
    [
        ({"name": "mlp"}, "batched"),
        ({"name": "lenet5"}, "batched"),
        ({"name": "vgg"}, "graphs"),
        ({"name": "vgg", "widths": [64, "pool", 64]}, "batched"),
        ({"name": "vgg", "widths": [16, "pool", 65]}, "graphs"),
        ({"name": "resnet"}, "graphs"),
        ({"name": "resnet", "widths": [8, 16, 32]}, "batched"),
        ({"name": "resnet", "widths": [8, 33]}, "graphs"),
        ({"name": "simple-vit"}, "loop"),
    ],
)
def test_the_default_mode_is_that_of_the_network(network: dict, mode: str, tmp_path: Path) -> None:
    """Narrow convolutional networks are trained as one stack."""
    grid = copy.deepcopy(GRID)
    grid["scales"]["demo"]["network"] = network
    packs = load(written(tmp_path, "mlp-grid", grid), "demo").packs.values()
    assert {pack.training.mode for pack in packs} == {mode}
    grid["training"]["mode"] = "loop"
    packs = load(written(tmp_path, "mlp-grid", grid), "demo").packs.values()
    assert {pack.training.mode for pack in packs} == {"loop"}


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"iterations": 12_000}, "12,000 iterations"),
        ({"iterations": None, "epochs": 90}, "90 epochs"),
        ({"iterations": None, "epochs": 9, "stop": {"every": 10, "loss": 0.1}}, "at most 9 epochs"),
    ],
)
def test_the_length_of_a_training_in_words(training: dict, words: str, tmp_path: Path) -> None:
    packs = with_training(tmp_path, **training).packs.values()
    assert {pack.training.length for pack in packs} == {words}


def test_steps_of_epochs_are_not_known_when_planning(tmp_path: Path) -> None:
    with pytest.raises(plan.PlanError, match=r"checkpoints\.dense\.every: .* log_spaced"):
        with_training(tmp_path, {"every": 100}, iterations=None, epochs=9)
    with_training(tmp_path, {"log_spaced": 100}, iterations=None, epochs=9)


def test_dense_checkpoints_are_those_of_the_blocks_of_seeds_that_are_named(tmp_path: Path) -> None:
    grid = changed(("checkpoints",), {"dense": {"every": 200}, "seeds": ["0-4"]})
    packs = load(written(tmp_path, "mlp-grid", grid), "paper").packs
    assert {key.endswith("-s0-4"): pack.dense_checkpoints for key, pack in packs.items()} == {
        True: 3752,
        False: 0,
    }
    settings = train_settings(packs["lr0.1-b20-s0-4"])
    assert settings["checkpoints"] == {"every": 200, "log_spaced": None}


def test_dense_checkpoints_beyond_the_budget_are_not_kept(tmp_path: Path, papers: Path) -> None:
    """39 MB for a VGG-11 in float32, 100 of them: five checkpoints each are 19.5 GB."""
    grid = copy.deepcopy(GRID)
    grid["network"] |= {"name": "vgg", "outputs": 10}
    grid["data"]["set"] = "cifar10"
    grid["scales"]["demo"]["network"] = {}
    for checkpoints, kept in ((5, True), (6, False)):
        grid["checkpoints"] = {"dense": list(range(checkpoints)), "seeds": "all"}
        path = written(tmp_path, "mlp-grid", grid)
        found = load(path, "paper")
        assert found.bytes_at_the_end == 100 * 4 * 9_750_922
        assert found.bytes_of_dense_checkpoints == checkpoints * found.bytes_at_the_end
        assert found.keeps_dense_checkpoints == kept
    (papers / "chen2026/experiments/mlp-grid.yaml").write_text(path.read_text())
    chosen = plan.Plan({"scale": "paper"})
    text = chosen.disk_use(["mlp-grid"])
    assert "mlp-grid: 3.9 GB at the end of training, 23.4 GB of dense checkpoints" in text
    assert "deleted when measured" in text
    assert "mlp-grid" not in chosen.disk_use([])
