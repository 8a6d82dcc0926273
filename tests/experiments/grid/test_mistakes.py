"""A configuration that cannot be built ends in one sentence with the file, the key, the remedy."""

import copy
import math
import shutil
from pathlib import Path

import pytest
import yaml

from flatlab import plan
from tests.experiments.grid.grids import (
    DELETE,
    EXPERIMENTS,
    GRID,
    changed,
    load_grid,
    one_sentence,
    written,
)

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
