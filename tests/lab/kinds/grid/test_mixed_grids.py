"""Grids of several architectures and strategies: named settings, and one table for all of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from flatlab.core.schema import plain
from flatlab.lab import plan
from flatlab.lab.kinds.grid import Grid
from flatlab.lab.tables.runs import collect
from flatlab.lab.tables.selection import first, hyperparameters, until_stop
from flatlab.lab.train import train_packs
from flatlab.metrics._measure_pack import measure_pack
from flatlab.networks import build
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import content_of, written
from tests.lab.train.packs import images

NETWORKS = [
    {"name": "narrow", "architecture": "vgg", "widths": [2, "pool"], "hidden": [4]},
    {"name": "residual", "architecture": "resnet", "widths": [2, 4]},
]
SMOOTHINGS = [
    {"name": "plain", "stop": {"every": 3, "loss": 1e9}},
    {"name": "smooth", "label_smoothing": 0.5},
]


@pytest.fixture
def content() -> dict[str, Any]:
    """The grid of full-batch descent with tiny networks, and a stop after three of nine steps."""
    whole = content_of("full-batch-grid")
    whole["settings"] = {"network": NETWORKS, "lr": [0.08, 0.02], "smoothing": SMOOTHINGS}
    whole["seeds"] = ["0-1"]
    whole["training"] |= {"iterations": 9, "batch_size": 20}
    whole["checkpoints"] = {"dense": {"every": 3}, "curves": "none"}
    sample = {"split": "train", "size": 4, "seed": 0}
    whole["measure"] |= {"samples": {"train": sample}, "pairs": 0, "precision": "float64"}
    whole["measure"]["families"] = ["accuracy+jacobian"]
    for key in ("curvature", "batch_norm", "warm_start"):
        del whole["measure"][key]
    return whole


def load(folder: Path, content: dict[str, Any]) -> Grid:
    return experiments.load(written(folder, "full-batch-grid", content), "paper")


def test_the_variants_of_a_factor_have_names_and_set_several_keys(
    content: dict[str, Any], tmp_path: Path
) -> None:
    grid = load(tmp_path, content)
    names = [
        f"{network}-{lr}-{smoothing}"
        for network in ("narrow", "residual")
        for lr in ("lr0.08", "lr0.02")
        for smoothing in ("plain", "smooth")
    ]
    assert [pack.setting for pack in grid.packs.values()] == names
    pack = grid.packs["residual-lr0.02-smooth-s0-1"]
    assert plain(pack.network.options)["widths"] == [2, 4]
    assert pack.training.stop is None
    assert grid.packs["narrow-lr0.08-plain-s0-1"].training.stop is not None


def test_every_setting_has_the_hyperparameters_that_any_of_them_states(
    content: dict[str, Any], tmp_path: Path
) -> None:
    for pack in load(tmp_path, content).packs.values():
        smooth = pack.setting.endswith("smooth")
        assert pack.hyperparameters == {
            "architecture": "resnet" if pack.setting.startswith("residual") else "vgg",
            "lr": 0.02 if "0.02" in pack.setting else 0.08,
            "label_smoothing": 0.5 if smooth else 0.0,
        }


def test_variants_are_excluded_by_their_names(content: dict[str, Any], tmp_path: Path) -> None:
    content["exclude"] = [{"network": "residual", "lr": 0.02}]
    assert len(load(tmp_path, content).packs) == 6
    content["exclude"] = [{"network": "resnet"}]
    with pytest.raises(plan.PlanError, match=r"exclude\[0\]: no combination has"):
        load(tmp_path, content)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": [{"architecture": "vgg"}]}, r"settings.network.name: expected letters"),
        ({"netwrk": [0.1]}, r"settings: unknown key 'netwrk'"),
        ({"network": [{"name": "a", "lr": 0.1}]}, r"settings.lr: another factor sets lr as well"),
        ({"network": [{"name": "a", "width": 3}]}, r"settings: unknown key 'width'"),
        ({"network": []}, r"settings.network: expected a list of values"),
    ],
)
def test_a_wrong_variant_is_one_sentence(
    change: dict[str, Any], sentence: str, content: dict[str, Any], tmp_path: Path
) -> None:
    content["settings"] |= change
    with pytest.raises(plan.PlanError, match=sentence) as error:
        load(tmp_path, content)
    assert "\n" not in str(error.value)


def test_one_table_holds_the_layers_of_all_architectures_each_with_its_own(
    content: dict[str, Any], tmp_path: Path
) -> None:
    grid, raw = load(tmp_path, content), images((3, 8, 8), 40, 8)
    parts, states = [], {}
    for key in grid.packs:
        (trained,) = train_packs(raw, [grid.training(key).settings], "cpu")
        weights = [trained.weights, trained.dense]
        settings = grid.measuring(key, grid.families[0]).settings
        parts.append(measure_pack(weights, raw, settings))
        states[key] = settings["network"], trained.weights[0]
    table = collect(parts, grid.tabulating(grid).settings)
    assert hyperparameters(table) == ["architecture", "lr", "label_smoothing"]
    there = np.isfinite(table["feature_norm"].isel(checkpoint=0, samples=0)).values
    for architecture in ("vgg", "resnet"):
        runs = table["architecture"].values == architecture
        key = next(k for k in grid.packs if k.startswith({"vgg": "n", "resnet": "r"}[architecture]))
        model = build(states[key][0], (3, 8, 8), 8)
        model.load_state_dict({n: torch.as_tensor(a[0, 0]) for n, a in states[key][1].items()})
        kinds = torch.nn.Conv2d, torch.nn.Linear
        layers = [name for name, module in model.named_modules() if isinstance(module, kinds)]
        for run in there[runs]:
            assert {*table["layer"].values[run]} == {*layers}
    # the unsmoothed networks stopped after three of nine steps
    stopped = table["label_smoothing"].values == 0
    assert table["steps"].values[stopped].tolist() == [3] * 8
    cut = until_stop(table, {"label_smoothing": 0})["train_loss"]
    assert np.isfinite(cut.sel(checkpoint=[0, 3])).all()
    assert np.isnan(cut.sel(checkpoint=[6, 9])).all()


def test_a_run_is_cut_where_its_own_reference_stopped(
    content: dict[str, Any], tmp_path: Path
) -> None:
    grid = load(tmp_path, content)
    packs = grid.packs.values()
    rows = [(*pack.hyperparameters.values(), seed) for pack in packs for seed in pack.seeds]
    names = ("architecture", "lr", "label_smoothing", "seed")
    columns = {n: ("run", np.array(c)) for n, c in zip(names, zip(*rows, strict=True), strict=True)}
    steps = np.arange(len(rows)) * 10
    table = xr.Dataset(
        {"loss": (("run", "checkpoint"), np.ones((len(rows), 20)))},
        {**columns, "steps": ("run", steps), "checkpoint": np.arange(20) * 10},
        {"hyperparameters": [*names[:3]]},
    )
    last = until_stop(table, {"label_smoothing": 0.0})["loss"].sum("checkpoint").values * 10 - 10
    for number, (*others, smoothing, seed) in enumerate(rows):
        assert last[number] == steps[rows.index((*others, 0.0, seed))], smoothing
    lost = until_stop(table.isel(run=slice(1, None)), {"label_smoothing": 0.0})["loss"]
    orphans = [
        n for n, row in enumerate(rows[1:]) if row[:2] + row[3:] == rows[0][:2] + rows[0][3:]
    ]
    assert np.isnan(lost.isel(run=orphans)).all()
    assert orphans


def test_the_first_part_of_the_iterations_includes_its_end() -> None:
    table = xr.Dataset(coords={"checkpoint": [0, 195, 390, 780, 35100]})
    assert first(table, 1 / 90)["checkpoint"].values.tolist() == [0, 195, 390]
    assert first(table, 1.0).equals(table)


def test_a_table_of_settings_that_share_no_numbers_is_one_sentence(
    content: dict[str, Any], tmp_path: Path
) -> None:
    """Rates drawn for some settings and stated for others are trained, but fit no table."""
    content["training"]["lr"] = {"low": 0.01, "high": 0.1}
    content["settings"] = [{"name": "drawn", "batch_size": 8}, {"name": "stated", "lr": 0.1}]
    grid = load(tmp_path, content)
    sentence = r": lr is one number or word for some settings and not for 'drawn'"
    with pytest.raises(plan.PlanError, match=sentence):
        grid.check_table()


def test_a_table_names_the_number_of_samples_where_a_data_set_is_cut(
    content: dict[str, Any], tmp_path: Path
) -> None:
    def said(samples: Any) -> str:
        content["data"]["samples"] = samples
        grid = load(tmp_path, content)
        return grid.tabulating(grid).settings["about"]["samples"]

    assert [said(samples) for samples in ("all", 1000)] == ["", "1,000"]


def test_the_longest_training_stands_for_those_that_may_stop_before(
    content: dict[str, Any], tmp_path: Path
) -> None:
    """Some settings stop when they fit, and others go on to the end: one length, not two."""
    grid = load(tmp_path, content)
    assert {pack.training.stop is None for pack in grid.packs.values()} == {True, False}
    assert grid.length.startswith("at most ")
    assert " or " not in grid.length
