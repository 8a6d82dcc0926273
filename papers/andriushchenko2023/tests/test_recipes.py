"""Figures 5 and 6 and Tables 3 and 4 of andriushchenko2023: networks trained by recipes."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.stats import kendalltau

from flatlab.lab.claims import ResultTables, verify
from flatlab.papers.andriushchenko2023._printed import TABLE3, TABLE4
from flatlab.papers.andriushchenko2023._recipes import (
    PLAIN,
    RESNETS,
    VITS,
    Kind,
    excess_within,
    groups,
    tau,
    taus_within,
)
from flatlab.papers.andriushchenko2023._sharpness import error
from papers.andriushchenko2023.tests.tables import EACH, OF_RECIPES, recipes, verdict


def test_a_group_that_lacks_networks_is_named() -> None:
    table = recipes(own=0, augmented_error=5)
    found = verdict("fig5/c7-within", table)
    assert found.outcome == "not run"
    assert "crop-flip" in found.reason
    assert verdict("fig5/c7-within-unaugmented", table).outcome == "holds"


def test_networks_as_good_as_others_that_are_sharper_by_a_factor_of_ten() -> None:
    """A fact about these networks: it is never undecided."""
    assert verdict("fig5/c4", recipes(own=0)).outcome == "holds"
    table = recipes(noise=0)
    place = {"definition": "worst-adaptive-linf", "radius_index": "0"}
    table["sharpness_at_radius"].loc[place] = table["sharpness_at_radius"].loc[place] ** 0.1
    found = verdict("fig5/c4", table)
    assert found.outcome == "fails"
    facts = [entry for entry in found.evidence if "largest" in entry["quantity"]]
    assert [entry["value"] >= 10 for entry in facts] == [True, False]
    assert facts[1]["quantity"].startswith("largest ratio of worst-adaptive-linf at 0.1")
    apart = recipes(each=2)
    apart["test_set_error"] = 100 * apart["test_set_error"]
    for few in (recipes(each=1), apart):
        assert verdict("fig5/c4", few).outcome == "not run"


RECIPES = {"table3": (TABLE3[RESNETS], 0.35), "table4": (TABLE4[VITS], 0.1)}


def signed(figure: str, size: float = 1.0, flip: int | None = None, each: int = EACH) -> xr.Dataset:
    """Networks whose taus have the printed signs, if `size` is 1; a definition has the other ones.

    On the corrupted images they have the signs of the test images.
    """
    ways = np.sign([taus for taus, _ in RECIPES[figure][0].values()])
    if flip is not None:
        ways[flip] *= -1
    table = recipes(own=1, between=0, noise=0.05, each=each)
    inside = table["test_set_error"].sel(test_set="test").values[:, 0, None, None] - 20
    noise = np.random.default_rng(1).normal(size=(len(inside), *ways.shape))
    table["sharpness_at_radius"].values[:, 0, 0] = np.exp(size * ways * inside + 0.3 * noise)
    table["test_set_error"].values[:, 0, 1] = inside[:, 0, 0] + 0.05 * noise[:, 0, 0]
    return table


@pytest.mark.parametrize("figure", RECIPES)
def test_every_sign_has_to_be_the_printed_one_where_that_is_clear(figure: str) -> None:
    """Where the printed signs of both test sets are clear they agree, and 48 of 48 must."""
    tables = (signed(figure), signed(figure, flip=0), signed(figure, size=0.0, each=7))
    found = [verdict(f"{figure}/c1", table).outcome for table in tables]
    assert found == ["holds", "fails", "undecided"]
    stand_in = signed(figure).assign_attrs(evidence="stand-in")
    assert verdict(f"{figure}/c1", stand_in).outcome == "not run"


@pytest.mark.parametrize("figure", RECIPES)
def test_no_tau_may_be_above_the_largest_printed_one(figure: str) -> None:
    limit = RECIPES[figure][1]
    cases = (recipes(own=-1, outside=-1), recipes(between=-1), signed(figure, limit / 6, each=7))
    found = [verdict(f"{figure}/c2", table) for table in cases]
    assert [each.outcome for each in found] == ["holds", "fails", "undecided"]
    assert sum(entry["claim"] == f"< {limit:g}" for entry in found[0].evidence) == 96


def test_networks_that_do_not_fit_are_left_out_and_each_group_says_how_many() -> None:
    table = recipes(between=1.2, augmented_error=18.0)
    found = verdict("fig5/c1", table)
    assert found.outcome == "not run"
    assert "0 of its 40 networks have a train error of at most 1 (median 18)" in found.reason
    assert "longer training or wider networks" in found.reason
    counts = {e["quantity"]: (e["value"], e["n"]) for e in found.evidence if "<=" in e["quantity"]}
    limit = "networks with train_error <= 1; recipes-grid"
    assert counts[limit] == (80, 160)
    assert counts[f"{limit}, augmentation crop-flip, mixup_alpha 0.5"] == (0, 40)
    assert verdict("fig5/c1-unaugmented", table).outcome == "holds"


def test_taus_are_those_of_scipy_over_all_networks_and_within_groups() -> None:
    table = recipes()
    networks = Kind("ResNets", RESNETS).networks(ResultTables({RESNETS: table}))
    x = table["sharpness_at_radius"].sel(definition="worst-adaptive-linf", radius_index="0")
    x, y = x.values.ravel(), table["test_set_error"].sel(test_set="corrupted").values.ravel()

    def of_scipy(rows: slice) -> float:
        pairs = len(x[rows]) * (len(x[rows]) - 1) / 2
        return kendalltau(x[rows], y[rows]).statistic * pairs / (pairs + 1)

    whole = tau(networks, PLAIN, error("corrupted"))
    assert whole.value == pytest.approx(of_scipy(slice(None)))
    taus = taus_within(networks, PLAIN, error("corrupted"))
    differences = excess_within(networks, PLAIN, error("corrupted"))
    for number, (inside, difference) in enumerate(zip(taus, differences, strict=True)):
        assert inside.value == pytest.approx(of_scipy(slice(number * EACH, (number + 1) * EACH)))
        assert difference.point == pytest.approx(inside.point - whole.point)
        low, high = difference.interval()
        assert low < difference.point < high


def test_a_difference_from_all_networks_is_as_wide_as_if_each_were_left_out_of_both() -> None:
    """By hand: both taus without each network in turn."""
    table, kind = recipes(each=26), Kind("ResNets", RESNETS)
    networks = kind.networks(ResultTables({RESNETS: table}))
    (difference, *_) = excess_within(networks, PLAIN, error("test"))
    runs = np.arange(table.sizes["run"])
    for left_out in (0, 25, 26, 103):
        rest = kind.networks(ResultTables({RESNETS: table.isel(run=runs != left_out)}))
        inside = tau(groups(rest)[0], PLAIN, error("test"))
        expected = inside.point - tau(rest, PLAIN, error("test")).point
        assert difference.left_out[left_out] == pytest.approx(expected)


@pytest.mark.parametrize("figure", ["fig5", "fig6", "table3", "table4"])
def test_without_sharpness_or_a_test_set_no_claim_is_run(figure: str) -> None:
    table = recipes()
    for lacking, missing in (
        (table.drop_vars("sharpness_at_radius"), "has no sharpness_at_radius"),
        (table.sel(test_set=["corrupted"]), "has no test_set test"),
        (table.sel(definition=OF_RECIPES[:1]), "has no definition worst-"),
    ):
        tables = {RESNETS: lacking, VITS: lacking}
        for claim in verify(f"andriushchenko2023_{figure}", tables)["claims"]:
            if missing in claim["reason"]:
                assert claim["verdict"] in ("not run", "fails")
            else:
                assert (figure, missing) == ("fig6", "has no test_set test")  # not about these
