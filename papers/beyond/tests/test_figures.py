"""The figures of the joint grids: what is drawn is what the tables say."""

import importlib
import io
from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import kendalltau

from flatlab.lab import figures as plotting
from flatlab.lab import plan
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond import fig4, fig5, fig6
from flatlab.papers.beyond._invariance import CLAIMED
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
OTHERS = {"mls": Made(other=1), "g": Made(lr=2, seed=-1, noise=0.5)}


@pytest.fixture(scope="module")
def tables() -> dict[str, xr.Dataset]:
    """Two networks do not fit, and one lacks a measure."""
    found = both(OTHERS)
    for each in found.values():
        number = xr.DataArray(np.arange(192), dims="run")
        each["train_error"] = each["train_error"].where(number > 1, 3.0)
        each["mls"] = each["mls"].where(number != 7)
    return found


@pytest.fixture(scope="module")
def few() -> dict[str, xr.Dataset]:
    """Twelve settings of one loss."""
    product_of = product(RATES, BATCHES, REGULARIZERS[:2])
    return both(settings=[("cross-entropy", lr, b, *name) for lr, b, name in product_of])


def test_networks_that_do_not_fit_are_left_out_and_counted(tables: dict[str, xr.Dataset]) -> None:
    chosen = joint.networks(tables[GRIDS[0]])
    assert (chosen.count, chosen.dropped) == (190, 2)
    assert np.isnan(chosen.values("mls")).sum() == 1
    raw = tables[GRIDS[0]]["g"].isel(checkpoint=-1, samples=0).sel(transformation="none")
    np.testing.assert_allclose(chosen.values("g"), raw[2:])


def test_a_measure_is_that_of_the_last_layer_the_smallest_radius_and_its_test_set() -> None:
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


def test_pairs_of_a_factor_differ_in_it_alone() -> None:
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


def test_networks_of_two_architectures_are_not_compared() -> None:
    made = table()
    kinds = np.where(np.arange(192) % 2, "lenet5", "resnet")
    pairs = joint.networks(made.assign_coords(architecture=("run", kinds))).pairs(joint.ALL)
    assert pairs[0, :3].tolist() == [False, False, True]


def test_the_matrix_has_taus_with_wider_intervals_than_alone(tables: dict[str, xr.Dataset]) -> None:
    frame = fig4.frame({}, tables, {})
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


def test_changes_of_sign_are_those_of_decided_coefficients(tables: dict[str, xr.Dataset]) -> None:
    both = fig5.frame({}, {GRIDS[0]: tables[GRIDS[0]]}, {})
    frame = both[both["at"] == fig5.END]
    rows = frame[(frame["outcome"] == "error_gap") & (frame["grid"] == GRIDS[0])]
    of_g = rows[rows["measure"] == "g"].set_index("varies")
    assert (of_g.loc[["all", "seeds"], "tau"] < 0).all()
    turned = frame[frame["opposite"].fillna(False).astype(bool)]
    assert ((turned["low"] > 0) | (turned["high"] < 0)).all()
    over = frame[frame["varies"] == "all"].set_index(["grid", "measure", "outcome"])["tau"]
    keys = pd.MultiIndex.from_frame(turned[["grid", "measure", "outcome"]])
    assert (over.loc[keys].to_numpy() * turned["tau"].to_numpy() < 0).all()
    factors = of_g.loc[list(joint.FACTORS), "tau"]
    assert of_g.loc["granulated", "tau"] == pytest.approx(factors.mean())
    assert set(frame["outcome"]) == {"test_error", "error_gap", "corrupted"}
    errors = of_g.loc[["environment"]]
    assert len(errors) == 11
    of_rates = errors[errors["levels"].str.startswith("lr")]["tau"].mean()
    assert of_rates == pytest.approx((1 - of_g.loc["lr", "tau"]) / 2, abs=0.01)


def test_what_networks_say_when_they_first_fit_is_in_the_csv() -> None:
    made = table(changes=dict.fromkeys(("mls", "error_gap"), Made(seed=1, longer=1.0)))
    made["mls"] = made["mls"].where(made["checkpoint"] == made["checkpoint"].max(), -made["mls"])
    frame = fig5.frame({}, {GRIDS[0]: made}, {})
    chosen = (frame["measure"] == "mls") & (frame["outcome"] == "error_gap")
    taus = frame[chosen & (frame["varies"] == "all")].set_index("at")["tau"]
    assert taus[fig5.END] > 0.5
    assert taus[fig5.FIRST_FIT] == pytest.approx(-taus[fig5.END])


def test_relative_changes_are_those_of_the_table() -> None:
    changes = {
        "mls": Made(layers=0.5, longer=2.0),
        "log_volume": Made(neurons=0.01, noise=0, longer=1),
    }
    found = fig6.frame({}, {GRIDS[0]: table(changes=changes)}, {}).set_index(["measure", "change"])
    assert found.loc[("mls", "layers"), "median"] == pytest.approx(0.5)
    assert found.loc[("mls", "neurons"), "median"] == 0
    assert found.loc[("mls", fig6.LONGER), "median"] == pytest.approx(1.0)
    expected = np.expm1(0.3)  # a hundredth of a logarithm of 30
    assert found.loc[("log_volume", "neurons"), "median"] == pytest.approx(expected)
    assert found.loc[("mls", "layers"), "kendall"] == 1
    assert set(found["networks"]) == {192}
    claimed = found[found["claimed"]].reset_index()
    assert set(zip(claimed["measure"], claimed["change"], strict=True)) == {
        (name, kind) for name, kinds in CLAIMED.items() for kind in kinds
    }


def test_without_transformed_networks_training_alone_is_shown() -> None:
    frame = fig6.frame({}, {GRIDS[0]: table(transformed=False)}, {})
    assert set(frame["change"]) == {fig6.LONGER}


@pytest.mark.parametrize("key", ["fig4", "fig5", "fig6"])
def test_the_picture_is_as_wide_as_a_page_and_nothing_is_too_small(
    few: dict[str, xr.Dataset], key: str
) -> None:
    (figure,) = (each for each in plan.figures() if each.target == f"beyond_{key}")
    module = importlib.import_module(figure.settings["drawn_by"])
    frame = pd.read_csv(io.StringIO(module.frame(figure.settings, few, {}).to_csv(index=False)))
    fig = Figure(figsize=figure.settings["size_inches"], layout="constrained")
    module.draw(fig.subfigures(), frame, figure.settings)
    assert figure.settings["size_inches"][0] == 7.1
    texts = [text for text in fig.findobj(mpl.text.Text) if text.get_text().strip()]
    assert len(texts) > len(joint.PICTURED)
    assert min(text.get_fontsize() for text in texts) >= 6


def test_two_pictures_of_the_same_tables_are_the_same(few: dict[str, xr.Dataset]) -> None:
    (figure,) = (each for each in plan.figures() if each.target == "beyond_fig6")
    one, other = (plotting.make(figure.settings, few, {}) for _ in range(2))
    assert one == other
    with Image.open(io.BytesIO(one["png"])) as picture:
        assert picture.width == 2130


def test_tables_without_networks_that_fit_make_an_empty_picture() -> None:
    none = table().assign(train_error=lambda t: t["train_error"] + 50)
    for key in ("fig4", "fig5", "fig6"):
        (figure,) = (each for each in plan.figures() if each.target == f"beyond_{key}")
        assert plotting.make(figure.settings, {GRIDS[0]: none}, {})["png"]


@pytest.mark.parametrize(
    ("change", "words"),
    [(1e-9, "0"), (3.2e-5, "3e-5"), (0.04, "4 %"), (0.994, "99 %"), (0.997, "×2"), (11.0, "×12")],
)
def test_a_change_is_told_in_a_few_characters(change: float, words: str) -> None:
    assert fig6.in_short(change) == words


def test_a_change_that_is_not_known_and_one_of_millions() -> None:
    assert (fig6.in_short(np.nan), fig6.in_short(2e6)) == ("?", "×2e6")
