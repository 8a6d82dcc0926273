"""Correlations, trends, intervals and verdicts against scipy and brute force."""

import itertools

import numpy as np
import pytest
import scipy.stats

from flatlab.stats import (
    KINDS,
    Correlations,
    Estimate,
    Verdict,
    every,
    not_run,
    over_seeds,
    some,
    theorem,
    undefined,
)
from flatlab.stats.estimate import fisher, spread, strata_of
from flatlab.stats.trends import (
    contrast,
    difference,
    mean,
    median_below,
    pearson,
    rise,
    tau,
    tau_in_order,
)

SIZES = [12, 20, 8]
SETTINGS = np.repeat(["a", "b", "c"], SIZES)
LOSS = np.random.default_rng(17).exponential(size=40)
PAIRS = list(itertools.combinations("xyz", 2))


def columns(seed: int = 0) -> dict[str, np.ndarray]:
    """Quantities that differ between settings and vary together within them."""
    generator = np.random.default_rng(seed)
    shift = np.repeat([0.0, 2.0, 3.0], SIZES)
    x = shift + generator.normal(size=40)
    y = 0.5 * x + LOSS + generator.normal(size=40)
    return {"x": x, "y": y, "z": -shift + generator.exponential(size=40)}


def correlations(data: dict[str, np.ndarray]) -> Correlations:
    return Correlations(data, SETTINGS, LOSS)


def one_rho(kind: str, x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> float:
    """A correlation of some runs by its definition."""
    x, y, settings = x[rows], y[rows], SETTINGS[rows]
    means = [np.array([v[settings == s].mean() for s in settings]) for v in (x, y)]
    given = np.column_stack([np.ones(len(x)), LOSS[rows]])
    x, y = {
        "pooled": lambda: (x, y),
        "within": lambda: (x - means[0], y - means[1]),
        "between": lambda: tuple(means),
        "adjusted": lambda: tuple(v - given @ np.linalg.lstsq(given, v)[0] for v in (x, y)),
    }[kind]()
    return float(scipy.stats.pearsonr(x, y).statistic)


def student(point: float, left_out: np.ndarray, strata: np.ndarray, inflated: bool) -> list[float]:
    """The interval of the stratified jackknife, as in the docs, with loops."""
    parts = [left_out[strata == s] for s in np.unique(strata)]
    factors = [1 if inflated else (len(p) - 1) / len(p) for p in parts]
    variances = [
        f * sum((v - p.mean()) ** 2 for v in p) for f, p in zip(factors, parts, strict=True)
    ]
    squares = sum(v**2 / (len(p) - 1) for v, p in zip(variances, parts, strict=True))
    t = scipy.stats.t.ppf(0.975, sum(variances) ** 2 / squares)
    return [point + sign * t * np.sqrt(sum(variances)) for sign in (-1, 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_correlation_and_its_interval_are_those_of_a_loop(kind, pair) -> None:
    data = columns(3)
    x, y = (data[name] for name in pair)
    rho = correlations(data).rho(*pair, kind)
    everything = np.arange(40)
    left_out = np.arctanh([one_rho(kind, x, y, everything != i) for i in range(40)])
    assert rho.value == pytest.approx(one_rho(kind, x, y, everything), rel=1e-10)
    assert rho.left_out == pytest.approx(left_out, rel=1e-8)
    ends = student(np.arctanh(rho.value), left_out, np.repeat([0, 1, 2], SIZES), inflated=True)
    assert rho.interval() == pytest.approx(np.tanh(ends), rel=1e-8)
    assert (rho.n, rho.estimand) == (40, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs_at_once_equal_one_pair_alone(kind) -> None:
    """Also where some pairs have fewer runs; and a matrix is symmetric."""
    data = columns()
    data["gappy"] = np.where(np.arange(40) % 7 == 3, np.inf, data["x"] + data["z"])
    known = correlations(data)
    value, low, high = known.matrix(kind)
    for (i, x), (j, y) in itertools.permutations(enumerate(data), 2):
        rho = known.rho(x, y, kind)
        assert value[i, j] == pytest.approx(rho.value, rel=1e-10)
        assert (low[i, j], high[i, j]) == pytest.approx(rho.interval(), rel=1e-8)
        assert low[i, j] < value[i, j] < high[i, j]
    assert (value.diagonal() == 1).all()


def test_missing_values_leave_only_their_own_pairs() -> None:
    data = columns()
    rest = np.arange(40) != 7
    gappy = correlations({**data, "z": np.where(rest, data["z"], np.nan)})
    assert gappy.rho("x", "y").value == correlations(data).rho("x", "y").value
    for kind in KINDS:
        found = gappy.rho("x", "z", kind)
        assert found.value == pytest.approx(one_rho(kind, data["x"], data["z"], rest), rel=1e-10)
        assert found.n == 39
    assert (gappy.runs_used("x", "y"), gappy.runs_used("x", "z")) == (40, 39)
    unknown_loss = Correlations(data, SETTINGS, np.where(rest, LOSS, np.nan))
    assert unknown_loss.rho("x", "y", "adjusted").n == 39


def test_compared_correlations_are_of_the_same_runs() -> None:
    data = columns()
    rest = np.arange(40) != 7
    gappy = correlations({**data, "z": np.where(rest, data["z"], np.nan)})
    xy, xz = gappy.rhos(("x", "y"), ("x", "z"))
    assert xy.value == pytest.approx(one_rho("pooled", data["x"], data["y"], rest))
    assert (xy.n, xz.n) == (39, 39)
    with pytest.raises(ValueError, match="same kind and units"):
        _ = gappy.rho("x", "y") - xz


def test_the_difference_of_two_correlations_is_that_of_fishers_z() -> None:
    """Its interval is narrower than the two suggest, since both move together."""
    data = columns()
    data["w"] = data["y"] + 0.01 * data["z"]
    a, b = correlations(data).rhos(("x", "y"), ("x", "w"))
    found = a - b
    assert found.value == pytest.approx(np.arctanh(a.value) - np.arctanh(b.value))
    ends = student(a.point - b.point, a.left_out - b.left_out, a.strata, inflated=True)
    assert found.interval() == pytest.approx(ends)
    assert np.diff(found.interval())[0] < 0.2 * np.diff(a.interval())[0]
    assert found.name == "z rho(x, y) - z rho(x, w)"
    assert (a - -b).value == pytest.approx(np.arctanh(a.value) + np.arctanh(b.value))
    assert (a - -b).name == "z rho(x, y) + z rho(x, w)"


def test_the_negative_of_an_estimate_is_its_mirror_image() -> None:
    rho = correlations(columns()).rho("x", "y")
    minus = -rho
    low, high = rho.interval()
    assert minus.value == -rho.value
    assert minus.interval() == pytest.approx((-high, -low))
    assert minus.name == "-rho(x, y)"
    assert (minus > 0.2).holds == pytest.approx((rho < -0.2).holds)


@pytest.mark.parametrize("kind", KINDS)
def test_positive_affine_maps_change_nothing(kind) -> None:
    data = columns()
    moved = {**data, "x": 1e4 * data["x"] + 1e6}
    before, after = (correlations(d).matrix(kind) for d in (data, moved))
    for a, b in zip(before, after, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantity_that_does_not_vary_has_no_correlation(kind) -> None:
    data = {**columns(), "constant": np.full(40, 0.1)}
    value, low, high = correlations(data).matrix(kind)
    assert np.isnan([value[3, :3], low[3, :3], high[3, :3]]).all()
    assert np.isfinite(value[:3, :3]).all()
    assert (correlations(data).rho("x", "constant", kind) > 0).outcome == "not run"


def test_a_quantity_that_one_run_alone_varies_has_no_interval() -> None:
    data = {**columns(), "single": np.eye(40)[5]}
    rho = correlations(data).rho("x", "single")
    assert np.isfinite(rho.value)
    assert np.isnan(rho.interval()).all()
    assert (rho > -1).outcome == "not run"


def test_too_few_runs_have_no_correlation() -> None:
    data = {"x": np.where(np.arange(40) < 2, 1.0, np.nan), "y": columns()["y"]}
    rho = correlations(data).rho("x", "y")
    assert (rho > 0).outcome == "not run"
    assert "2 runs" in rho.reason
    unadjusted = Correlations(columns(), SETTINGS)
    assert (unadjusted.rho("x", "y", "adjusted") > 0).outcome == "not run"
    assert np.isnan(unadjusted.matrix("adjusted")[0][0, 1])


def test_of_clusters_whole_clusters_are_left_out() -> None:
    data, families = columns(), np.arange(40) % 9
    rho = Correlations(data, SETTINGS, clusters=families.astype(str)).rho("x", "y")
    left_out = [one_rho("pooled", data["x"], data["y"], families != f) for f in range(9)]
    assert rho.left_out == pytest.approx(np.arctanh(left_out))
    ends = student(rho.point, rho.left_out, np.zeros(9), inflated=True)
    assert rho.interval() == pytest.approx(np.tanh(ends))
    assert rho.n == 40


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("aabbb", [{0, 1}, {2, 3, 4}]),
        ("abbccc", [{0, 1, 2}, {3, 4, 5}]),  # a single one joins the smallest
        ("abccc", [{0, 1}, {2, 3, 4}]),  # singles form a stratum
        ("abc", [{0, 1, 2}]),
        ("a", [{0}]),
        ("aab", [{0, 1, 2}]),
    ],
)
def test_single_units_share_a_stratum(labels, expected) -> None:
    strata = strata_of(list(labels))
    found = sorted(np.flatnonzero(strata == s).tolist() for s in np.unique(strata))
    assert [set(stratum) for stratum in found] == expected


def test_a_stratum_of_one_has_no_standard_error() -> None:
    error, _ = spread(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]), inflated=False)
    assert np.isnan(error)
    assert np.isnan(over_seeds("mean", mean, np.array([2.0])).interval()).all()
    assert np.isnan(difference("a - b", np.arange(5.0), np.array([2.0])).interval()).all()


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_the_interval_of_a_mean_is_students(seeds) -> None:
    sample = np.random.default_rng(8).exponential(size=seeds)
    ours = over_seeds("mean", mean, sample)
    theirs = scipy.stats.ttest_1samp(sample, 0.3)
    assert ours.value == pytest.approx(sample.mean())
    assert ours.interval() == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
    assert (ours > 0.3).p == pytest.approx(theirs.pvalue, rel=1e-8)


@pytest.mark.parametrize("sizes", [(5, 5), (9, 4), (2, 20)])
def test_the_interval_of_a_difference_of_means_is_welchs(sizes) -> None:
    generator = np.random.default_rng(9)
    a, b = generator.normal(3, 4, size=sizes[0]), generator.normal(size=sizes[1])
    theirs = scipy.stats.ttest_ind(a, b, equal_var=False)
    ours = difference("a - b", a, b)
    assert ours.value == pytest.approx(a.mean() - b.mean())
    assert ours.interval() == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
    assert (ours > 0).p == pytest.approx(theirs.pvalue, rel=1e-8)


def test_a_statistic_of_means_is_computed_without_each_seed() -> None:
    a, b = np.random.default_rng(6).normal(size=(2, 5, 12)).cumsum(axis=2)
    ours = over_seeds("rho_t", lambda *curves: fisher(pearson(*curves)), a, b, on_z=True)
    kept = [np.arange(5) != i for i in range(5)]
    left_out = [np.corrcoef(a[k].mean(0), b[k].mean(0))[0, 1] for k in kept]
    assert ours.value == pytest.approx(np.corrcoef(a.mean(0), b.mean(0))[0, 1])
    assert ours.left_out == pytest.approx(np.arctanh(left_out))
    ends = student(ours.point, ours.left_out, np.zeros(5), inflated=False)
    assert ours.interval() == pytest.approx(np.tanh(ends))


def test_a_contrast_and_the_rise_are_those_of_loops() -> None:
    generator = np.random.default_rng(12)
    groups = [generator.normal(k, k + 1, size=k + 4) for k in range(4)]
    ours = rise("rise", groups)
    pairs = list(itertools.combinations(groups, 2))
    assert ours.value == pytest.approx(np.mean([b.mean() - a.mean() for a, b in pairs]))

    def without(index: int, i: int) -> list[np.ndarray]:
        return [np.delete(g, i) if k == index else g for k, g in enumerate(groups)]

    left_out = [
        rise("rise", without(k, i)).value
        for k, group in enumerate(groups)
        for i in range(len(group))
    ]
    assert ours.left_out == pytest.approx(left_out)
    weights = np.array([-3, -1, 1, 3]) / 6
    errors = [w**2 * g.var(ddof=1) / len(g) for w, g in zip(weights, groups, strict=True)]
    pieces = (e**2 / (len(g) - 1) for e, g in zip(errors, groups, strict=True))
    freedom = sum(errors) ** 2 / sum(pieces)
    half = scipy.stats.t.ppf(0.975, freedom) * np.sqrt(sum(errors))
    assert ours.interval() == pytest.approx((ours.value - half, ours.value + half))
    assert contrast("w", groups, list(weights)).interval() == pytest.approx(ours.interval())


def brute_tau(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-a by its definition."""
    pairs = itertools.combinations(range(len(x)), 2)
    return float(np.mean([np.sign(x[j] - x[i]) * np.sign(y[j] - y[i]) for i, j in pairs]))


@pytest.mark.parametrize("length", [2, 3, 8, 61])
def test_the_tau_of_a_curve_is_scipys_where_there_are_no_ties(length) -> None:
    curves = np.random.default_rng(1).normal(size=(7, length))
    theirs = [scipy.stats.kendalltau(np.arange(length), curve).statistic for curve in curves]
    assert tau_in_order(curves) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("values", [1, 2, 3, 10, 64])
def test_a_tie_counts_zero_in_tau(values) -> None:
    curves = np.random.default_rng(values).integers(values, size=(9, 33)).astype(float)
    expected = [brute_tau(np.arange(33), curve) for curve in curves]
    assert tau_in_order(curves) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_the_tau_of_runs_is_that_of_a_loop(ties) -> None:
    """Shrunk by one pair that counts zero; of all runs and without each."""
    x, y, _ = (np.round(v) if ties else v for v in columns().values())
    x, y = x[:14], y[:14]
    ours = tau("tau", x, y)
    if not ties:
        assert brute_tau(x, y) == pytest.approx(scipy.stats.kendalltau(x, y).statistic)
    assert ours.value == pytest.approx(brute_tau(x, y) * 91 / 92)
    left_out = [brute_tau(np.delete(x, i), np.delete(y, i)) * 78 / 79 for i in range(14)]
    assert ours.left_out == pytest.approx(np.arctanh(left_out))
    ends = student(ours.point, ours.left_out, np.zeros(14), inflated=False)
    assert ours.interval() == pytest.approx(np.tanh(ends))


def test_the_tau_of_perfect_order_is_finite() -> None:
    ours = tau("tau", np.arange(10), np.arange(10) ** 3)
    assert ours.value == pytest.approx(45 / 46)
    assert np.isfinite(ours.interval()).all()


def test_curves_correlate_as_numpy_says() -> None:
    a, b = np.random.default_rng(10).normal(size=(2, 4, 15))
    expected = [np.corrcoef(*rows)[0, 1] for rows in zip(a, b, strict=True)]
    assert pearson(a, b) == pytest.approx(expected)
    assert np.isnan(pearson(a, np.full((4, 15), 0.1))).all()


def test_a_median_below_a_limit_is_the_sign_test() -> None:
    values = np.random.default_rng(2).normal(size=23)
    for limit in (-1.0, -0.2, 0.1, 0.9, 5.0):
        verdict = median_below("q", values, limit)
        below = int((values < limit).sum())
        for p, side in ((verdict.holds, "greater"), (verdict.fails, "less")):
            expected = scipy.stats.binomtest(below, 23, 0.5, alternative=side).pvalue
            assert p == pytest.approx(expected)
    entry = verdict.evidence[0]
    theirs = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    assert (entry["low"], entry["high"]) == (theirs.low, theirs.high)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_probability_of_a_constant_is_that_of_drawing_anew(clustered) -> None:
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
def test_an_interval_decides_where_it_lies_wholly_on_one_side(centre, greater, expected) -> None:
    q = over_seeds("q", mean, centre + np.linspace(-0.2, 0.2, 5))
    verdict = q > 0 if greater else q < 0
    assert verdict.outcome == expected
    assert verdict.evidence[0]["claim"] == ("> 0" if greater else "< 0")


@pytest.mark.parametrize("limit", [-0.9, -0.3, 0.0, 0.2, 0.6, 0.95])
def test_a_verdict_a_p_value_and_an_interval_say_the_same(limit) -> None:
    rho = correlations(columns()).rho("x", "y")
    low, high = rho.interval()
    verdict = rho > limit
    assert verdict.outcome == ("holds" if low > limit else "fails" if high < limit else "undecided")
    assert (verdict.p <= 0.05) == (verdict.outcome != "undecided")
    assert verdict.holds + verdict.fails == pytest.approx(1)


def test_no_correlation_exceeds_one() -> None:
    rho = correlations(columns()).rho("x", "y")
    assert ((rho > 1.2).outcome, (rho > -1.2).outcome) == ("fails", "holds")
    assert ((rho < 1.2).outcome, (rho < -1.2).outcome) == ("holds", "fails")


def test_within_a_limit_both_sides_must_hold() -> None:
    q = over_seeds("q", mean, 0.3 + np.linspace(-0.05, 0.05, 5))
    assert q.within(0.5).outcome == "holds"
    assert q.within(0.31).outcome == "undecided"
    assert q.within(0.1).outcome == "fails"
    assert (-q).within(0.1).outcome == "fails"
    assert q.within(0.5).holds == pytest.approx((q < 0.5).holds)


def test_what_does_not_vary_at_all_decides_at_once() -> None:
    q = over_seeds("q", mean, np.full(5, 2.0))
    assert (q > 1).outcome == "holds"
    assert (q < 1).outcome == "fails"
    assert (q > 2).outcome == "undecided"


def test_a_doubt_leaves_every_claim_undecided() -> None:
    rho = correlations(columns()).rho("x", "y")
    doubted = Estimate(rho.name, rho.point, rho.left_out, rho.strata, rho.n, True, doubt="few vary")
    for verdict in (doubted > -1, doubted - rho > -9, -doubted < 1, doubted.within(1)):
        assert verdict.outcome == "undecided"
        assert verdict.reason == "few vary"


def test_an_undefined_estimate_stays_undefined_and_says_why() -> None:
    missing = undefined("rho", "no table")
    known = over_seeds("mean", mean, np.arange(5.0))
    for verdict in (missing > 0, -missing < 1, known - missing > 0, missing < known):
        assert (verdict.outcome, verdict.reason) == ("not run", "no table")
        assert verdict.evidence[0]["n"] == 0


def test_the_evidence_has_the_estimates_beside() -> None:
    known = correlations(columns())
    within = known.rho("x", "y", "within")
    pooled = known.rho("x", "y")
    both = Estimate(**{**vars(pooled), "beside": {within.estimand: within}})
    entry = both.report()["beside"]["within settings"]
    low, high = within.interval()
    assert entry == {"value": within.value, "low": low, "high": high, "n": 40}


def claimed(holds: float) -> Verdict:
    return Verdict.tested(holds, 1 - holds, [{"quantity": "q"}])


def test_all_of_several_have_the_largest_p_value_and_one_failure_is_corrected() -> None:
    assert every([claimed(0.001), claimed(0.01)]).outcome == "holds"
    assert every([claimed(0.001), claimed(0.01)]).holds == 0.01
    assert every([claimed(0.001), claimed(0.2)]).outcome == "undecided"
    assert every([claimed(0.98), claimed(0.5)]).outcome == "undecided"  # 0.02 times two
    both = every([claimed(0.99), claimed(0.5)])
    assert both.outcome == "fails"
    assert both.fails == pytest.approx(0.02)
    assert both.p == pytest.approx(0.04)


def test_one_of_several_is_corrected_and_fails_if_all_do() -> None:
    assert some([claimed(0.02), claimed(0.5)]).outcome == "undecided"
    assert some([claimed(0.01), claimed(0.5)]).outcome == "holds"
    assert some([claimed(0.99), claimed(0.98)]).outcome == "fails"
    assert (claimed(0.001) | claimed(0.9)).holds == pytest.approx(0.002)


def test_what_was_not_run_decides_only_where_the_rest_cannot() -> None:
    missing = not_run("no table")
    assert every([claimed(0.001), missing]).outcome == "not run"
    assert every([claimed(0.001), missing]).reason == "no table"
    assert every([claimed(0.999), missing]).outcome == "fails"
    assert some([claimed(0.001), missing]).outcome == "holds"
    assert some([claimed(0.999), missing]).outcome == "not run"
    assert every([missing, missing]).p is None


def test_a_negation_exchanges_the_sides_and_keeps_the_rest() -> None:
    for part in (claimed(0.001), claimed(0.5), claimed(0.999)):
        assert (~part).holds == part.fails
        assert (~~part) == part
        assert (~part).p == part.p
    assert (~not_run("why")).outcome == "not run"


def test_a_claim_is_not_run_where_its_condition_does_not_hold() -> None:
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


def test_theorems_are_checked_for_every_value_and_have_no_p_value() -> None:
    ones = np.ones((3, 2))
    assert theorem("a <= b", ones, ones * (1 - 1e-9)).outcome == "holds"
    violated = theorem("a <= b", ones, np.where(np.eye(3, 2), 0.9, 1))
    assert violated.outcome == "fails"
    assert (violated.evidence[0]["violations"], violated.evidence[0]["of"]) == (2, 6)
    assert theorem("a <= b", ones * np.nan, ones).outcome == "not run"
    assert violated.p is None
    mixed = every([theorem("a <= b", ones, ones), claimed(0.01)])
    assert (mixed.outcome, mixed.holds) == ("holds", 0.01)
