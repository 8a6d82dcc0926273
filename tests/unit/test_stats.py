"""Correlations, trends and intervals against scipy and brute force, and their laws."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from flatlab.stats import Correlations, Estimate, undefined
from flatlab.stats.bootstrap import bca, resample
from flatlab.stats.trends import difference, mean, over_seeds, pearson, tau, tau_in_order

SETTINGS = np.repeat(["a", "b", "c"], [12, 20, 8])


def columns(seed: int = 0, runs: int = 40) -> dict[str, np.ndarray]:
    """Quantities that differ between settings and vary together within them."""
    generator = np.random.default_rng(seed)
    shift = np.repeat([0.0, 2.0, 3.0], [12, 20, 8])[:runs]
    x = shift + generator.normal(size=runs)
    return {
        "x": x,
        "y": 0.5 * x + generator.normal(size=runs),
        "z": -shift + generator.exponential(size=runs),
    }


def test_the_pooled_correlation_is_pearsons() -> None:
    data = columns()
    value, *_ = Correlations(data, SETTINGS).matrix("pooled")
    assert value == pytest.approx(np.corrcoef(np.column_stack(list(data.values())).T), rel=1e-12)


def test_the_within_correlation_is_that_of_deviations_from_the_settings_mean() -> None:
    data = columns()
    deviations = {
        name: values - np.array([values[s == SETTINGS].mean() for s in SETTINGS])
        for name, values in data.items()
    }
    value, *_ = Correlations(data, SETTINGS).matrix("within")
    assert value == pytest.approx(np.corrcoef(list(deviations.values())), rel=1e-10)


def test_the_between_correlation_is_that_of_the_settings_means() -> None:
    data = columns()
    means = {n: [v[s == SETTINGS].mean() for s in SETTINGS] for n, v in data.items()}
    value, *_ = Correlations(data, SETTINGS).matrix("between")
    assert value == pytest.approx(np.corrcoef(list(means.values())), rel=1e-10)


@pytest.mark.parametrize("pair", [("x", "y"), ("x", "z"), ("y", "z")])
def test_the_interval_is_scipys_bca_of_several_samples(pair: tuple[str, str]) -> None:
    """scipy resamples each setting by itself where each is a sample of indices."""
    data = columns(seed=3)
    x, y = (data[name] for name in pair)

    def statistic(*chosen: np.ndarray, axis: int = -1) -> np.ndarray:
        index = np.concatenate(chosen, axis=-1).astype(int)
        a = x[index] - x[index].mean(-1, keepdims=True)
        b = y[index] - y[index].mean(-1, keepdims=True)
        return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))

    samples = [np.flatnonzero(setting == SETTINGS) for setting in "abc"]
    theirs = scipy.stats.bootstrap(
        samples, statistic, n_resamples=40_000, rng=1
    ).confidence_interval
    ours = Correlations(data, SETTINGS, resamples=40_000).rho(*pair).interval()
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.006)  # Monte-Carlo error of both


def test_the_correction_is_scipys_on_the_same_resamples() -> None:
    """One sample, its mean: the resamples are handed to both, so that only the formula differs."""
    sample = np.random.default_rng(5).exponential(size=25)
    strata = np.zeros(25, dtype=np.int64)
    resampled = resample(strata, 5_000) @ sample / 25
    jackknife = (1 - np.eye(25)) @ sample / 24
    low, high, fallback = bca(np.array(sample.mean()), resampled, jackknife, strata)
    theirs = scipy.stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=0,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=resampled),
    ).confidence_interval
    assert (low, high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
    assert not fallback


def test_a_resample_draws_as_many_runs_of_each_setting_as_there_are() -> None:
    strata = np.array([0] * 12 + [1] * 20 + [2] * 8)
    weights = resample(strata, 50)
    for stratum, size in enumerate((12, 20, 8)):
        assert (weights[:, strata == stratum].sum(axis=1) == size).all()


def test_all_pairs_at_once_equal_one_pair_alone() -> None:
    correlations = Correlations(columns(), SETTINGS, resamples=2_000)
    value, low, high, _ = correlations.matrix("pooled")
    rho = correlations.rho("x", "z")
    assert rho.value == pytest.approx(value[0, 2], rel=1e-12)
    assert rho.interval() == pytest.approx((low[0, 2], high[0, 2]), rel=1e-9)


def test_the_matrix_is_symmetric_and_its_intervals_contain_its_values() -> None:
    value, low, high, _ = Correlations(columns(), SETTINGS, resamples=2_000).matrix("pooled")
    for matrix in (value, low, high):
        assert matrix == pytest.approx(matrix.T, rel=1e-12)
    assert (low <= value + 1e-12).all()
    assert (value <= high + 1e-12).all()


@pytest.mark.parametrize("kind", ["pooled", "within", "between"])
def test_positive_affine_maps_change_nothing(kind: str) -> None:
    data = columns()
    moved = {**data, "x": 1e4 * data["x"] + 1e6}
    before, after = (Correlations(d, SETTINGS, resamples=500).matrix(kind) for d in (data, moved))
    for a, b in zip(before[:3], after[:3], strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_a_quantity_that_does_not_vary_has_no_correlation() -> None:
    data = {**columns(), "constant": np.full(40, 0.1)}
    for kind in ("pooled", "within", "between"):
        value, low, high, _ = Correlations(data, SETTINGS, resamples=200).matrix(kind)
        assert np.isnan([value[3], low[3], high[3]]).all()
        assert np.isfinite(value[:3, :3]).all()


def test_runs_that_are_not_finite_leave_only_their_own_pairs() -> None:
    data = columns()
    gappy = {**data, "z": np.where(np.arange(40) == 7, np.inf, data["z"])}
    correlations = Correlations(gappy, SETTINGS, resamples=500)
    value, *_ = correlations.matrix("pooled")
    whole, *_ = Correlations(data, SETTINGS, resamples=500).matrix("pooled")
    rest = np.arange(40) != 7
    assert value[0, 1] == pytest.approx(whole[0, 1], rel=1e-12)
    assert value[0, 2] == pytest.approx(
        np.corrcoef(data["x"][rest], data["z"][rest])[0, 1], rel=1e-12
    )
    assert (correlations.runs_used("x", "y"), correlations.runs_used("x", "z")) == (40, 39)


def test_intervals_repeat_bit_for_bit() -> None:
    first, second = (Correlations(columns(), SETTINGS, 300).matrix("pooled") for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert (a == b).all()


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """95 % of 200 intervals of independent normal pairs, within four binomial standard errors."""
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        pair = generator.normal(size=(2, 60))
        low, high = (
            Correlations({"x": pair[0], "y": pair[1]}, ["a"] * 60, resamples=400)
            .rho("x", "y")
            .interval()
        )
        covered += low < 0 < high
    assert abs(covered / 200 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)


def test_differences_and_absolute_values_keep_the_resamples_together() -> None:
    """The interval of a difference is narrower than the two intervals suggest, where both move."""
    data = columns()
    data["w"] = data["y"] + 0.01 * data["z"]
    correlations = Correlations(data, SETTINGS, resamples=1_000)
    a, b = correlations.rho("x", "y"), correlations.rho("x", "w")
    difference = a - b
    assert difference.value == pytest.approx(a.value - b.value)
    width = np.diff(difference.interval())[0]
    assert width < 0.2 * np.diff(a.interval())[0]
    minus = correlations.rho("x", "z")
    assert minus.value < 0
    ends = np.quantile(-minus.resampled, [0.025, 0.975])
    assert abs(minus).interval() == pytest.approx(tuple(ends), rel=1e-6)


def test_the_interval_of_an_absolute_value_near_zero_reaches_as_far_as_the_number_does() -> None:
    generator = np.random.default_rng(3)
    data = {"x": generator.normal(size=40), "y": generator.normal(size=40)}
    rho = Correlations(data, SETTINGS, resamples=2_000).rho("x", "y")
    low, high = rho.interval()
    assert low < 0 < high
    assert abs(rho).interval()[1] > 0.8 * max(-low, high)


def test_compared_correlations_are_of_the_same_runs() -> None:
    data = columns()
    gappy = {**data, "z": np.where(np.arange(40) == 7, np.nan, data["z"])}
    correlations = Correlations(gappy, SETTINGS, resamples=500)
    xy, xz = correlations.rhos(("x", "y"), ("x", "z"))
    rest = np.arange(40) != 7
    assert len(xy.strata) == len(xz.strata) == 39
    assert xy.value == pytest.approx(np.corrcoef(data["x"][rest], data["y"][rest])[0, 1])
    with pytest.raises(ValueError, match="not estimates of the same runs"):
        _ = correlations.rho("x", "y") - xz


def test_too_few_runs_have_no_correlation() -> None:
    none = {"x": np.full(40, np.nan), "y": columns()["y"]}
    estimate = Correlations(none, SETTINGS, resamples=200).rho("x", "y")
    assert (estimate > 0).outcome == "not run"
    assert "0 runs" in estimate.reason


def brute_tau(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-a by its definition."""
    pairs = [(i, j) for j in range(len(x)) for i in range(j)]
    return float(np.mean([np.sign(x[j] - x[i]) * np.sign(y[j] - y[i]) for i, j in pairs]))


@pytest.mark.parametrize("length", [2, 3, 8, 61])
def test_the_tau_of_a_curve_is_scipys_where_there_are_no_ties(length: int) -> None:
    curves = np.random.default_rng(1).normal(size=(7, length))
    theirs = [scipy.stats.kendalltau(np.arange(length), curve).statistic for curve in curves]
    assert tau_in_order(curves) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("values", [1, 2, 3, 10, 64])
def test_a_tie_counts_zero_in_tau(values: int) -> None:
    curves = np.random.default_rng(values).integers(values, size=(9, 33)).astype(float)
    expected = [brute_tau(np.arange(33), curve) for curve in curves]
    assert tau_in_order(curves) == pytest.approx(expected, abs=1e-12)


def test_the_tau_of_runs_is_its_definition_and_scipys_without_ties() -> None:
    data, strata = columns(), np.repeat(np.arange(3), [12, 20, 8])
    plain = tau("tau", data["x"], data["y"], strata, resamples=200)
    assert plain.value == pytest.approx(scipy.stats.kendalltau(data["x"], data["y"]).statistic)
    tied = tau("tau", strata.astype(float), data["z"], strata, resamples=200)
    assert tied.value == pytest.approx(brute_tau(strata, data["z"]))


def test_resamples_and_jackknife_of_tau_are_those_of_runs_drawn_so_often() -> None:
    """Two copies of a run are a tie."""
    data, strata = columns(), np.repeat(np.arange(3), [12, 20, 8])
    ours = tau("tau", data["x"], data["y"], strata, resamples=5)
    for value, weights in zip(ours.resampled, resample(strata, 5), strict=True):
        drawn = np.repeat(np.arange(40), weights.astype(int))
        assert value == pytest.approx(brute_tau(data["x"][drawn], data["y"][drawn]))
    rest = np.arange(40) != 11
    assert ours.jackknife is not None
    assert ours.jackknife[11] == pytest.approx(brute_tau(data["x"][rest], data["y"][rest]))


def test_the_interval_of_tau_is_scipys_bca() -> None:
    generator = np.random.default_rng(4)
    x = generator.normal(size=30)
    y = x + generator.normal(size=30)
    ours = tau("tau", x, y, np.zeros(30, np.int64), resamples=20_000).interval()

    def statistic(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        agree = np.sign(a[..., :, None] - a[..., None, :]) * np.sign(
            b[..., :, None] - b[..., None, :]
        )
        return agree.sum((-1, -2)) / (30 * 29)

    theirs = scipy.stats.bootstrap(
        (x, y), statistic, paired=True, n_resamples=20_000, batch=1_000, rng=2
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.012)  # Monte-Carlo error of both


def test_a_statistic_of_means_is_computed_for_every_resample_of_the_seeds() -> None:
    """Not only for those that differ; and the interval is that of their percentiles."""
    generator = np.random.default_rng(6)
    a, b = generator.normal(size=(2, 5, 12)).cumsum(axis=2)
    ours = over_seeds("rho_t", pearson, a, b, resamples=400)
    weights = resample(np.zeros(5, np.int64), 400)
    brute = [np.corrcoef(w @ a, w @ b)[0, 1] for w in weights]
    assert ours.value == pytest.approx(np.corrcoef(a.mean(0), b.mean(0))[0, 1])
    assert ours.resampled == pytest.approx(brute)
    assert ours.interval() == pytest.approx(tuple(np.quantile(brute, [0.025, 0.975])))
    trend = over_seeds("trend", tau_in_order, a, resamples=50)
    for value, w in zip(trend.resampled, resample(np.zeros(5, np.int64), 50), strict=True):
        assert value == pytest.approx(brute_tau(np.arange(12), w @ a / 5))


def test_the_mean_over_seeds_has_scipys_percentile_interval() -> None:
    sample = np.random.default_rng(8).exponential(size=12)
    theirs = scipy.stats.bootstrap(
        (sample,), np.mean, n_resamples=40_000, method="percentile", rng=3
    ).confidence_interval
    ours = over_seeds("mean", mean, sample, resamples=40_000).interval()
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_a_difference_of_settings_has_scipys_percentile_interval() -> None:
    """Each setting is resampled by itself."""
    generator = np.random.default_rng(9)
    a, b = generator.normal(3, size=9), generator.normal(size=6)
    theirs = scipy.stats.bootstrap(
        (a, b),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        n_resamples=40_000,
        method="percentile",
        rng=3,
    ).confidence_interval
    ours = difference("a - b", a, b, resamples=40_000)
    assert ours.value == pytest.approx(a.mean() - b.mean())
    assert ours.interval() == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_curves_correlate_as_numpy_says() -> None:
    a, b = np.random.default_rng(10).normal(size=(2, 4, 15))
    assert pearson(a, b) == pytest.approx(
        [np.corrcoef(*rows)[0, 1] for rows in zip(a, b, strict=True)]
    )
    assert np.isnan(pearson(a, np.full((4, 15), 0.1))).all()


@pytest.mark.parametrize(
    ("interval", "greater", "expected"),
    [
        ((0.1, 0.9), True, "holds"),
        ((-0.1, 0.9), True, "undecided"),
        ((-0.9, -0.1), True, "fails"),
        ((-0.9, -0.1), False, "holds"),
        ((0.1, 0.9), False, "fails"),
        ((float("nan"), float("nan")), True, "not run"),
    ],
)
def test_an_interval_decides_where_it_lies_wholly_on_one_side(
    interval: tuple[float, float], greater: bool, expected: str
) -> None:
    q = Estimate("q", 0.0, np.linspace(*interval, 9), np.zeros(9, np.int64))
    verdict = q > 0 if greater else q < 0
    assert verdict.outcome == expected
    assert verdict.evidence[0]["claim"] == ("> 0" if greater else "< 0")


def test_an_undefined_estimate_stays_undefined_and_says_why() -> None:
    missing = undefined("rho", "no table")
    known = over_seeds("mean", mean, np.arange(5.0))
    for verdict in (missing > 0, abs(missing) < 1, known - missing > 0, missing < known):
        assert (verdict.outcome, verdict.reason) == ("not run", "no table")
        assert verdict.evidence[0]["n"] == 0
