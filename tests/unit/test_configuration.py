"""A configuration that cannot be built ends in one sentence with the file, the key, the remedy."""

import copy
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from flatlab import plan
from flatlab.data import load
from flatlab.experiments._jobs import train_roots, train_settings
from flatlab.experiments._settings import VARYING, sections
from flatlab.experiments.grid import Grid
from flatlab.metrics._pack import measure_pack
from flatlab.plan.options import options_of
from flatlab.tables.runs import collect
from flatlab.train import train_packs

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"
GRID = yaml.safe_load((EXPERIMENTS / "mlp-grid.yaml").read_text())
DELETE = object()

# path of the key, bad value, what the sentence must contain beside the file
BAD_GRIDS = {
    "misspelt section": (
        ("trainning",),
        {},
        ["unknown key 'trainning'", "did you mean 'training'"],
    ),
    "misspelt key": (("training", "momentun"), 0.9, ["training", "did you mean 'momentum'"]),
    "misspelt key of a scale": (
        ("scales", "demo", "training", "iteration"),
        9,
        ["scales.demo.training", "did you mean 'iterations'"],
    ),
    "misspelt section of a scale": (
        ("scales", "short", "trainig"),
        {},
        ["scales.short", "did you mean 'training'"],
    ),
    "missing key": (("training", "loss"), DELETE, ["training.loss is missing"]),
    "misspelt key that is needed": (
        ("training",),
        {"los": "half-mse", "lr": 0.1},
        ["training.loss is missing (is it 'los'?)"],
    ),
    "missing section": (("network",), DELETE, ["network.name is missing"]),
    "missing scale": (("scales", "paper"), DELETE, ["scales", "'paper' is missing"]),
    "unknown scale": (("scales", "demoo"), {}, ["unknown key 'demoo'", "did you mean 'demo'"]),
    "unknown data set": (
        ("scales", "demo", "data", "set"),
        "digit",
        ["scales.demo.data.set", "did you mean 'digits'"],
    ),
    "unknown network": (
        ("scales", "demo", "network", "name"),
        "mlpp",
        ["scales.demo.network.name", "did you mean 'mlp'"],
    ),
    "unknown family": (
        ("scales", "demo", "measure", "families"),
        ["accuracy", "geometri"],
        ["scales.demo.measure.families", "did you mean 'geometry'"],
    ),
    "unknown family of those joined": (
        ("scales", "demo", "measure", "families"),
        ["accuracy+geometri"],
        ["scales.demo.measure.families", "did you mean 'geometry'"],
    ),
    "unknown loss": (
        ("training", "loss"),
        "mse",
        ["training.loss", "did you mean", "half-mse, logistic, mean-mse"],
    ),
    "negative learning rate": (("settings", 0, "lr"), -0.1, ["settings[0].lr", "number > 0"]),
    "learning rate that is no number": (
        ("settings", 1, "lr"),
        "fast",
        ["settings[1].lr", "'fast'"],
    ),
    "a range of rates as a setting": (
        ("settings", 0, "lr"),
        {"low": 0.1, "high": 0.2},
        ["settings[0].lr", "what varies is a number or a word"],
    ),
    "learning rate not a number": (("settings", 1, "lr"), float("nan"), ["settings[1].lr"]),
    "batch of zero": (("settings", 0, "batch_size"), 0, ["settings[0].batch_size", ">= 1"]),
    "half a sample": (("settings", 0, "batch_size"), 2.5, ["settings[0].batch_size", "2.5"]),
    "misspelt key of a setting": (
        ("settings", 0, "batchsize"),
        8,
        ["settings[0]", "did you mean 'batch_size'"],
    ),
    "empty setting": (("settings", 0), {}, ["settings[0]", "at least one key"]),
    "unknown network of a setting": (
        ("settings", 0, "architecture"),
        "mpl",
        ["settings[0].architecture", "did you mean 'mlp'"],
    ),
    "name of a setting that fits no path": (
        ("settings", 0, "name"),
        "a/b",
        ["settings[0].name", "'a/b'"],
    ),
    "misspelt option": (
        ("scales", "demo", "network"),
        {"widht": 3},
        ["scales.demo.network: unknown key 'widht'", "did you mean 'width'"],
    ),
    "option of another architecture": (
        ("network", "widths"),
        [3],
        ["network: unknown key 'widths'", "did you mean 'width'"],
    ),
    "option of another architecture in a setting": (
        ("settings", 0, "kernel"),
        3,
        ["settings[0]: unknown key 'kernel'", "Known: activation, depth, initialization"],
    ),
    "option that no architecture has": (
        ("settings", 0, "kernels"),
        3,
        ["settings[0]: unknown key 'kernels'", "did you mean 'kernel'"],
    ),
    "option of an architecture that a scale replaces": (
        ("scales", "demo", "network"),
        {"name": "lenet5", "width": 3},
        ["scales.demo.network: unknown key 'width'"],
    ),
    "architecture without a name": (("network", "name"), DELETE, ["network.name is missing"]),
    "architecture that is no name": (("network", "name"), 3, ["network.name: unknown '3'"]),
    "width that is no number": (
        ("scales", "demo", "network", "width"),
        "wide",
        ["scales.demo.network.width", "'wide'", "integer >= 1 or list of"],
    ),
    "width of zero": (("settings", 0, "width"), 0, ["settings[0].width", ">= 1"]),
    "widths that are too few": (
        ("scales", "demo", "network", "width"),
        [3, 3],
        ["scales.demo.network.width: depth 4 needs 3 widths"],
    ),
    "unknown normalization": (
        ("scales", "demo", "network"),
        {"name": "vgg", "normalization": "bacth"},
        ["scales.demo.network.normalization", "did you mean 'batch'"],
    ),
    "unknown activation": (
        ("network", "activation"),
        "rleu",
        ["network.activation", "did you mean 'relu'"],
    ),
    "unknown optimizer": (
        ("training", "optimizer"),
        "adan",
        ["training.optimizer", "did you mean 'adam'"],
    ),
    "key of another optimizer": (
        ("training",),
        {**GRID["training"], "optimizer": "adam", "momentum": 0.9},
        ["training: unknown key 'momentum'", "weight_decay"],
    ),
    "unknown regularizer": (
        ("training", "regularizer"),
        "smm",
        ["training.regularizer", "did you mean 'sam'"],
    ),
    "unknown augmentation": (
        ("data", "augmentation"),
        "crop-flap",
        ["data.augmentation", "did you mean 'crop-flip'"],
    ),
    "option of an augmentation that is not there": (
        ("data", "crop_padding"),
        4,
        ["data: unknown key 'crop_padding'"],
    ),
    "regularizer without its strength": (
        ("training", "regularizer"),
        "sam",
        ["training.sam_radius is missing"],
    ),
    "strength without its regularizer": (
        ("training", "sam_radius"),
        0.1,
        ["training: unknown key 'sam_radius'"],
    ),
    "strength below zero": (
        ("training",),
        {**GRID["training"], "regularizer": "sam", "sam_radius": -0.1},
        ["training.sam_radius", ">= 0"],
    ),
    "infinite strength": (
        ("training",),
        {**GRID["training"], "regularizer": "sam", "sam_radius": math.inf},
        ["training.sam_radius: must be finite, found inf"],
    ),
    "regularizer twice": (
        ("training",),
        {**GRID["training"], "regularizer": "sam+mixup+sam", "sam_radius": 0.1},
        ["training.regularizer: sam stands there twice"],
    ),
    "unknown initialization": (
        ("network", "initialization"),
        "he-norma",
        ["network.initialization", "did you mean 'he-normal'"],
    ),
    "activation left out": (("network", "activation"), DELETE, ["network.activation is missing"]),
    "unknown data set of a setting": (("settings", 0, "set"), "digit", ["settings[0].set"]),
    "option of another loss in a setting": (
        ("settings", 0, "label_smoothing"),
        0.1,
        ["settings[0]: unknown key 'label_smoothing'"],
    ),
    "setting that is no number": (
        ("settings", 0, "classes"),
        [0, 1],
        ["settings[0].classes", "a number or a word"],
    ),
    "no settings": (("settings",), [], ["settings"]),
    "setting declared twice": (
        ("settings", 1),
        {"lr": 0.05, "batch_size": 20},
        ["settings[1]", "'lr0.05-b20' is declared twice"],
    ),
    "momentum of one": (("training", "momentum"), 1.0, ["training", "momentum", "< 1"]),
    "no iterations": (("scales", "demo", "training", "iterations"), 0, ["iterations", ">= 1"]),
    "iterations and epochs": (("training", "epochs"), 3, ["training.iterations", "either"]),
    "neither iterations nor epochs": (
        ("scales", "demo", "training", "iterations"),
        None,
        ["scales.demo.training.iterations", "either iterations or epochs"],
    ),
    "option of another loss": (
        ("training", "label_smoothing"),
        0.1,
        ["training: unknown key 'label_smoothing'"],
    ),
    "steps without milestones": (("training", "schedule"), "step", ["milestones", "[0.5, 0.75]"]),
    "milestones out of order": (("training", "milestones"), [0.8, 0.5], ["in order"]),
    "milestone behind the end": (("training", "milestones"), [1.5], ["milestones", "< 1"]),
    "warm-up without its schedule": (
        ("training", "warmup"),
        0.1,
        ["training.warmup", "schedule warmup-linear, not constant"],
    ),
    "milestones without their schedule": (
        ("training", "milestones"),
        [0.5],
        ["training.milestones", "schedule step, not constant"],
    ),
    "mean of accuracies": (
        ("training", "stop"),
        {"every": 5, "accuracy": 99, "mean_of": 3},
        ["training.stop.mean_of", "is for loss"],
    ),
    "stop at the loss of an epoch at other times": (
        ("training", "stop"),
        {"every": 5, "epoch_loss": 0.1},
        ["training.stop.every", "after each epoch"],
    ),
    "stop at nothing": (("training", "stop"), {"every": 5}, ["training.stop", "loss or accuracy"]),
    "stop that never looks": (("training", "stop"), {"loss": 0.1, "every": 0}, ["stop", ">= 1"]),
    "stop with a misspelt key": (
        ("training", "stop"),
        {"los": 0.1, "every": 5},
        ["training.stop", "los"],
    ),
    "dense checkpoints that are no schedule": (
        ("scales", "demo", "checkpoints", "dense"),
        "all",
        ["scales.demo.checkpoints.dense", "all"],
    ),
    "dense seeds that are no block": (
        ("checkpoints", "seeds"),
        ["0-3"],
        ["checkpoints.seeds", "0-3 is no block of seeds"],
    ),
    "unknown mode": (("training", "mode"), "fast", ["training.mode", "batched"]),
    "accuracy above 100": (("scales", "demo", "measure", "diverged_below"), 101, ["<= 100"]),
    "seed in two blocks": (
        ("seeds",),
        ["0-4", "4-9"],
        ["yaml: seeds: seed 4 stands in two blocks"],
    ),
    "block that ends before it starts": (("seeds",), ["9-4"], ["seeds", "ends before it starts"]),
    "block that is no block": (("seeds",), ["first five"], ["seeds", "'first five'", "0-4"]),
    "seeds that are no blocks": (("settings", 0, "seeds"), 20, ["settings[0].seeds", "blocks"]),
    "no sample set": (("measure", "samples"), {}, ["measure", "samples"]),
    "empty sample set": (("measure", "samples", "train", "size"), 0, ["samples", ">= 1"]),
    "name of a sample set": (
        ("measure", "samples", "Train set"),
        {"split": "train", "size": 3, "seed": 0},
        ["samples", "lower case"],
    ),
    "one class": (("data", "classes"), [3], ["data", "classes"]),
    "section that is a list": (("data",), ["digits"], ["data", "expected keys and values"]),
    "zero outputs": (("network", "outputs"), 0, ["network", "outputs", ">= 1"]),
}


def written(folder: Path, content: object) -> Path:
    """The file of a grid that holds `content`."""
    path = folder / "experiments" / "mlp-grid.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def changed(path: tuple, value: object) -> dict:
    """The project's grid with one key changed or deleted."""
    grid = copy.deepcopy(GRID)
    place = grid
    for key in path[:-1]:
        place = place[key]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return grid


def load_grid(path: Path, scale: str) -> Grid:
    """A grid at a scale; it names no other experiment."""
    return plan.load_experiment(path.parent, path.stem, scale, find=None)


def one_sentence(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("name", BAD_GRIDS)
def test_a_bad_grid_names_the_file_and_the_key(name: str, tmp_path: Path) -> None:
    path, value, parts = BAD_GRIDS[name]
    with pytest.raises(plan.PlanError) as error:
        load_grid(written(tmp_path, changed(path, value)), "demo")
    for part in ["experiments/mlp-grid.yaml: ", *parts]:
        assert part in one_sentence(error)


@pytest.mark.parametrize("content", ["a: [1,", "just text", ""])
def test_a_file_that_is_no_mapping_is_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(plan.PlanError) as error:
        load_grid(written(tmp_path, content), "demo")
    assert "experiments/mlp-grid.yaml: " in one_sentence(error)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"scale": "dmeo"}, ["scale", "unknown value 'dmeo'; did you mean 'demo'"]),
        ({"scael": "demo"}, ["unknown key 'scael'", "did you mean 'scale'"]),
        ({"papers": "chen2062"}, ["papers", "did you mean 'chen2026'"]),
        ({"papers": ["chen2062"]}, ["papers", "did you mean 'chen2026'"]),
        ({"papers": []}, ["papers"]),
        ({"device": "gpu"}, ["device", "cpu, cuda"]),
        ({"data_folder": 7}, ["data_folder", "7"]),
        (["scale"], ["expected keys and values"]),
    ],
)
def test_a_bad_configuration_names_the_file_and_the_key(config: object, parts: list[str]) -> None:
    with pytest.raises(plan.PlanError) as error:
        plan.Plan(config, EXPERIMENTS)
    for part in ["config.yaml", *parts]:
        assert part in one_sentence(error)


def test_a_single_paper_needs_no_list() -> None:
    one, same = (plan.Plan({"papers": given}, EXPERIMENTS) for given in ("chen2024", ["chen2024"]))
    assert one.figures == same.figures
    assert {figure.paper for figure in one.figures} == {"chen2024"}


def test_an_unknown_grid_gets_the_closest_match() -> None:
    with pytest.raises(plan.PlanError, match="did you mean 'mlp-grid'"):
        plan.Plan({}, EXPERIMENTS).experiment("mpl-grid", "demo")


@pytest.mark.parametrize("scale", plan.SCALES)
def test_the_grids_of_the_project_are_sound_at_every_scale(scale: str) -> None:
    grid = plan.Plan({"scale": scale}, EXPERIMENTS).experiment("mlp-grid", scale)
    assert len(grid.runs) == len(set(grid.runs)) == {"short": 50}.get(scale, 100)
    assert len({pack.setting for pack in grid.packs.values()}) == 5


def test_a_scale_overrides_only_what_it_names() -> None:
    demo, paper = (load_grid(EXPERIMENTS / "mlp-grid.yaml", scale) for scale in ("demo", "paper"))
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
    grid = load_grid(written(tmp_path, content), "demo")
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
    path = written(tmp_path, content)
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
    path = written(tmp_path, content)
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
    grid = load_grid(written(tmp_path, content), "demo")
    trained = [train_settings(pack)["training"] for pack in grid.packs.values()]
    assert [(each["regularizer"], each["sam_radius"]) for each in trained] == [
        ("sam", 0.0),
        ("sam", 0.05),
    ]
    assert [pack.setting for pack in grid.packs.values()] == [
        "lr0.1-b20-samradius0",
        "lr0.1-b20-samradius0.05",
    ]
    [pack, *_] = load_grid(EXPERIMENTS / "mlp-grid.yaml", "demo").packs.values()
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
    packs = load_grid(written(tmp_path, content), "demo").packs.values()
    found = [train_settings(pack) for pack in packs]
    assert [each["training"]["mixup_alpha"] for each in found] == [0, 0.5, 0]
    assert [each["data"]["options"]["augmentation_probability"] for each in found] == [1, 1, 0.25]
    assert found[0]["data"]["options"]["crop_padding"] == 2
    roots = {*train_roots(next(iter(packs)))}
    named = ("regularizers.sam", "regularizers.mixup", "augmentations.crop_flip")
    assert {f"flatlab.train.{name}" for name in named} <= roots


def test_a_width_sweep_is_a_grid(tmp_path: Path) -> None:
    """Two packs with the width as a hyper-parameter: trained, measured and joined in one table."""
    content = changed(("settings",), {"width": [16, 32]})
    content |= {"seeds": ["0-1"], "checkpoints": {"dense": "none"}}
    content["training"] |= {"lr": 0.1, "batch_size": 20, "iterations": 3}
    content["measure"] |= {"families": ["accuracy", "geometry"], "diverged_below": None}
    content["measure"]["samples"]["train"]["size"] = 3
    content["scales"]["demo"] = {"data": {"set": "digits"}}
    grid = load_grid(written(tmp_path, content), "demo")
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
    wide, narrow = load_grid(written(tmp_path, content), "paper").packs.values()
    assert (wide.key, wide.runs[:2]) == ("wide_1-s0-4", ["wide_1-s0", "wide_1-s1"])
    assert wide.hyperparameters == {"batch_size": 20}
    assert narrow.hyperparameters == {"batch_size": 20, "lr": 0.1}
    assert (wide.network.options.width, narrow.network.label) == ((9, 9, 9), "mlp (width 3-2-1)")


def test_a_scale_may_have_settings_of_its_own(tmp_path: Path) -> None:
    content = changed(("scales", "demo", "settings"), [{"lr": 0.3}]) | {"seeds": ["0-4"]}
    path = written(tmp_path, content | {"training": {**GRID["training"], "batch_size": 5}})
    assert list(load_grid(path, "demo").packs) == ["lr0.3-s0-4"]
    assert len(load_grid(path, "paper").packs) == len(GRID["settings"])
    path = written(tmp_path, changed(("scales", "demo", "settings"), [{"lr": -1, "batch_size": 5}]))
    with pytest.raises(plan.PlanError, match=r"scales\.demo\.settings\[0\]\.lr"):
        load_grid(path, "demo")


def test_a_stand_in_takes_the_place_of_a_data_set_in_each_pack_that_has_it(tmp_path: Path) -> None:
    settings = [{"set": name, "lr": 0.1, "batch_size": 20} for name in ("digits", "cifar10")]
    written(tmp_path, changed(("settings",), settings))
    config = {"stand_ins": {"cifar10": "cifar10-jpeg"}, "scale": "paper"}
    chosen = plan.Plan(config, tmp_path / "experiments")
    assert chosen.experiment("mlp-grid", "paper").data_sets == ["digits", "cifar10-jpeg"]


def test_a_pack_is_one_setting_and_one_block_of_seeds(tmp_path: Path) -> None:
    """A new block adds packs and leaves those that exist as they are."""
    before = load_grid(written(tmp_path, GRID), "demo").packs
    after = load_grid(written(tmp_path, changed(("seeds",), ["0-4", "5-19", 20])), "demo").packs
    assert {key: after[key] for key in before} == before
    assert {pack.seeds for key, pack in after.items() if key not in before} == {(20,)}
    assert before["lr0.1-b8-s5-19"].runs == [f"lr0.1-b8-s{seed}" for seed in range(5, 20)]


def test_every_key_is_documented() -> None:
    for kind in plan.keys_of_kinds().values():
        for keys in kind.values():
            assert all(allowed and meaning for _, allowed, meaning in keys)


def with_training(folder: Path, checkpoints: object = "none", **training: object) -> Grid:
    """The project's grid at its own scale, with other training keys."""
    grid = copy.deepcopy(GRID)
    grid["scales"]["demo"] |= {"training": {}, "checkpoints": {}}
    grid["training"].update(training)
    grid["checkpoints"]["dense"] = checkpoints
    return load_grid(written(folder, grid), "demo")


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
    packs = load_grid(written(tmp_path, grid), "demo").packs.values()
    assert {pack.training.mode for pack in packs} == {mode}
    grid["training"]["mode"] = "loop"
    packs = load_grid(written(tmp_path, grid), "demo").packs.values()
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
    packs = load_grid(written(tmp_path, grid), "paper").packs
    assert {key.endswith("-s0-4"): pack.dense_checkpoints for key, pack in packs.items()} == {
        True: 3752,
        False: 0,
    }
    settings = train_settings(packs["lr0.1-b20-s0-4"])
    assert settings["checkpoints"] == {"every": 200, "log_spaced": None}


def test_dense_checkpoints_beyond_the_budget_are_not_kept(tmp_path: Path) -> None:
    """39 MB for a VGG-11 in float32, 100 of them: five checkpoints each are 19.5 GB."""
    grid = copy.deepcopy(GRID)
    grid["network"] |= {"name": "vgg", "outputs": 10}
    grid["data"]["set"] = "cifar10"
    grid["scales"]["demo"]["network"] = {}
    for checkpoints, kept in ((5, True), (6, False)):
        grid["checkpoints"] = {"dense": list(range(checkpoints)), "seeds": "all"}
        found = load_grid(written(tmp_path, grid), "paper")
        assert found.bytes_at_the_end == 100 * 4 * 9_750_922
        assert found.bytes_of_dense_checkpoints == checkpoints * found.bytes_at_the_end
        assert found.keeps_dense_checkpoints == kept
    chosen = plan.Plan({"scale": "paper"}, tmp_path / "experiments")
    text = chosen.disk_use(["mlp-grid"])
    assert "mlp-grid: 3.9 GB at the end of training, 23.4 GB of dense checkpoints" in text
    assert "deleted when measured" in text
    assert "mlp-grid" not in chosen.disk_use([])


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ({"low": 0.2, "high": 0.1}, "training.lr: low must not be above high"),
        ({"low": -0.2, "high": 0.1}, "training.lr.low: expected `float` > 0.0"),
        ({"low": 0.1, "hihg": 0.2}, "training.lr: object contains unknown field `hihg`"),
        ({"low": 0.1}, "training.lr.high is missing"),
        ({"low": 0.1, "high": math.inf}, "training.lr: must be finite"),
        ("fast", "allowed: number > 0 or keys low, high"),
    ],
)
def test_a_range_of_learning_rates_has_two_ends_above_zero(ends, sentence, tmp_path):
    grid = yaml.safe_load((EXPERIMENTS / "dln-grid.yaml").read_text())
    grid["training"]["lr"] = ends
    with pytest.raises(plan.PlanError) as error:
        load_grid(written(tmp_path, grid), "paper")
    assert sentence in one_sentence(error)


def test_a_mistake_at_another_scale_is_seen_before_anything_runs(tmp_path):
    """Figures say what they stand in for, so that the paper's scale is needed at every other."""
    content = copy.deepcopy(GRID)
    content["scales"]["demo"]["training"]["momentum"] = 0.0
    content["training"]["momentum"] = -1
    written(tmp_path, content)
    with pytest.raises(plan.PlanError) as error:
        plan.Plan({"scale": "demo"}, tmp_path / "experiments")
    assert "training.momentum" in one_sentence(error)


def test_a_range_of_learning_rates_reaches_the_training(tmp_path):
    packs = load_grid(EXPERIMENTS / "dln-grid.yaml", "paper").packs
    assert [len(pack.seeds) for pack in packs.values()] == [110, 110]
    for pack in packs.values():
        assert train_settings(pack)["training"]["lr"] == {"low": 0.0005, "high": 0.075}


def test_records_that_cannot_be_written_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan.check_records()
    assert [path.name for path in Path(".snakemake").rglob("*")] == ["locks"]
    shutil.rmtree(".snakemake")
    Path(".snakemake").write_text("")
    with pytest.raises(plan.PlanError, match=r"\.snakemake cannot be written to \(Not a dir"):
        plan.check_records()
