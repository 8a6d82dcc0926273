"""A grid's file: settings, what may vary between them and between scales, lengths, checkpoints."""

import numpy as np
import pytest

from flatlab.core.options import options_of
from flatlab.data import load as data
from flatlab.lab import plan
from flatlab.lab.kinds._packs import VARYING, sections
from flatlab.lab.kinds.grid import measure_roots, train_roots, train_settings
from tests.lab.kinds.experiments import changed, content_of, load, table_of, written

FACTORS = {"lr": [0.05, 0.1], "batch_size": [8, 20, 32]}
RATE = {"lr": 0.1, "batch_size": 20}


@pytest.fixture
def grid_of(tmp_path):
    """The papers' grid of perceptrons with some keys changed."""

    def of(content, scale="demo"):
        return load(written(tmp_path, "mlp-grid", content), scale)

    return of


def settings_of(grid):
    return [pack.setting for pack in grid.packs.values()]


# Settings


@pytest.mark.parametrize("scale", plan.SCALES)
def test_the_grids_of_the_project_are_sound_at_every_scale(scale):
    grid = load("mlp-grid", scale)
    assert len(grid.runs) == len(set(grid.runs)) == {"short": 50}.get(scale, 100)
    assert len({*settings_of(grid)}) == 5


def test_settings_are_the_product_of_factors(grid_of):
    """The first factor varies slowest; each combination is the setting that a list would state."""
    listed = [{"lr": lr, "batch_size": b} for lr in FACTORS["lr"] for b in FACTORS["batch_size"]]
    of_list = grid_of(changed("settings", listed))
    of_product = grid_of(changed("settings", FACTORS))
    assert [*of_product.packs.items()] == [*of_list.packs.items()]
    assert len(of_product.packs) == 6 * len(content_of("mlp-grid")["seeds"])


def test_combinations_are_excluded_by_what_they_contain(grid_of):
    excluded = [{"lr": 0.05, "batch_size": 8}, {"batch_size": 32}]
    found = grid_of(changed("settings", FACTORS) | {"exclude": excluded})
    assert {*settings_of(found)} == {"lr0.05-b20", "lr0.1-b8", "lr0.1-b20"}


def test_a_key_stands_in_one_of_the_sections_that_may_vary():
    """So that a setting needs no sections."""
    keys = [key for kind in VARYING.values() for key in kind.__struct_fields__ if key != "options"]
    rules = [f"train/{each}" for each in ("optimizers", "regularizers", "augmentations")]
    files = [(f, key) for f in ("networks", "losses", *rules) for key in plan.keys_of(f)]
    options = {option for file in files for option in options_of(*file).__struct_fields__}
    assert len(sections()) == len(keys) + len(options)


def test_settings_vary_the_data_and_the_network_too(grid_of):
    settings = [
        {"scaling": "unit", "activation": "relu", **RATE},
        {"scaling": "standardized", "activation": "tanh", **RATE},
        {"set": "fashion-mnist", "architecture": "lenet5", "kernel": 3, **RATE},
    ]
    grid = grid_of(changed("settings", settings) | {"seeds": ["0-4"]})
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
    for jobs in (trained, measured):
        assert [s["data"]["scaling"] for s in jobs[:2]] == ["unit", "standardized"]
        options = [job["network"]["options"] for job in jobs]
        assert [each["activation"] for each in options] == ["relu", "tanh", "relu"]
        assert [set(each) for each in options[1:]] == [
            {"activation", "width", "depth"},
            {"activation", "kernel", "padding"},
        ]


def test_the_strength_of_a_regularizer_varies(grid_of):
    """A grid without one has the settings that it had before there were any."""
    content = changed("training.regularizer", "sam") | {"seeds": ["0-4"]}
    content["settings"] = {"lr": [0.1], "batch_size": [20], "sam_radius": [0, 0.05]}
    grid = grid_of(content)
    trained = [train_settings(pack)["training"] for pack in grid.packs.values()]
    found = [(each["regularizer"], each["sam_radius"]) for each in trained]
    assert found == [("sam", 0.0), ("sam", 0.05)]
    assert settings_of(grid) == ["lr0.1-b20-samradius0", "lr0.1-b20-samradius0.05"]
    [pack, *_] = load("mlp-grid").packs.values()
    assert "regularizer" not in train_settings(pack)["training"]
    assert "options" not in train_settings(pack)["data"]


def test_several_regularizers_and_an_augmentation_go_together(grid_of):
    content = changed("training.regularizer", "mixup+sam") | {"seeds": ["0-4"]}
    content["data"] |= {"augmentation": "crop-flip", "crop_padding": 2}
    content["settings"] = [
        {**RATE, "sam_radius": 0.1, "mixup_alpha": 0},
        {**RATE, "sam_radius": 0, "mixup_alpha": 0.5},
        {**RATE, "sam_radius": 0, "mixup_alpha": 0, "augmentation_probability": 0.25},
    ]
    packs = grid_of(content).packs.values()
    found = [train_settings(pack) for pack in packs]
    assert [each["training"]["mixup_alpha"] for each in found] == [0, 0.5, 0]
    assert [each["data"]["options"]["augmentation_probability"] for each in found] == [1, 1, 0.25]
    assert found[0]["data"]["options"]["crop_padding"] == 2
    roots = {*train_roots(next(iter(packs)))}
    named = ("regularizers.sam", "regularizers.mixup", "augmentations.crop_flip")
    assert {f"flatlab.lab.train.{name}" for name in named} <= roots


def test_a_width_sweep_is_a_grid(grid_of):
    """Two packs with the width as a hyper-parameter: trained, measured and joined in one table."""
    content = changed("settings", {"width": [16, 32]})
    content |= {"seeds": ["0-1"], "checkpoints": {"dense": "none"}}
    content["training"] |= {**RATE, "iterations": 3}
    content["measure"] |= {"families": ["accuracy", "geometry"], "diverged_below": None}
    content["measure"]["samples"]["train"]["size"] = 3
    content["scales"]["demo"] = {"data": {"set": "digits"}}
    grid = grid_of(content)
    assert list(grid.packs) == ["width16-s0-1", "width32-s0-1"]
    assert grid.networks == ["mlp (width 16)", "mlp (width 32)"]
    assert [pack.hyperparameters for pack in grid.packs.values()] == [{"width": 16}, {"width": 32}]
    table, trained = table_of(grid, data("digits"))
    for each, width in zip(trained.values(), (16, 32), strict=True):
        assert each.weights[0]["fc2.weight"].shape == (2, 1, width, width)
    assert table["width"].values.tolist() == [16, 16, 32, 32]
    assert table.attrs["hyperparameters"] == ["width"]
    assert table.attrs["extent"].startswith("4 mlp (width 16) and mlp (width 32) networks on")
    assert np.isfinite(table["sharpness"]).all()


def test_a_setting_with_a_name_may_vary_what_fits_no_path(grid_of):
    """Its runs have that name; what is no number or word is no hyper-parameter."""
    rates = {"low": 0.1, "high": 0.2}
    settings = [
        {"name": "wide_1", "width": [9, 9, 9], "batch_size": 20, "lr": rates},
        {"name": "narrow", "width": [3, 2, 1], "batch_size": 20, "lr": 0.1},
    ]
    content = changed("settings", settings) | {"seeds": ["0-4"]}
    wide, narrow = grid_of(content, "paper").packs.values()
    assert (wide.key, wide.runs[:2]) == ("wide_1-s0-4", ["wide_1-s0", "wide_1-s1"])
    assert wide.hyperparameters == {"batch_size": 20}
    assert narrow.hyperparameters == {"batch_size": 20, "lr": 0.1}
    assert (wide.network.options.width, narrow.network.label) == ((9, 9, 9), "mlp (width 3-2-1)")


def test_a_stand_in_takes_the_place_of_a_data_set_in_each_pack_that_has_it(grid_of):
    settings = [{"set": name, **RATE} for name in ("digits", "cifar10")]
    grid = grid_of(changed("settings", settings), "paper")
    found = grid.with_stand_ins({"cifar10": "cifar10-jpeg"})
    assert found.data_sets == ["digits", "cifar10-jpeg"]


def test_a_pack_is_one_setting_and_one_block_of_seeds(grid_of):
    """A new block adds packs and leaves those that exist as they are."""
    before = load("mlp-grid").packs
    after = grid_of(changed("seeds", ["0-4", "5-19", 20])).packs
    assert {key: after[key] for key in before} == before
    assert {pack.seeds for key, pack in after.items() if key not in before} == {(20,)}
    assert before["lr0.1-b8-s5-19"].runs == [f"lr0.1-b8-s{seed}" for seed in range(5, 20)]


def test_a_range_of_learning_rates_reaches_the_training():
    packs = load("dln-grid", "paper").packs
    assert [len(pack.seeds) for pack in packs.values()] == [110, 110]
    for pack in packs.values():
        assert train_settings(pack)["training"]["lr"] == {"low": 0.0005, "high": 0.075}


# Scales


def test_a_scale_overrides_only_what_it_names():
    demo, paper = (load("mlp-grid", scale) for scale in ("demo", "paper"))
    assert (paper.data_sets, paper.networks) == (["fashion-mnist"], ["mlp"])
    assert (demo.data_sets, demo.networks) == (["digits"], ["mlp (width 64)"])
    pack, small = (next(iter(grid.packs.values())) for grid in (paper, demo))
    assert small.data.scaling == pack.data.scaling
    assert pack.training.iterations == 750_000


def test_a_scale_may_have_another_architecture_than_the_paper(grid_of):
    """It keeps what both have, the activation; an option that it lacks is dropped."""
    content = changed("network.width", 300)
    content["scales"]["demo"]["network"] = {"name": "lenet5", "padding": 2}
    assert grid_of(content, "paper").networks == ["mlp (width 300)"]
    assert grid_of(content).networks == ["lenet5 (padding 2)"]
    packs = grid_of(content).packs.values()
    assert {pack.network.options.activation for pack in packs} == {"relu"}


def test_a_scale_may_have_another_loss_and_another_optimizer(grid_of):
    """Their options stand beside the keys of `training`; a job has those that it reads."""
    content = changed("training+", {"momentum": 0.9, "weight_decay": 0.1})
    changes = {"loss": "cross-entropy", "label_smoothing": 0.2, "optimizer": "adam"}
    content["scales"]["demo"]["training"] |= changes
    of_paper, of_demo = (
        train_settings(next(iter(grid_of(content, scale).packs.values())))["training"]
        for scale in ("paper", "demo")
    )
    assert (of_paper["momentum"], of_paper["weight_decay"]) == (0.9, 0.1)
    assert (of_demo["label_smoothing"], of_demo["weight_decay"]) == (0.2, 0.1)
    assert not {"momentum", "options"} & {*of_demo}
    assert "label_smoothing" not in of_paper


def test_a_scale_may_have_settings_of_its_own(grid_of):
    content = changed("scales.demo.settings", [{"lr": 0.3}]) | {"seeds": ["0-4"]}
    content["training"]["batch_size"] = 5
    assert list(grid_of(content).packs) == ["lr0.3-s0-4"]
    assert len(grid_of(content, "paper").packs) == len(content["settings"])
    content["scales"]["demo"]["settings"] = {"lr": [0.1], "batch_size": [20]}
    assert settings_of(grid_of(content)) == ["lr0.1-b20"]
    content["scales"]["demo"]["settings"] = [{"lr": -1, "batch_size": 5}]
    with pytest.raises(plan.PlanError, match=r"scales\.demo\.settings\[0\]\.lr"):
        grid_of(content)


# How long a grid trains, in which mode, and what it keeps


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
def test_the_default_mode_is_that_of_the_network(network, mode, grid_of):
    """Narrow convolutional networks are trained as one stack."""
    content = changed("scales.demo.network", network)
    for given, expected in ((content["training"]["mode"], mode), ("loop", "loop")):
        content["training"]["mode"] = given
        assert {each.training.mode for each in grid_of(content).packs.values()} == {expected}


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"iterations": 12_000}, "12,000 iterations"),
        ({"iterations": None, "epochs": 90}, "90 epochs"),
        ({"iterations": None, "epochs": 9, "stop": {"every": 10, "loss": 0.1}}, "at most 9 epochs"),
    ],
)
def test_the_length_of_a_training_in_words(training, words, grid_of):
    """With checkpoints that are spaced in the logarithm, which may be of epochs too."""
    content = changed("training+", training)
    content["scales"]["demo"] |= {"training": {}, "checkpoints": {"dense": {"log_spaced": 100}}}
    packs = grid_of(content).packs.values()
    assert {pack.training.length for pack in packs} == {words}


def test_dense_checkpoints_are_those_of_the_blocks_of_seeds_that_are_named(grid_of):
    content = changed("checkpoints", {"dense": {"every": 200}, "seeds": ["0-4"]})
    packs = grid_of(content, "paper").packs
    found = {key.endswith("-s0-4"): pack.dense_checkpoints for key, pack in packs.items()}
    assert found == {True: 3752, False: 0}
    settings = train_settings(packs["lr0.1-b20-s0-4"])
    assert settings["checkpoints"] == {"every": 200, "log_spaced": None}


def test_dense_checkpoints_beyond_the_budget_are_not_kept(grid_of, papers):
    """39 MB for a VGG-11 in float32, 100 of them: five checkpoints each are 19.5 GB."""
    content = changed("network+", {"name": "vgg", "outputs": 10})
    content["data"]["set"] = "cifar10"
    content["scales"]["demo"]["network"] = {}
    for checkpoints, kept in ((5, True), (6, False)):
        content["checkpoints"] = {"dense": list(range(checkpoints)), "seeds": "all"}
        found = grid_of(content, "paper")
        assert found.bytes_at_the_end == 100 * 4 * 9_750_922
        assert found.bytes_of_dense_checkpoints == checkpoints * found.bytes_at_the_end
        assert found.keeps_dense_checkpoints == kept
    written(papers / "chen2026", "mlp-grid", content)
    chosen = plan.Plan({"scale": "paper"})
    text = chosen.disk_use(["mlp-grid"])
    assert "mlp-grid: 3.9 GB at the end of training, 23.4 GB of dense checkpoints" in text
    assert "deleted when measured" in text
    assert "mlp-grid" not in chosen.disk_use([])


@pytest.mark.parametrize("loss", [None, "logistic"])
def test_measuring_depends_on_the_losses_that_options_name(loss):
    pack = next(iter(load("mlp-grid").packs.values()))
    roots = measure_roots(pack, "geometry", {"geometry": {"relative_flatness_loss": loss}})
    assert ("flatlab.losses.logistic" in roots) == (loss == "logistic")
