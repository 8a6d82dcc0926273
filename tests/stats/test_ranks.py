"""Rank correlations over pairs of networks: against scipy, loops and sampling."""

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from scipy.stats import kendalltau

from flatlab.stats.ranks import Ranks, granulated, pairs_of, sign_error, simultaneous
from tests.stats.samples import student

SETTINGS = np.repeat(["a", "b", "c", "d", "e", "f"], 4)
RATE, BATCH = np.repeat([1, 2, 3, 1, 2, 3], 4), np.repeat([8, 8, 8, 32, 32, 32], 4)


def made(count=3, seed=0):
    """Quantities of 24 networks that go together, with a few ties."""
    generator = np.random.default_rng(seed)
    common = generator.normal(size=24) + RATE
    names = "xyzuvw"[:count]
    return {n: np.round(common + generator.normal(size=24), 1) for n in names}


def looped(x, y, kept, pairs):
    """tau-a over some pairs of some networks."""
    signs = [
        np.sign(x[j] - x[i]) * np.sign(y[j] - y[i]) for i, j in combinations(kept, 2) if pairs[i, j]
    ]
    return float(np.mean(signs))


def test_over_all_networks_it_is_kendalls_tau():
    columns = {name: values + 1e-3 * np.arange(24) for name, values in made().items()}  # no ties
    ranks = Ranks(columns, list(SETTINGS))
    for x, y in combinations_with_replacement(columns, 2):
        expected = kendalltau(columns[x], columns[y]).statistic
        assert ranks.taus[0, ranks.names.index(x), ranks.names.index(y)] == pytest.approx(expected)
        found = ranks.tau(x, y)
        assert (found.value, -(-found).value) == pytest.approx((expected, expected))
        assert np.tanh(found.point) == pytest.approx(expected * 276 / 277)  # and a pair of zero
        assert np.isfinite(found.interval()).all()  # in perfect order too


ALL = pairs_of(np.zeros(24))


@pytest.mark.parametrize(
    ("pairs", "settings"),
    [
        *((ALL, SETTINGS), (pairs_of(SETTINGS), SETTINGS), (pairs_of(BATCH, RATE), SETTINGS)),
        *((pairs_of(RATE, BATCH), SETTINGS), (ALL, None)),
    ],
    ids=["all", "seeds", "rate", "batch", "of a pool"],
)
def test_values_and_intervals_are_those_of_a_loop(pairs, settings):
    """The jackknife by settings with f = n / (n - 1), on Fisher's z of shrunk coefficients."""
    columns = made()
    columns["y"][5] = np.nan
    known = [i for i in range(24) if i != 5]
    found = Ranks(columns, None if settings is None else list(settings), pairs).tau("x", "y")

    def count(kept):
        return sum(pairs[i, j] for i, j in combinations(kept, 2))

    def z(kept):
        tau = looped(columns["x"], columns["y"], kept, pairs)
        return np.arctanh(tau * count(kept) / (count(kept) + 1))

    assert found.n == 23
    assert found.point == pytest.approx(z(known))
    without = np.array([z([i for i in known if i != out]) for out in range(24)])
    pooled = settings is None
    root = 1 if pooled else (4 / 3) ** 0.5
    strata = np.zeros(24) if pooled else settings
    ends = student(z(known), z(known) + root * (without - z(known)), strata, not pooled)
    shrunk = count(known) / (count(known) + 1)
    assert found.interval() == pytest.approx(np.tanh(ends) / shrunk)


def test_a_factor_alone_is_the_mean_over_the_values_of_the_others():
    """Jiang et al., Eq. 7, for groups of equal size; Psi is the mean over the factors."""
    columns = made(2)
    x, y = columns["x"], columns["y"]
    by_rate = pairs_of(BATCH, RATE)
    groups = [np.flatnonzero(batch == BATCH).tolist() for batch in (8, 32)]
    expected = np.mean([looped(x, y, group, by_rate) for group in groups])
    rate, batch = (Ranks(columns, list(SETTINGS), p) for p in (by_rate, pairs_of(RATE, BATCH)))
    assert rate.taus[0, 0, 1] == pytest.approx(expected)
    both = [rate.tau("x", "y"), batch.tau("x", "y")]
    psi = granulated("Psi", both)
    assert psi.value == pytest.approx(np.mean([tau.value for tau in both]))
    low, high = psi.interval()
    assert low < psi.value < high


def test_a_partial_coefficient_is_kendalls():
    columns = made(4)
    ranks = Ranks(columns, list(SETTINGS))
    signs = {
        name: np.sign([v[j] - v[i] for i, j in combinations(range(24), 2)])
        for name, v in columns.items()
    }

    def residual(name, *given):
        others = np.array([signs[each] for each in given], float).T
        return signs[name] - others @ np.linalg.lstsq(others, signs[name], rcond=None)[0]

    for given in (("z",), ("z", "u")):
        a, b = residual("x", *given), residual("y", *given)
        expected = a @ b / np.sqrt((a @ a) * (b @ b))
        assert ranks.partial("x", "y", *given).value == pytest.approx(expected)
    smooth = {name: values + 1e-3 * np.arange(24) for name, values in columns.items()}
    without_ties = Ranks(smooth, list(SETTINGS))
    xy, xz, yz = (without_ties.taus[0, i, j] for i, j in ((0, 1), (0, 2), (1, 2)))
    formula = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert without_ties.partial("x", "y", "z").value == pytest.approx(formula)


def test_what_follows_from_what_is_given_has_no_partial_coefficient():
    columns = made(2)
    columns["z"] = 2 * columns["x"]
    assert "not defined" in Ranks(columns, list(SETTINGS)).partial("x", "y", "z").reason


def test_the_effective_rank_counts_independent_quantities():
    generator = np.random.default_rng(0)
    settings = np.repeat(np.arange(48), 4)
    sources = generator.normal(size=(3, 192))
    copies = {f"{k}{copy}": sources[k] for k in range(3) for copy in range(5)}
    for pairs in (None, pairs_of(settings)):
        rank = Ranks(copies, list(settings), pairs).effective_rank()
        assert rank.value == pytest.approx(3, abs=0.1)
        low, high = rank.interval()
        assert (low, high) == pytest.approx((3, 3), abs=0.2)
    same = Ranks({k: sources[0] for k in copies}, list(settings)).effective_rank()
    assert same.value == pytest.approx(1)
    # one quantity that is not known of every network does not count
    copies["unknown"] = np.where(np.arange(192) < 5, np.nan, sources[0])
    assert Ranks(copies, list(settings)).effective_rank().value < 3.1


def test_without_pairs_there_is_no_number_but_a_reason():
    columns, alone = made(2), [str(i) for i in range(24)]
    within = Ranks(columns, alone, pairs_of(alone))
    assert "no pair" in within.tau("x", "y").reason
    assert np.isnan(within.matrix()[0]).all()
    unknown = Ranks(columns | {"z": np.full(24, np.nan)}, list(SETTINGS))
    assert "no pair" in unknown.tau("x", "z").reason
    assert "not defined" in unknown.partial("x", "y", "z").reason


def test_settings_of_two_networks_are_compared_with_one_another():
    """Both networks of a pair contribute the same, so that the pair alone has no spread."""
    columns, settings = made(2), np.repeat(np.arange(12), 2)
    low, high = Ranks(columns, list(settings), pairs_of(settings)).tau("x", "y").interval()
    assert high - low > 0.2


def test_a_sign_error_is_the_share_of_pairs_in_the_wrong_order():
    x, y = np.array([1.0, 2, 3, 3, np.nan]), np.array([1.0, 0, 2, 5, 3])
    pairs = pairs_of(np.zeros(5))
    wrong = [1, 0, 0, 0, 0, 0.5]  # (0, 1) is reversed, (2, 3) tie in x
    assert sign_error(x, y, pairs) == pytest.approx(np.mean(wrong))
    assert sign_error(x, np.array([1.0, 1, 1, 1, 2]), pairs) != sign_error(x, y, pairs)
    assert np.isnan(sign_error(x, np.ones(5), pairs))
    infinite = np.array([np.inf, 2, 3, 3, np.inf])
    assert sign_error(infinite, y, pairs) == pytest.approx(np.mean([0, 0, 0.5]))


def test_values_that_differ_by_rounding_tie():
    """As do gaps: 0.2 - 0.1 and 0.3 - 0.2 are not the same float."""
    train, test = np.repeat([0.2, 0.3, 0.9], 8), np.repeat([0.1, 0.2, 0.8], 8)
    accuracies, errors = train - test, (1 - test) - (1 - train)
    assert len(np.unique(accuracies)) > 1
    ranks = Ranks({"x": accuracies, "y": errors, "z": np.arange(24)}, list(SETTINGS))
    assert (ranks.taus[0, :2] == 0).all()
    assert np.isnan(sign_error(np.arange(24), accuracies, pairs_of(np.zeros(24))))


def test_a_band_of_one_interval_is_that_interval_and_of_many_is_wider():
    assert simultaneous(1) == pytest.approx(0.025)
    assert (1 - 2 * simultaneous(990)) ** 990 == pytest.approx(0.95)
    ranks = Ranks(made(), list(SETTINGS))
    (_, low, high), (_, lower, higher) = ranks.matrix(), ranks.matrix(simultaneous(3))
    off = ~np.eye(3, dtype=bool)
    assert (lower[off] < low[off]).all()
    assert (higher[off] > high[off]).all()
    tau = ranks.tau("x", "z")
    assert (low[0, 2], high[0, 2]) == pytest.approx(tau.interval())
