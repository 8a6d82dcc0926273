"""Correlations and intervals against scipy, and their laws."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from flatlab.stats import Correlations
from flatlab.stats.bootstrap import bca, leave_one_out, resample

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
    resampled = resample(strata, 5_000, 0) @ sample / 25
    jackknife = leave_one_out(25) @ sample / 24
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
    weights = resample(strata, 50, 0)
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
    assert abs(minus).interval() == pytest.approx(
        tuple(-end for end in minus.interval()[::-1]), rel=1e-6
    )
