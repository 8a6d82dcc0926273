"""The figures of joint grids and of inner layers: what is drawn is what the tables say."""

import importlib
import io
from dataclasses import replace
from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from flatlab.lab import plan
from flatlab.lab.figures import render as figures
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond import fig4, fig5, fig6, fig7, fig8, fig9, fig15
from flatlab.papers.beyond._bottleneck import GRID, NARROW
from flatlab.papers.beyond.measures import INVARIANT
from papers.beyond.tests import bottleneck_tables as layers
from papers.beyond.tests.joint_tables import (
    BATCHES,
    FLAT,
    GRIDS,
    RATES,
    REGULARIZERS,
    Made,
    both,
    table,
)

mpl.use("Agg")
KEYS = [f"fig{number}" for number in range(4, 10)]
SETTINGS = {f.key: f.settings for f in plan.figures() if f.paper == "beyond" and f.key in KEYS}
OTHERS = {"mls": Made(other=1), "g": Made(lr=2, seed=-1, noise=0.5)}


@pytest.fixture(scope="module")
def tables():
    """Two networks do not fit, and one lacks a measure."""
    found = both(OTHERS)
    for each in found.values():
        number = xr.DataArray(np.arange(192), dims="run")
        each["train_error"] = each["train_error"].where(number > 1, 3.0)
        each["mls"] = each["mls"].where(number != 7)
    return found


@pytest.fixture(scope="module")
def few():
    """Twelve settings of one loss."""
    product_of = product(RATES, BATCHES, REGULARIZERS[:2])
    return both(settings=[("cross-entropy", lr, b, *name) for lr, b, name in product_of])


def test_networks_that_do_not_fit_are_left_out_and_counted(tables):
    chosen = joint.networks(tables[GRIDS[0]])
    assert (chosen.count, chosen.dropped) == (190, 2)
    assert np.isnan(chosen.values("mls")).sum() == 1
    raw = tables[GRIDS[0]]["g"].isel(checkpoint=-1, samples=0).sel(transformation="none")
    np.testing.assert_allclose(chosen.values("g"), raw[2:])


def test_a_measure_is_that_of_the_last_layer_the_smallest_radius_and_its_test_set():
    made = table()
    chosen = joint.networks(made)
    end = made.isel(checkpoint=-1, samples=0).sel(transformation="none")
    np.testing.assert_allclose(chosen.values("kappa_trace"), end["kappa_trace"].isel(layer=-1))
    sharpness = end["sharpness_at_radius"].sel(definition="worst-adaptive-linf")
    for radius, name in enumerate(["", *(f"-radius-{r}" for r in (1, 2, 3))]):
        expected = sharpness.isel(radius_index=radius)
        np.testing.assert_allclose(chosen.values(f"worst-adaptive-linf{name}"), expected)
    corrupted = made["test_set_error"].sel(test_set="corrupted").isel(checkpoint=-1)
    np.testing.assert_allclose(chosen.values("corrupted"), corrupted)
    first = joint.networks(made, first=True)
    np.testing.assert_allclose(first.values("g"), chosen.values("g") / FLAT.longer)


def test_pairs_of_a_factor_differ_in_it_alone():
    chosen = joint.networks(table())
    about = chosen.factors
    assert set(about["lr"]) == {1, 2, 3}
    assert set(about["regularizer"]) == {"none", "weight decay", "sam", "mixup"}
    for factor in joint.FACTORS:
        one, other = np.argwhere(chosen.pairs(factor)).T
        for name in joint.FACTORS:
            differ = about[name].to_numpy()[one] != about[name].to_numpy()[other]
            assert differ.all() if name == factor else not differ.any()
    counts = {name: int(chosen.pairs(name).sum()) // 2 for name in joint.ESTIMANDS}
    within, between = 48 * 6, 16  # pairs of networks of one and of two settings
    expected = {"lr": 16 * 3, "batch_size": 24, "regularizer": 12 * 6, "loss": 24}
    assert counts == {
        **{"all": 192 * 191 // 2, "seeds": within},
        **{name: count * between for name, count in expected.items()},
    }
    assert len(list(chosen.environments())) == 3 + 1 + 6 + 1
    both_levels = sum(pairs for factor, _, pairs in chosen.environments() if factor == "lr")
    np.testing.assert_array_equal(both_levels, chosen.pairs("lr"))


def test_networks_of_two_architectures_are_not_compared():
    kinds = np.where(np.arange(192) % 2, "lenet5", "resnet")
    chosen = joint.networks(table().assign_coords(architecture=("run", kinds)))
    assert chosen.pairs(joint.ALL)[0, :3].tolist() == [False, False, True]


def test_the_matrix_has_taus_with_wider_intervals_than_alone(tables):
    frame = fig4.frame({}, ResultTables(tables))
    count = len(joint.PICTURED) + len(joint.FURTHER)
    assert len(frame) == 2 * 2 * count * (count - 1) // 2
    row = frame[(frame["x"] == "root_sharpness") & (frame["y"] == "g")].iloc[0]
    chosen = joint.networks(tables[row["grid"]])
    x, y = chosen.values("root_sharpness"), chosen.values("g")
    assert row["tau"] == pytest.approx(kendalltau(x, y).statistic)
    names = ("root_sharpness", "g")
    low, high = chosen.drawn_ranks(row["kind"], names).tau(*names).interval()
    assert row["low"] < low < high < row["high"]
    of_mls = frame[(frame["x"] == "mls") & (frame["y"] == "g")]
    assert of_mls[["missing_x", "missing_y"]].drop_duplicates().values.tolist() == [[1, 0]]
    assert frame[["networks", "dropped"]].drop_duplicates().values.tolist() == [[190, 2]]


@pytest.fixture
def few_measures(monkeypatch):
    """All 82 with jackknifes take long."""
    chosen = ("g", "mls", "root_sharpness", "hessian_lambda_max", "average-standard-l2")
    monkeypatch.setattr(joint, "PICTURED", {name: joint.PICTURED[name] for name in chosen})
    monkeypatch.setattr(joint, "FURTHER", {})


@pytest.mark.usefixtures("few_measures")
def test_changes_of_sign_are_those_of_decided_coefficients_and_of_the_first_fit_too():
    """What networks say when they first fit is in the CSV; of `mls` it is the opposite."""
    alike = replace(FLAT, longer=1.0)
    made = table(changes={**OTHERS, "mls": alike, "error_gap": alike})
    made["mls"] = made["mls"].where(made["checkpoint"] == made["checkpoint"].max(), -made["mls"])
    both = fig5.frame({}, ResultTables({GRIDS[0]: made}))
    chosen = (both["measure"] == "mls") & (both["outcome"] == "error_gap")
    taus = both[chosen & (both["varies"] == "all")].set_index("at")["tau"]
    assert taus[fig5.END] > 0.5
    assert taus[fig5.FIRST_FIT] == pytest.approx(-taus[fig5.END])
    frame = both[both["at"] == fig5.END]
    of_g = frame[(frame["outcome"] == "error_gap") & (frame["measure"] == "g")].set_index("varies")
    assert (of_g.loc[["all", "seeds"], "tau"] < 0).all()
    turned = frame[frame["opposite"].fillna(False).astype(bool)]
    assert ((turned["low"] > 0) | (turned["high"] < 0)).all()
    over = frame[frame["varies"] == "all"].set_index(["measure", "outcome"])["tau"]
    keys = pd.MultiIndex.from_frame(turned[["measure", "outcome"]])
    assert (over.loc[keys].to_numpy() * turned["tau"].to_numpy() < 0).all()
    factors = of_g.loc[list(joint.FACTORS), "tau"]
    assert of_g.loc["granulated", "tau"] == pytest.approx(factors.mean())
    assert set(frame["outcome"]) == {"test_error", "error_gap", "corrupted"}
    errors = of_g.loc[["environment"]]
    assert len(errors) == 11
    of_rates = errors[errors["levels"].str.startswith("lr")]["tau"].mean()
    assert of_rates == pytest.approx((1 - of_g.loc["lr", "tau"]) / 2, abs=0.01)


def test_relative_changes_are_those_of_the_table():
    changes = {
        "mls": Made(layers=0.5, longer=2.0),
        "log_mean_volume": Made(neurons=0.01, noise=0, longer=1),
    }
    found = fig6.frame({}, ResultTables({GRIDS[0]: table(changes=changes)})).set_index(
        ["measure", "change"]
    )
    assert found.loc[("mls", "layers"), "median"] == pytest.approx(0.5)
    assert found.loc[("mls", "neurons"), "median"] == 0
    assert found.loc[("mls", fig6.LONGER), "median"] == pytest.approx(1.0)
    expected = np.expm1(0.3)  # a hundredth of a logarithm of 30
    assert found.loc[("log_mean_volume", "neurons"), "median"] == pytest.approx(expected)
    assert found.loc[("mls", "layers"), "kendall"] == 1
    assert set(found["networks"]) == {192}
    claimed = found[found["claimed"]].reset_index()
    assert set(zip(claimed["measure"], claimed["change"], strict=True)) == {
        (name, kind) for name, kinds in INVARIANT.items() for kind in kinds
    }


def test_without_transformed_networks_training_alone_is_shown():
    frame = fig6.frame({}, ResultTables({GRIDS[0]: table(transformed=False)}))
    assert set(frame["change"]) == {fig6.LONGER}


@pytest.fixture(scope="module")
def made():
    """One narrow network does not interpolate, and sharpness says little of compression."""
    every = layers.table({"feature_sensitivity": layers.Made((1, 2, 3, 4), seed=1, noise=1)})
    slow = (every["run"] == every["run"][0]) & (every["checkpoint"] == every["checkpoint"][-1])
    return every.assign(train_loss=every["train_loss"].where(~slow, 0.5))


def at(table, **levels):
    """The networks of a width, loss and rate at the end."""
    units = table["setting"].str.extract(r"units(\d+)", dim=None).astype(int)
    chosen = units == levels.pop("units")
    for name, value in levels.items():
        chosen = chosen & (table[name] == value)
    return table.isel(run=np.flatnonzero(chosen), checkpoint=-1, samples=0)


def test_curves_are_of_the_layers_and_the_outputs(made):
    frame = fig7.frame({}, ResultTables({GRID: made}))
    curves = frame[frame["row"] == "curve"]
    assert set(curves["networks"]) == {*fig7.COLUMNS}
    end = curves[curves["iteration"] == made["checkpoint"].values[-1]]
    rows = end.set_index(["networks", "quantity", "layer"])["median"].sort_index()
    for title, which in fig7.COLUMNS.items():
        chosen = at(made, lr=0.05, **which)
        for layer in ("fc2", "fc3", "fc4"):
            expected = chosen["collapse_within"].sel(layer=layer).median()
            assert rows[title, "collapse_within", layer] == pytest.approx(float(expected))
        expected = chosen["mls"].median()
        assert rows[title, "feature_mls", "output"] == pytest.approx(float(expected))
    assert "fc1" not in set(curves["layer"])  # x itself
    begins = frame[frame["row"] == "window"].groupby("networks")["iteration"].first()
    assert begins.tolist() == [1_000] * 3


def test_bounds_are_shown_where_they_are_finite(made):
    frame = fig8.frame({}, ResultTables({GRID: made})).set_index(["loss", "line", "units"])
    rows = frame["median"].sort_index()
    chosen = at(made, units=8, loss="half-mse")
    assert rows["half-MSE", "bound", 8] == pytest.approx(
        float(chosen["penultimate_bound"].median())
    )
    assert list(rows["cross-entropy", "bound"].index) == NARROW
    assert list(rows["cross-entropy", "head-bound"].index) == [4, 8, 10, 32, 128]
    square = np.sqrt(at(made, units=128, loss="cross-entropy")["feature_sensitivity"][:, -1])
    assert rows["cross-entropy", "features", 128] == pytest.approx(float(square.median()))
    share = at(made, units=32, loss="cross-entropy")["head_share"]
    assert rows["cross-entropy", "end", 32] == pytest.approx(float(share.median()))
    assert rows["cross-entropy", "start", 32] == pytest.approx(2 * float(share.median()))
    assert rows["cross-entropy", "fits", 4] == pytest.approx(14 / 15)
    assert rows["cross-entropy", "fits", 8] == 1


def test_correlations_are_over_pairs_of_one_width_and_loss_and_of_one_setting(made):
    frame = fig9.frame({}, ResultTables({GRID: made}))
    taus = frame[frame["panel"] == "tau"]
    assert set(taus["networks"]) == {119}
    assert set(taus["kind"]) == {"pooled", "within"}
    chosen = taus[(taus["x"] == "root_sharpness") & (taus["y"] == "feature_sensitivity[-1]")]
    within = float(chosen.set_index("kind").loc["within", "value"])
    end = made.isel(checkpoint=-1, samples=0)
    signs = []
    for setting in np.unique(end["setting"].values):
        runs = end.isel(run=np.flatnonzero(end["setting"].values == setting))
        runs = runs.isel(run=np.flatnonzero(runs["train_loss"].values < 1e-2))
        x, y = runs["root_sharpness"].values, runs["feature_sensitivity"].values[:, -1]
        pairs = len(x) * (len(x) - 1) / 2
        signs += [(kendalltau(x, y).statistic * pairs, pairs)]
    agree, pairs = np.sum(signs, axis=0)
    assert within == pytest.approx(agree / pairs)
    assert (taus["low"] <= taus["value"]).all()
    assert (taus["value"] <= taus["high"]).all()


def test_shares_are_medians_of_one_width_and_loss(made):
    frame = fig9.frame({}, ResultTables({GRID: made}))
    shares = frame[frame["panel"] == "share"].set_index(["units", "loss", "layer"])["value"]
    chosen = at(made, units=32, loss="cross-entropy")["linear_share_within"]
    for layer, label in (("fc2", "input of layer 2"), ("fc4", "penultimate")):
        expected = float(chosen.sel(layer=layer).median())
        assert shares[32, "cross-entropy", label] == pytest.approx(expected)


@pytest.fixture(scope="module")
def shown(few, made):
    """Small tables of each figure, and such of networks that do not fit."""
    joined = {GRIDS[0]: table().assign(train_error=lambda t: t["train_error"] + 50)}
    slow = {GRID: layers.table(losses=[2.0, 1.0, 0.5, 0.2])}
    of_joint = ("fig4", "fig5", "fig6")
    return {key: (few, joined) if key in of_joint else ({GRID: made}, slow) for key in SETTINGS}


@pytest.mark.first(1)
@pytest.mark.parametrize("key", SETTINGS)
def test_the_picture_is_as_wide_as_a_page_and_nothing_is_too_small(key, shown):
    settings, (tables, none) = SETTINGS[key], shown[key]
    frame = figures.frame_of(settings, tables)
    frame = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    fig = Figure(figsize=settings["size_inches"], layout="constrained")
    importlib.import_module(settings["drawn_by"]).draw(fig.subfigures(), frame, settings)
    assert settings["size_inches"][0] == 7.1
    texts = [text for text in fig.findobj(mpl.text.Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 6
    if key in ("fig4", "fig6"):
        assert len(texts) > len(joint.PICTURED)
    elif key == "fig5":
        assert len(fig.axes[0].patches) == 14
    else:
        assert sum(len(ax.lines) for ax in fig.axes) > 8
    assert figures.make(settings, none)["svg"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *((np.nan, "?"), (1e-9, "0"), (3.2e-5, "3e-5"), (0.04, "4 %"), (0.994, "99 %")),
        *((0.997, "×2"), (11.0, "×12"), (2e6, "×2e6")),
    ],
)
def test_a_change_is_told_in_a_few_characters(change, words):
    assert fig6.in_short(change) == words


def test_looseness_is_the_median_over_networks_that_have_both():
    names = {column.removeprefix("log ") for _, *pair in fig15.MEASURES.values() for column in pair}
    values = {name: (("run", "checkpoint"), np.full((3, 3), 2.0)) for name in names}
    values["mls"] = (("run", "checkpoint"), [[1, 1, np.nan], [1, 2, np.nan], [1, 8, np.nan]])
    values["train_loss"] = (("run", "checkpoint"), np.zeros((3, 3)))
    table = xr.Dataset(values, {"checkpoint": [0, 5, 9]}, {"name": "a grid", "data": "digits"})
    table = table.expand_dims(samples=["train"])
    table["diverged"] = ("run", np.zeros(3, dtype=bool))
    frame = fig15.frame({}, ResultTables({"a": table})).set_index(["measure", "iteration"])
    numbers = frame.loc[("mls", 5.0), ["low", "median", "high", "runs"]]
    assert [*numbers] == pytest.approx([-np.log(4) / 2, 0, np.log(2) / 2, 3])
    assert frame.loc[("nvr", 9.0), "median"] == 0
    assert ("mls", 9.0) not in frame.index
    assert 0 not in frame.index.get_level_values("iteration")
