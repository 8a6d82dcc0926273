"""Correlations and their intervals are those of loops and of textbooks."""

import itertools

import numpy as np
import pytest
import scipy.stats

from flatlab.stats import KINDS, Correlations
from tests.stats.samples import LOSS, SETTINGS, SIZES, columns, correlations, student

PAIRS = list(itertools.combinations("xyz", 2))


def one_rho(kind, x, y, rows):
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_correlation_and_its_interval_are_those_of_a_loop(kind, pair):
    data = columns(3)
    x, y = (data[name] for name in pair)
    rho = correlations(data).rho(*pair, kind)
    everything = np.arange(40)
    jackknife_values = np.arctanh([one_rho(kind, x, y, everything != i) for i in range(40)])
    assert rho.value == pytest.approx(one_rho(kind, x, y, everything), rel=1e-10)
    assert rho.jackknife_values == pytest.approx(jackknife_values, rel=1e-8)
    ends = student(
        np.arctanh(rho.value),
        jackknife_values,
        np.repeat([0, 1, 2], SIZES),
        unit_variance_factor=True,
    )
    assert rho.interval() == pytest.approx(np.tanh(ends), rel=1e-8)
    assert (rho.n, rho.estimand) == (40, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs_at_once_equal_one_pair_alone(kind):
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


def test_missing_values_leave_only_their_own_pairs():
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


def test_compared_correlations_are_of_the_same_runs():
    data = columns()
    rest = np.arange(40) != 7
    gappy = correlations({**data, "z": np.where(rest, data["z"], np.nan)})
    xy, xz = gappy.rhos(("x", "y"), ("x", "z"))
    assert xy.value == pytest.approx(one_rho("pooled", data["x"], data["y"], rest))
    assert (xy.n, xz.n) == (39, 39)
    with pytest.raises(ValueError, match="same kind and units"):
        _ = gappy.rho("x", "y") - xz


def test_the_difference_of_two_correlations_is_that_of_fishers_z():
    """Its interval is narrower than the two suggest, since both move together."""
    data = columns()
    data["w"] = data["y"] + 0.01 * data["z"]
    a, b = correlations(data).rhos(("x", "y"), ("x", "w"))
    found = a - b
    assert found.value == pytest.approx(np.arctanh(a.value) - np.arctanh(b.value))
    ends = student(
        a.point - b.point,
        a.jackknife_values - b.jackknife_values,
        a.strata,
        unit_variance_factor=True,
    )
    assert found.interval() == pytest.approx(ends)
    assert np.diff(found.interval())[0] < 0.2 * np.diff(a.interval())[0]
    assert found.name == "z rho(x, y) - z rho(x, w)"
    assert (a - -b).value == pytest.approx(np.arctanh(a.value) + np.arctanh(b.value))
    assert (a - -b).name == "z rho(x, y) + z rho(x, w)"


def test_the_negative_of_an_estimate_is_its_mirror_image():
    rho = correlations(columns()).rho("x", "y")
    minus = -rho
    low, high = rho.interval()
    assert minus.value == -rho.value
    assert minus.interval() == pytest.approx((-high, -low))
    assert minus.name == "-rho(x, y)"
    assert (minus > 0.2).holds == pytest.approx((rho < -0.2).holds)


@pytest.mark.parametrize("kind", KINDS)
def test_positive_affine_maps_change_nothing(kind):
    data = columns()
    moved = {**data, "x": 1e4 * data["x"] + 1e6}
    before, after = (correlations(d).matrix(kind) for d in (data, moved))
    for a, b in zip(before, after, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantity_that_does_not_vary_has_no_correlation(kind):
    data = {**columns(), "constant": np.full(40, 0.1)}
    value, low, high = correlations(data).matrix(kind)
    assert np.isnan([value[3, :3], low[3, :3], high[3, :3]]).all()
    assert np.isfinite(value[:3, :3]).all()
    assert (correlations(data).rho("x", "constant", kind) > 0).outcome == "not run"


def test_too_few_runs_or_one_that_varies_alone_decide_nothing():
    data = {
        **columns(),
        "few": np.where(np.arange(40) < 2, 1.0, np.nan),
        "single": np.eye(40)[13],  # without it rounding remains
    }
    few, single = (correlations(data).rho(name, "y") for name in ("few", "single"))
    unadjusted = Correlations(data, SETTINGS)
    for rho in (few, single, unadjusted.rho("x", "y", "adjusted")):
        assert (rho > -1).outcome == "not run"
    assert "2 runs" in few.reason
    assert np.isfinite(single.value)
    assert np.isnan(single.interval()).all()
    assert np.isnan(unadjusted.matrix("adjusted")[0][0, 1])


def test_of_clusters_whole_clusters_are_left_out():
    data, families = columns(), np.arange(40) % 9
    rho = Correlations(data, SETTINGS, clusters=families.astype(str)).rho("x", "y")
    jackknife_values = [one_rho("pooled", data["x"], data["y"], families != f) for f in range(9)]
    assert rho.jackknife_values == pytest.approx(np.arctanh(jackknife_values))
    ends = student(rho.point, rho.jackknife_values, np.zeros(9), unit_variance_factor=True)
    assert rho.interval() == pytest.approx(np.tanh(ends))
    assert rho.n == 40
