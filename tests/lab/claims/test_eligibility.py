"""What a verdict may rest on, and what an estimate of a correlation is of."""

import numpy as np
import pytest

from flatlab.lab.claims import verify
from flatlab.papers.chen2026.claims import CLAIMS
from flatlab.stats import Correlations
from papers.chen2026.tests.cases import CLAIMS as BY_FIGURE
from papers.chen2026.tests.cases import OF_CURVES, PLOTS
from tests.synthetic.claim_tables import (
    BEGINS,
    BOUND,
    DOWN,
    GAP,
    GRIDS,
    LOSS,
    NMLS,
    UP,
    S,
    judged,
    networks,
    trends,
)

FOLLOWS = {NMLS: UP, BOUND: UP}
PAIRED = CLAIMS["figH8"]["c1"]
NEEDED = "a correlation needs 10 with 2"


def chosen(table, which, left_out=0):
    return table.isel(run=which).assign_attrs(left_out=left_out)


def refused(verdict, *reasons):
    assert verdict.outcome == "not run"
    for reason in reasons:
        assert reason in verdict.reason


OF_MEANS = [case for case, (_, open_) in OF_CURVES.items() if open_ is not None]


@pytest.fixture(scope="module")
def few():
    """Trends of four seeds, and nine networks of each grid."""
    nine = {grid: chosen(networks(grid, seeds=2), slice(9), left_out=91) for grid in GRIDS}
    return [trends(grid, seeds=4) for grid in GRIDS], nine


@pytest.mark.every(8)
@pytest.mark.parametrize(("figure", "key"), OF_MEANS)
def test_a_mean_over_four_seeds_is_not_judged(figure, key, few):
    """All claims about curves but the theorems."""
    refused(judged(BY_FIGURE[f"chen{figure}"][key], *few[0]), "4 networks", "a mean needs 5")


@pytest.mark.every(8)
@pytest.mark.parametrize(("figure", "grid", "key", "_case"), PLOTS)
def test_a_correlation_over_nine_networks_is_not_judged(figure, grid, key, _case, few):
    paper = "chen2026" if figure.startswith("figH") else "chen2024"
    verdict = judged(BY_FIGURE[f"{paper}_{figure}"][key], few[1][grid])
    refused(verdict, f"{grid} has 9 networks that", NEEDED, "of 100 networks 91 are not trained")


def test_networks_that_are_not_trained_yet_are_counted():
    none = chosen(trends("vgg-grid"), slice(10), left_out=90)
    setting = "vgg-grid, lr 0.2, batch size 20 has no networks measured through training"
    refused(judged(CLAIMS["fig2"]["c1"], none), f"{setting}: of 100 networks 90 are not trained")
    other = trends("vgg-grid").assign_coords(lr=("run", np.full(25, 3.0)))
    refused(judged(CLAIMS["fig2"]["c1"], other), "it has no such setting")


def test_a_correlation_needs_ten_networks_with_two_settings():
    table = networks(**FOLLOWS)
    spread = np.arange(0, 100, 10)
    assert judged(PAIRED, chosen(table, spread)).outcome == "holds"
    few = judged(PAIRED, chosen(table, spread[:9], left_out=75))
    expected = "mlp-grid has 9 networks that interpolate, with 5 combinations of hyper-parameters"
    refused(few, expected, NEEDED, "of 84 networks 75 are not trained")
    alike = judged(PAIRED, chosen(table, slice(20), left_out=80))
    refused(alike, "20 networks that interpolate, with 1 combination of hyper-parameters; ", NEEDED)


def test_learning_rates_that_are_drawn_for_each_run_are_combinations():
    table = chosen(networks(**FOLLOWS), slice(20))
    table.attrs["hyperparameters"] = ["batch_size"]
    refused(judged(PAIRED, table), "with 1 combination of")
    drawn = table.assign_coords(lr=("run", np.geomspace(0.05, 0.2, 20)))
    assert judged(PAIRED, drawn).outcome == "holds"


def test_networks_that_diverged_or_do_not_interpolate_are_left_out_of_correlations():
    table = networks(**FOLLOWS)
    table[BOUND][:60] = 20 - table[BOUND][:60]  # would turn the verdict
    assert judged(PAIRED, table).outcome == "fails"
    table["diverged"][:30] = True
    table[LOSS][30:60] = 0.02
    verdict = judged(PAIRED, table)
    assert (verdict.outcome, verdict.evidence[0]["n"]) == ("holds", 40)
    abouts = verify("chen2026_figH8", {"mlp-grid": table})["tables"]["mlp-grid"]
    assert (abouts["runs"], abouts["diverged"]) == (70, 30)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda table: table[LOSS].values.fill(0.02), "of 100 networks 100 do not interpolate"),
        (lambda table: table["diverged"].values.fill(True), "of 100 networks 100 diverged"),
    ],
)
def test_without_networks_that_interpolate_nothing_is_judged(change, count):
    table = networks(**FOLLOWS)
    change(table)
    claims = verify("chen2026_figH8", {"mlp-grid": table})["claims"]
    assert {claim["verdict"] for claim in claims if claim["nature"] == "finding"} == {"not run"}
    assert claims[0]["reason"] == f"mlp-grid has no networks that interpolate; {NEEDED}; {count}"


def test_means_at_the_end_are_of_networks_that_interpolate():
    table, late = trends("vgg-grid"), trends("vgg-grid")
    late[LOSS][:, :-1] = 1.0  # they interpolate at the last checkpoint alone
    assert judged(CLAIMS["fig2"]["c1"], late).outcome == "holds"
    table[LOSS][0, BEGINS:] = 1.0
    table["diverged"][1] = True
    reasons = "has 3 networks that interpolate", "of 25 networks 1 diverged, 1 do not interpolate"
    refused(judged(CLAIMS["fig2"]["c1"], table), *reasons)
    refused(judged(CLAIMS["fig2"]["c3"], table), *reasons)


def with_gaps(count, seeds=6):
    """30 networks, of which those with the highest sharpness alone have a gap."""
    table = networks(seeds=seeds)
    sharpness = table[S].values[:, 0, 0]
    gaps = np.where(np.argsort(np.argsort(-sharpness)) < count, sharpness - 9, 0.0)
    return table.assign({GAP: (table[GAP].dims, gaps[:, None, None])})


def test_a_correlation_that_rests_on_two_networks_decides_nothing():
    verdict = judged(CLAIMS["figH8"]["c6-accuracies"], with_gaps(2))
    (entry,) = verdict.evidence
    assert (verdict.outcome, verdict.p, entry["n"]) == ("undecided", None, 30)
    expected = "of samples drawn from them one of its quantities does not vary"
    assert verdict.reason.startswith("the correlation rests on a few networks: in ")
    assert verdict.reason.endswith(expected)
    assert entry["value"] > 0.2
    of_many = judged(CLAIMS["figH8"]["c6-accuracies"], with_gaps(15))
    assert (of_many.outcome, of_many.reason) == ("holds", "")
    difference = judged(CLAIMS["figH8"]["c8-accuracies"], with_gaps(2))
    assert (difference.outcome, difference.reason) == ("undecided", verdict.reason)


def simpson():
    """Between settings NMLS and its bound rise together; within each, one falls with the other."""
    table = networks(seeds=6, **{NMLS: UP, BOUND: DOWN})
    shift = 10 * np.repeat(np.arange(5.0), 6)[:, None, None]
    for name in (NMLS, BOUND):
        table[name] = table[name] + shift
    loss = 0.003 + 0.001 * np.random.default_rng(5).normal(size=30)
    loss += 2e-5 * table[NMLS].values[:, 0, 0]
    return table.assign({LOSS: (("run", "checkpoint"), loss[:, None])})


def test_the_verdict_is_over_all_networks_and_other_correlations_stand_beside():
    table = simpson()
    columns = {name: table[name].values[:, 0, 0] for name in (NMLS, BOUND)}
    known = Correlations(columns, [*table["setting"].values], table[LOSS].values[:, 0])
    verdict = judged(PAIRED, table)
    (entry,) = verdict.evidence
    assert (verdict.outcome, entry["estimand"]) == ("holds", "over all networks")
    assert entry["low"] > 0.9
    assert entry["beside"]["within settings"]["high"] < -0.5
    assert [*entry["beside"]] == ["within settings", "adjusted for the training loss"]
    found = (entry, *entry["beside"].values())
    for kind, one in zip(("pooled", "within", "adjusted"), found, strict=True):
        (expected,) = known.rhos((NMLS, BOUND), kind=kind)
        assert [one[end] for end in ("low", "high")] == pytest.approx(expected.interval())
        assert (one["value"], one["n"]) == (pytest.approx(expected.value), 30)
