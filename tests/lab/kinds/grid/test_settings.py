"""What may vary between the settings of a grid, and between its scales."""

from pathlib import Path

import numpy as np
import pytest

from flatlab.core.options import options_of
from flatlab.data import load
from flatlab.lab import plan
from flatlab.lab.kinds.grids.jobs import train_roots, train_settings
from flatlab.lab.kinds.grids.settings import VARYING, sections
from flatlab.lab.tables.runs import collect
from flatlab.lab.train import train_packs
from flatlab.metrics._measure_pack import measure_pack
from tests.lab.kinds.experiments import load as load_grid
from tests.lab.kinds.experiments import written
from tests.lab.kinds.grid.grids import GRID, changed


@pytest.mark.parametrize("scale", plan.SCALES)
def test_the_grids_of_the_project_are_sound_at_every_scale(scale: str) -> None:
    grid = plan.Plan({"scale": scale}).experiment("mlp-grid", scale)
    assert len(grid.runs) == len(set(grid.runs)) == {"short": 50}.get(scale, 100)
    assert len({pack.setting for pack in grid.packs.values()}) == 5


def test_a_scale_overrides_only_what_it_names() -> None:
    demo, paper = (load_grid("mlp-grid", scale) for scale in ("demo", "paper"))
    assert (paper.data_sets, paper.networks) == (["fashion-mnist"], ["mlp"])
    assert (demo.data_sets, demo.networks) == (["digits"], ["mlp (width 64)"])
    pack, small = (next(iter(grid.packs.values())) for grid in (paper, demo))
    assert small.data.scaling == pack.data.scaling
    assert pack.training.iterations == 750_000


def test_a_key_stands_in_one_of_the_sections_that_may_vary() -> None:
    """So that a setting needs no sections."""
    keys = [key for kind in VARYING.values() for key in kind.__struct_fields__ if key != "options"]
    folders = (
        "networks",
        "losses",
        "train/optimizers",
        "train/regularizers",
        "train/augmentations",
    )
    files = [(folder, key) for folder in folders for key in plan.keys_of(folder)]
    options = {option for file in files for option in options_of(*file).__struct_fields__}
    assert len(sections()) == len(keys) + len(options)


def test_settings_vary_the_data_and_the_network_too(tmp_path: Path) -> None:
    of_training = {"lr": 0.1, "batch_size": 20}
    settings = [
        {"scaling": "unit", "activation": "relu", **of_training},
        {"scaling": "standardized", "activation": "tanh", **of_training},
        {"set": "fashion-mnist", "architecture": "lenet5", "kernel": 3, **of_training},
    ]
    content = changed(("settings",), settings) | {"seeds": ["0-4"]}
    grid = load_grid(written(tmp_path, "mlp-grid", content), "demo")
    first, second, third = grid.packs.values()
    assert second.key == "tanh-scalingstandardized-lr0.1-b20-s0-4"
    assert (first.data.scaling, first.network.options.activation) == ("unit", "relu")
    assert (second.data.scaling, second.network.options.activation) == ("standardized", "tanh")
    assert second.hyperparameters == settings[1] | {"set": "digits", "architecture": "mlp"}
    assert (second.data.set, third.data.set) == ("digits", "fashion-mnist")
    assert grid.networks == ["mlp (width 64)", "lenet5 (kernel 3)"]
    assert grid.data_sets == ["digits", "fashion-mnist"]
    trained = [train_settings(pack) for pack in grid.packs.values()]
    measured = [grid.measuring(p, "geometry").settings for p in grid.packs]
    for settings_of_jobs in (trained, measured):
        assert [s["data"]["scaling"] for s in settings_of_jobs[:2]] == ["unit", "standardized"]
        options = [job["network"]["options"] for job in settings_of_jobs]
        assert [each["activation"] for each in options] == ["relu", "tanh", "relu"]
        assert [set(each) for each in options[1:]] == [
            {"activation", "width", "depth"},
            {"activation", "kernel", "padding"},
        ]


def test_a_scale_may_have_another_architecture_than_the_paper(tmp_path: Path) -> None:
    """It keeps what both have, the activation; an option that it lacks is dropped."""
    content = changed(("network", "width"), 300)
    content["scales"]["demo"]["network"] = {"name": "lenet5", "padding": 2}
    path = written(tmp_path, "mlp-grid", content)
    assert load_grid(path, "paper").networks == ["mlp (width 300)"]
    assert load_grid(path, "demo").networks == ["lenet5 (padding 2)"]
    packs = load_grid(path, "demo").packs.values()
    assert {pack.network.options.activation for pack in packs} == {"relu"}


def test_a_scale_may_have_another_loss_and_another_optimizer(tmp_path: Path) -> None:
    """Their options stand beside the keys of `training`; a job has those that it reads."""
    content = changed(("training", "momentum"), 0.9)
    content["training"]["weight_decay"] = 0.1
    changes = {"loss": "cross-entropy", "label_smoothing": 0.2, "optimizer": "adam"}
    content["scales"]["demo"]["training"] |= changes
    path = written(tmp_path, "mlp-grid", content)
    of_paper, of_demo = (
        train_settings(next(iter(load_grid(path, scale).packs.values())))["training"]
        for scale in ("paper", "demo")
    )
    assert (of_paper["momentum"], of_paper["weight_decay"]) == (0.9, 0.1)
    assert (of_demo["label_smoothing"], of_demo["weight_decay"]) == (0.2, 0.1)
    assert not {"momentum", "options"} & {*of_demo}
    assert "label_smoothing" not in of_paper


def test_the_strength_of_a_regularizer_varies(tmp_path: Path) -> None:
    """A grid without one has the settings that it had before there were any."""
    content = changed(("training", "regularizer"), "sam")
    content["settings"] = {"lr": [0.1], "batch_size": [20], "sam_radius": [0, 0.05]}
    content["seeds"] = ["0-4"]
    grid = load_grid(written(tmp_path, "mlp-grid", content), "demo")
    trained = [train_settings(pack)["training"] for pack in grid.packs.values()]
    assert [(each["regularizer"], each["sam_radius"]) for each in trained] == [
        ("sam", 0.0),
        ("sam", 0.05),
    ]
    assert [pack.setting for pack in grid.packs.values()] == [
        "lr0.1-b20-samradius0",
        "lr0.1-b20-samradius0.05",
    ]
    [pack, *_] = load_grid("mlp-grid", "demo").packs.values()
    assert "regularizer" not in train_settings(pack)["training"]
    assert "options" not in train_settings(pack)["data"]


def test_several_regularizers_and_an_augmentation_go_together(tmp_path: Path) -> None:
    content = changed(("training", "regularizer"), "mixup+sam")
    content["data"] |= {"augmentation": "crop-flip", "crop_padding": 2}
    content["settings"] = [
        {"lr": 0.1, "batch_size": 20, "sam_radius": 0.1, "mixup_alpha": 0},
        {"lr": 0.1, "batch_size": 20, "sam_radius": 0, "mixup_alpha": 0.5},
        {"lr": 0.1, "batch_size": 20, "sam_radius": 0, "mixup_alpha": 0}
        | {"augmentation_probability": 0.25},
    ]
    content["seeds"] = ["0-4"]
    packs = load_grid(written(tmp_path, "mlp-grid", content), "demo").packs.values()
    found = [train_settings(pack) for pack in packs]
    assert [each["training"]["mixup_alpha"] for each in found] == [0, 0.5, 0]
    assert [each["data"]["options"]["augmentation_probability"] for each in found] == [1, 1, 0.25]
    assert found[0]["data"]["options"]["crop_padding"] == 2
    roots = {*train_roots(next(iter(packs)))}
    named = ("regularizers.sam", "regularizers.mixup", "augmentations.crop_flip")
    assert {f"flatlab.lab.train.{name}" for name in named} <= roots


def test_a_width_sweep_is_a_grid(tmp_path: Path) -> None:
    """Two packs with the width as a hyper-parameter: trained, measured and joined in one table."""
    content = changed(("settings",), {"width": [16, 32]})
    content |= {"seeds": ["0-1"], "checkpoints": {"dense": "none"}}
    content["training"] |= {"lr": 0.1, "batch_size": 20, "iterations": 3}
    content["measure"] |= {"families": ["accuracy", "geometry"], "diverged_below": None}
    content["measure"]["samples"]["train"]["size"] = 3
    content["scales"]["demo"] = {"data": {"set": "digits"}}
    grid = load_grid(written(tmp_path, "mlp-grid", content), "demo")
    assert list(grid.packs) == ["width16-s0-1", "width32-s0-1"]
    assert grid.networks == ["mlp (width 16)", "mlp (width 32)"]
    assert [pack.hyperparameters for pack in grid.packs.values()] == [{"width": 16}, {"width": 32}]
    raw, parts = load("digits"), []
    for pack in grid.packs:
        [trained] = train_packs(raw, [grid.training(pack).settings])
        width = grid.packs[pack].network.options.width
        assert trained.weights[0]["fc2.weight"].shape == (2, 1, width, width)
        parts += [
            measure_pack([trained.weights], raw, grid.measuring(pack, family).settings)
            for family in grid.families
        ]
    table = collect(parts, grid.tabulating(grid).settings)
    assert table["width"].values.tolist() == [16, 16, 32, 32]
    assert table.attrs["hyperparameters"] == ["width"]
    assert table.attrs["extent"].startswith("4 mlp (width 16) and mlp (width 32) networks on")
    assert np.isfinite(table["sharpness"]).all()


def test_a_setting_with_a_name_may_vary_what_fits_no_path(tmp_path: Path) -> None:
    """Its runs have that name; what is no number or word is no hyper-parameter."""
    rates = {"low": 0.1, "high": 0.2}
    settings = [
        {"name": "wide_1", "width": [9, 9, 9], "batch_size": 20, "lr": rates},
        {"name": "narrow", "width": [3, 2, 1], "batch_size": 20, "lr": 0.1},
    ]
    content = changed(("settings",), settings) | {"seeds": ["0-4"]}
    wide, narrow = load_grid(written(tmp_path, "mlp-grid", content), "paper").packs.values()
    assert (wide.key, wide.runs[:2]) == ("wide_1-s0-4", ["wide_1-s0", "wide_1-s1"])
    assert wide.hyperparameters == {"batch_size": 20}
    assert narrow.hyperparameters == {"batch_size": 20, "lr": 0.1}
    assert (wide.network.options.width, narrow.network.label) == ((9, 9, 9), "mlp (width 3-2-1)")


def test_a_scale_may_have_settings_of_its_own(tmp_path: Path) -> None:
    content = changed(("scales", "demo", "settings"), [{"lr": 0.3}]) | {"seeds": ["0-4"]}
    path = written(tmp_path, "mlp-grid", content | {"training": {**GRID["training"], "batch_size": 5}})
    assert list(load_grid(path, "demo").packs) == ["lr0.3-s0-4"]
    assert len(load_grid(path, "paper").packs) == len(GRID["settings"])
    path = written(tmp_path, "mlp-grid", changed(("scales", "demo", "settings"), [{"lr": -1, "batch_size": 5}]))
    with pytest.raises(plan.PlanError, match=r"scales\.demo\.settings\[0\]\.lr"):
        load_grid(path, "demo")


def test_a_stand_in_takes_the_place_of_a_data_set_in_each_pack_that_has_it(papers: Path) -> None:
    settings = [{"set": name, "lr": 0.1, "batch_size": 20} for name in ("digits", "cifar10")]
    written(papers / "chen2026", "mlp-grid", changed(("settings",), settings))
    config = {"stand_ins": {"cifar10": "cifar10-jpeg"}, "scale": "paper"}
    chosen = plan.Plan(config)
    assert chosen.experiment("mlp-grid", "paper").data_sets == ["digits", "cifar10-jpeg"]


def test_a_pack_is_one_setting_and_one_block_of_seeds(tmp_path: Path) -> None:
    """A new block adds packs and leaves those that exist as they are."""
    before = load_grid(written(tmp_path, "mlp-grid", GRID), "demo").packs
    after = load_grid(written(tmp_path, "mlp-grid", changed(("seeds",), ["0-4", "5-19", 20])), "demo").packs
    assert {key: after[key] for key in before} == before
    assert {pack.seeds for key, pack in after.items() if key not in before} == {(20,)}
    assert before["lr0.1-b8-s5-19"].runs == [f"lr0.1-b8-s{seed}" for seed in range(5, 20)]


def test_every_key_is_documented() -> None:
    for kind in plan.keys_of_kinds().values():
        for keys in kind.values():
            assert all(allowed and meaning for _, allowed, meaning in keys)


def test_a_range_of_learning_rates_reaches_the_training(tmp_path):
    packs = load_grid("dln-grid", "paper").packs
    assert [len(pack.seeds) for pack in packs.values()] == [110, 110]
    for pack in packs.values():
        assert train_settings(pack)["training"]["lr"] == {"low": 0.0005, "high": 0.075}
