"""Grids of several architectures and strategies: named settings, and one table for all of them."""

from itertools import product

import numpy as np
import pytest
import torch
import xarray as xr

from flatlab.core.schema import plain
from flatlab.lab import plan
from flatlab.networks import build
from flatlab.papers.macdonald2023._parts import first, until_unsmoothed_stop
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import content_of, table_of, written
from tests.lab.train.packs import images
from tests.synthetic import tables
from tests.synthetic.tables import one

NETWORKS = [
    {"name": "narrow", "architecture": "vgg", "widths": [2, "pool"], "hidden": [4]},
    {"name": "residual", "architecture": "resnet", "widths": [2, 4]},
]
SMOOTHINGS = [
    {"name": "plain", "stop": {"every": 3, "loss": 1e9}},
    {"name": "smooth", "label_smoothing": 0.5},
]


@pytest.fixture
def content():
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


def load(folder, content):
    return experiments.load(written(folder, "full-batch-grid", content), "paper")


def test_the_variants_of_a_factor_have_names_and_set_several_keys(content, tmp_path):
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


def test_every_setting_has_the_hyperparameters_that_any_of_them_states(content, tmp_path):
    for pack in load(tmp_path, content).packs.values():
        smooth = pack.setting.endswith("smooth")
        assert pack.hyperparameters == {
            "architecture": "resnet" if pack.setting.startswith("residual") else "vgg",
            "lr": 0.02 if "0.02" in pack.setting else 0.08,
            "label_smoothing": 0.5 if smooth else 0.0,
        }


def test_variants_are_excluded_by_their_names(content, tmp_path):
    content["exclude"] = [{"network": "residual", "lr": 0.02}]
    assert len(load(tmp_path, content).packs) == 6


@pytest.mark.more
def test_one_table_holds_the_layers_of_all_architectures_each_with_its_own(content, tmp_path):
    content["settings"]["lr"] = [0.08]
    grid, raw = load(tmp_path, content), images((3, 8, 8), 40, 8)
    table, trained = table_of(grid, raw)
    assert table.attrs["hyperparameters"] == ["architecture", "lr", "label_smoothing"]
    there = np.isfinite(table["feature_norm"].isel(checkpoint=0, samples=0)).values
    for architecture in ("vgg", "resnet"):
        runs = table["architecture"].values == architecture
        key = next(k for k in grid.packs if k.startswith({"vgg": "n", "resnet": "r"}[architecture]))
        model = build(grid.training(key).settings["network"], (3, 8, 8), 8)
        weights, _ = trained[key].weights
        model.load_state_dict({n: torch.as_tensor(a[0, 0]) for n, a in weights.items()})
        kinds = torch.nn.Conv2d, torch.nn.Linear
        layers = [name for name, module in model.named_modules() if isinstance(module, kinds)]
        for run in there[runs]:
            assert {*table["layer"].values[run]} == {*layers}
    # the unsmoothed networks stopped after three of nine steps
    stopped = table["label_smoothing"].values == 0
    assert table["steps"].values[stopped].tolist() == [3] * 4
    cut = until_unsmoothed_stop(table)["train_loss"]
    assert np.isfinite(cut.sel(checkpoint=[0, 3])).all()
    assert np.isnan(cut.sel(checkpoint=[6, 9])).all()


def test_a_run_is_cut_where_its_own_reference_stopped():
    factors = {"architecture": ("vgg", "resnet"), "lr": (0.08, 0.02), "label_smoothing": (0.0, 0.5)}
    settings = [dict(zip(factors, each, strict=True)) for each in product(*factors.values())]
    steps = 10 * np.arange(16)
    given = {"seeds": 2, "steps": range(0, 200, 10), "coordinates": {"steps": lambda c: steps}}
    table = tables.table("some-grid", settings, {"loss": one}, **given)
    last = until_unsmoothed_stop(table)["loss"].sum("checkpoint").values[:, 0] * 10 - 10
    of_reference = np.arange(16) - 2 * (table["label_smoothing"].values > 0)
    assert last.tolist() == steps[of_reference].tolist()
    without_the_first = until_unsmoothed_stop(table.isel(run=slice(1, None)))["loss"]
    lost = np.isnan(without_the_first.isel(checkpoint=0).values[:, 0])
    assert np.flatnonzero(lost).tolist() == [1]  # its smoothed companion alone


def test_the_first_part_of_the_iterations_includes_its_end():
    table = xr.Dataset(coords={"checkpoint": [0, 195, 390, 780, 35100]})
    assert first(table, 1 / 90)["checkpoint"].values.tolist() == [0, 195, 390]
    assert first(table, 1.0).equals(table)


def test_a_table_of_settings_that_share_no_numbers_is_one_sentence(content, tmp_path):
    """Rates drawn for some settings and stated for others are trained, but fit no table."""
    content["training"]["lr"] = {"low": 0.01, "high": 0.1}
    content["settings"] = [{"name": "drawn", "batch_size": 8}, {"name": "stated", "lr": 0.1}]
    grid = load(tmp_path, content)
    sentence = r": lr is one number or word for some settings and not for 'drawn'"
    with pytest.raises(plan.PlanError, match=sentence):
        grid.check_table()


def test_a_table_names_the_number_of_samples_where_a_data_set_is_cut(content, tmp_path):
    def said(samples):
        content["data"]["samples"] = samples
        grid = load(tmp_path, content)
        return grid.tabulating(grid).settings["about"]["samples"]

    assert [said(samples) for samples in ("all", 1000)] == ["", "1,000"]


def test_the_longest_training_stands_for_those_that_may_stop_before(content, tmp_path):
    """Some settings stop when they fit, and others go on to the end: one length, not two."""
    grid = load(tmp_path, content)
    assert {pack.training.stop is None for pack in grid.packs.values()} == {True, False}
    assert grid.length.startswith("at most ")
    assert " or " not in grid.length
