"""From estimates to verdicts."""

import itertools

import numpy as np
import pytest

from flatlab.stats import Correlations, Estimate, over_seeds, undefined
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every, not_run, some, theorem
from tests.stats.samples import columns, correlations


@pytest.mark.parametrize("clustered", [False, True])
def test_the_probability_of_a_constant_is_that_of_drawing_anew(clustered):
    settings = ["a"] * 3 + ["b"] * 2
    y = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    x = np.array([1.0, 1.0, 1.0, 2.0, 2.0])  # varies only between settings, which are fixed
    runs = np.arange(5)
    pools = [runs] if clustered else [runs[:3], runs[3:]]
    choices = [itertools.product(pool, repeat=len(pool)) for pool in pools]
    drawn = [np.concatenate(parts).astype(int) for parts in itertools.product(*choices)]
    expected = sum(np.mean([np.ptp(v[rows]) == 0 for rows in drawn]) for v in (x, y))
    clusters = list("pqrst") if clustered else None
    known = Correlations({"x": x, "y": y}, settings, clusters=clusters)
    assert known.constant_share("x", "y") == pytest.approx(expected)
    assert correlations(columns()).constant_share("x", "y") < 1e-12


@pytest.mark.parametrize(
    ("centre", "greater", "expected"),
    [
        (0.5, True, "holds"),
        (0.1, True, "undecided"),
        (-0.5, True, "fails"),
        (-0.5, False, "holds"),
        (0.5, False, "fails"),
        (np.nan, True, "not run"),
    ],
)
def test_an_interval_decides_where_it_lies_wholly_on_one_side(centre, greater, expected):
    q = over_seeds("q", mean, centre + np.linspace(-0.2, 0.2, 5))
    verdict = q > 0 if greater else q < 0
    assert verdict.outcome == expected
    assert verdict.evidence[0]["claim"] == ("> 0" if greater else "< 0")


@pytest.mark.parametrize("limit", [-0.9, -0.3, 0.0, 0.2, 0.6, 0.95])
def test_a_verdict_a_p_value_and_an_interval_say_the_same(limit):
    rho = correlations(columns()).rho("x", "y")
    low, high = rho.interval()
    verdict = rho > limit
    assert verdict.outcome == ("holds" if low > limit else "fails" if high < limit else "undecided")
    assert (verdict.p <= 0.05) == (verdict.outcome != "undecided")
    assert verdict.holds + verdict.fails == pytest.approx(1)


def test_no_correlation_exceeds_one():
    rho = correlations(columns()).rho("x", "y")
    assert ((rho > 1.2).outcome, (rho > -1.2).outcome) == ("fails", "holds")
    assert ((rho < 1.2).outcome, (rho < -1.2).outcome) == ("holds", "fails")


def test_within_a_limit_both_sides_must_hold():
    q = over_seeds("q", mean, 0.3 + np.linspace(-0.05, 0.05, 5))
    assert q.within(0.5).outcome == "holds"
    assert q.within(0.31).outcome == "undecided"
    assert q.within(0.1).outcome == "fails"
    assert (-q).within(0.1).outcome == "fails"
    assert q.within(0.5).holds == pytest.approx((q < 0.5).holds)


def test_what_does_not_vary_at_all_decides_at_once():
    q = over_seeds("q", mean, np.full(5, 2.0))
    assert (q > 1).outcome == "holds"
    assert (q < 1).outcome == "fails"
    assert (q > 2).outcome == "undecided"


def test_a_doubt_leaves_every_claim_undecided():
    rho = correlations(columns()).rho("x", "y")
    doubted = Estimate(
        rho.name, rho.point, rho.jackknife_values, rho.strata, rho.n, True, instability="few vary"
    )
    for verdict in (doubted > -1, doubted - rho > -9, -doubted < 1, doubted.within(1)):
        assert verdict.outcome == "undecided"
        assert verdict.reason == "few vary"


def test_an_undefined_estimate_stays_undefined_and_says_why():
    missing = undefined("rho", "no table")
    known = over_seeds("mean", mean, np.arange(5.0))
    for verdict in (missing > 0, -missing < 1, known - missing > 0, missing < known):
        assert (verdict.outcome, verdict.reason) == ("not run", "no table")
        assert verdict.evidence[0]["n"] == 0


def test_the_evidence_has_the_estimates_beside():
    known = correlations(columns())
    within = known.rho("x", "y", "within")
    pooled = known.rho("x", "y")
    both = Estimate(**{**vars(pooled), "alternatives": {within.estimand: within}})
    entry = both.report()["beside"]["within settings"]
    low, high = within.interval()
    assert entry == {"value": within.value, "low": low, "high": high, "n": 40}


def claimed(holds):
    return Verdict.tested(holds, 1 - holds, [{"quantity": "q"}])


def test_all_of_several_have_the_largest_p_value_and_one_failure_is_corrected():
    assert every([claimed(0.001), claimed(0.01)]).outcome == "holds"
    assert every([claimed(0.001), claimed(0.01)]).holds == 0.01
    assert every([claimed(0.001), claimed(0.2)]).outcome == "undecided"
    assert every([claimed(0.98), claimed(0.5)]).outcome == "undecided"  # 0.02 times two
    both = every([claimed(0.99), claimed(0.5)])
    assert both.outcome == "fails"
    assert both.fails == pytest.approx(0.02)
    assert both.p == pytest.approx(0.04)


def test_one_of_several_is_corrected_and_fails_if_all_do():
    assert some([claimed(0.02), claimed(0.5)]).outcome == "undecided"
    assert some([claimed(0.01), claimed(0.5)]).outcome == "holds"
    assert some([claimed(0.99), claimed(0.98)]).outcome == "fails"
    assert (claimed(0.001) | claimed(0.9)).holds == pytest.approx(0.002)


def test_what_was_not_run_decides_only_where_the_rest_cannot():
    missing = not_run("no table")
    assert every([claimed(0.001), missing]).outcome == "not run"
    assert every([claimed(0.001), missing]).reason == "no table"
    assert every([claimed(0.999), missing]).outcome == "fails"
    assert some([claimed(0.001), missing]).outcome == "holds"
    assert some([claimed(0.999), missing]).outcome == "not run"
    assert every([missing, missing]).p is None


def test_a_negation_exchanges_the_sides_and_keeps_the_rest():
    for part in (claimed(0.001), claimed(0.5), claimed(0.999)):
        assert (~part).holds == part.fails
        assert (~~part) == part
        assert (~part).p == part.p
    assert (~not_run("why")).outcome == "not run"


def test_a_claim_is_not_run_where_its_condition_does_not_hold():
    verdict = claimed(0.001)
    met = verdict.provided(claimed(0.01), "too short")
    assert (met.outcome, met.holds, len(met.evidence)) == ("holds", 0.001, 2)
    for condition in (claimed(0.5), claimed(0.999), not_run("no table")):
        unmet = verdict.provided(condition, "too short")
        assert unmet.outcome == "not run"
        assert unmet.p is None
        assert unmet.reason.startswith("too short")
        assert unmet.evidence[-1]["claim"] == "reported, not judged"
    assert unmet.reason == "too short; no table"


def test_theorems_are_checked_for_every_value_and_have_no_p_value():
    ones = np.ones((3, 2))
    assert theorem("a <= b", ones, ones * (1 - 1e-9)).outcome == "holds"
    violated = theorem("a <= b", ones, np.where(np.eye(3, 2), 0.9, 1))
    assert violated.outcome == "fails"
    assert (violated.evidence[0]["violations"], violated.evidence[0]["of"]) == (2, 6)
    assert theorem("a <= b", ones * np.nan, ones).outcome == "not run"
    assert violated.p is None
    mixed = every([theorem("a <= b", ones, ones), claimed(0.01)])
    assert (mixed.outcome, mixed.holds) == ("holds", 0.01)
