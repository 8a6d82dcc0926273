"""The grids on which the measures of all papers are compared: what they declare and measure."""

from itertools import product

import numpy as np
import pytest
import torch

from flatlab.core.registry import imported, joined
from flatlab.data import load
from flatlab.measuring.grid import measure_pack
from flatlab.networks import build
from tests.lab.kinds import experiments

KEYS = ["joint-mlp-grid", "joint-lenet-grid"]
FACTORS = ("loss", "lr", "batch_size", "regularizer", "weight_decay")
REGULARIZERS = {("none", 0.0), ("none", 0.0005), ("sam", 0.0), ("mixup", 0.0)}
FAMILIES = {"accuracy", "geometry", "hessian", "jacobian", "flatness", "capacity", "sharpness"}


def grid_of(key, scale):
    grid = experiments.load(key, scale)
    return grid.with_stand_ins({"cifar10": "cifar10-jpeg"}) if scale == "short" else grid


def settings_of(grid):
    return [tuple(pack.hyperparameters[key] for key in FACTORS) for pack in grid.packs.values()]


@pytest.mark.parametrize("key", KEYS)
def test_every_loss_has_three_rates_with_all_sizes_and_regularizers(key):
    grid = grid_of(key, "short")
    found = settings_of(grid)
    assert len(grid.runs) == 192
    for loss in ("half-mse", "cross-entropy"):
        rates = {lr for of, lr, *_ in found if of == loss}
        sizes = {size for _, _, size, *_ in found}
        assert (len(rates), len(sizes)) == (3, 2)
        expected = {(loss, *each, *more) for *each, more in product(rates, sizes, REGULARIZERS)}
        assert {each for each in found if each[0] == loss} == expected


@pytest.mark.parametrize("key", KEYS)
def test_the_settings_of_the_demo_differ_in_one_factor_from_the_first(key):
    first, *others = settings_of(grid_of(key, "demo"))
    for other in others:
        assert sum(a != b for a, b in zip(first, other, strict=True)) == 1
    varied = {
        k for other in others for k, a, b in zip(FACTORS, first, other, strict=True) if a != b
    }
    assert {"loss", "lr", "batch_size", "regularizer"} <= varied


def test_all_measures_of_all_papers_are_columns_whatever_the_networks():
    """Networks of which little can be computed: without finite weights, and of zeros alone."""
    grid, raw = grid_of("joint-mlp-grid", "demo"), load("digits")
    family, representations = grid.families
    assert {*joined(family)} == FAMILIES
    assert representations == "representations"
    chosen = next(iter(grid.packs.values()))
    settings = {**grid.measuring(chosen.key, family).settings, "seeds": [0, 1, 2]}
    torch.manual_seed(0)
    model = build(settings["network"], (1, 8, 8), 10)
    states = {n: tensor.detach().numpy() for n, tensor in model.state_dict().items()}
    arrays = {n: np.stack([a, 0 * a, np.full_like(a, np.nan)])[:, None] for n, a in states.items()}
    about = {"runs": ["usual", "zero", "nan"], "steps": [1] * 3, "ended": ["finished"] * 3}
    table = measure_pack([(arrays, {**about, "iterations": [1]})], raw, settings)
    known = {name for each in FAMILIES for name in imported("families", each).QUANTITIES}
    assert {*table.data_vars} <= known
    papers = {
        array.attrs["source"].split()[0]
        for array in table.data_vars.values()
        if array.attrs["source"]
    }
    assert {"chen2026", "chen2024", "macdonald2023", "petzka2021", "andriushchenko2023"} <= papers
    usual, zero, nothing = (table.isel(run=run) for run in range(3))
    for name in ("root_sharpness", "hessian_lambda_max", "kappa_trace", "sharpness_at_radius"):
        assert np.isfinite(usual[name].values).any()
        assert np.isnan(nothing[name].values).all()
    assert float(zero["output_norm"].squeeze()) == 0
