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


def about(centre, half=0.2):
    """A mean of five seeds."""
    return over_seeds("q", mean, centre + np.linspace(-half, half, 5))


def claimed(holds):
    return Verdict.tested(holds, 1 - holds, [{"quantity": "q"}])


RHO, MISSING = correlations(columns()).rho("x", "y"), not_run("no table")
OUTCOMES = [
    # an interval decides where it lies wholly on one side
    *((about(0.5) > 0, "holds"), (about(0.1) > 0, "undecided"), (about(-0.5) > 0, "fails")),
    *((about(-0.5) < 0, "holds"), (about(0.5) < 0, "fails"), (about(np.nan) > 0, "not run")),
    # no correlation exceeds one
    *((RHO > 1.2, "fails"), (RHO > -1.2, "holds"), (RHO < -1.2, "fails"), (RHO < 1.2, "holds")),
    # what does not vary at all decides at once
    *((about(2, 0) > 1, "holds"), (about(2, 0) < 1, "fails"), (about(2, 0) > 2, "undecided")),
    # within a limit both sides must hold
    *((about(0.3, 0.05).within(0.5), "holds"), (about(0.3, 0.05).within(0.31), "undecided")),
    *((about(0.3, 0.05).within(0.1), "fails"), ((-about(0.3, 0.05)).within(0.1), "fails")),
    # all of several have the largest p-value, and one failure is corrected
    (every([claimed(0.001), claimed(0.01)]), "holds"),
    (every([claimed(0.001), claimed(0.2)]), "undecided"),
    (every([claimed(0.98), claimed(0.5)]), "undecided"),  # 0.02 times two
    (every([claimed(0.99), claimed(0.5)]), "fails"),
    # one of several is corrected, and fails if all do
    (some([claimed(0.02), claimed(0.5)]), "undecided"),
    (some([claimed(0.01), claimed(0.5)]), "holds"),
    (some([claimed(0.99), claimed(0.98)]), "fails"),
    # what was not run decides only where the rest cannot
    (every([claimed(0.001), MISSING]), "not run"),
    (every([claimed(0.999), MISSING]), "fails"),
    (some([claimed(0.001), MISSING]), "holds"),
    (some([claimed(0.999), MISSING]), "not run"),
]


@pytest.mark.parametrize(("verdict", "outcome"), OUTCOMES)
def test_a_claim_has_this_outcome(verdict, outcome):
    assert verdict.outcome == outcome


def test_evidence_and_p_values_are_those_of_the_parts():
    q, both = about(0.3, 0.05), every([claimed(0.99), claimed(0.5)])
    assert (q > 0).evidence[0]["claim"] == "> 0"
    assert (q < 0).evidence[0]["claim"] == "< 0"
    assert q.within(0.5).holds == pytest.approx((q < 0.5).holds)
    assert every([claimed(0.001), claimed(0.01)]).holds == 0.01
    assert (both.fails, both.p) == pytest.approx((0.02, 0.04))
    assert (claimed(0.001) | claimed(0.9)).holds == pytest.approx(0.002)
    assert every([claimed(0.001), MISSING]).reason == "no table"
    assert every([MISSING, MISSING]).p is None


@pytest.mark.parametrize("limit", [-0.9, -0.3, 0.0, 0.2, 0.6, 0.95])
def test_a_verdict_a_p_value_and_an_interval_say_the_same(limit):
    rho = correlations(columns()).rho("x", "y")
    low, high = rho.interval()
    verdict = rho > limit
    assert verdict.outcome == ("holds" if low > limit else "fails" if high < limit else "undecided")
    assert (verdict.p <= 0.05) == (verdict.outcome != "undecided")
    assert verdict.holds + verdict.fails == pytest.approx(1)


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
