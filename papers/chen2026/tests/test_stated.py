"""What the text of chen2026 states of networks: tables with which it holds, fails, is undecided."""

import pytest

from flatlab.papers.chen2026.claims import CLAIMS, PLOTS
from tests.synthetic.claim_tables import (
    BOUND,
    DOWN,
    LOSS,
    MEAN_VOLUME,
    MLS,
    NMLS,
    NONE,
    TEST_LOSS,
    UP,
    D,
    S,
    judged,
    networks,
    outcomes,
    trends,
)

ADAPTIVE, FIRST = "elementwise_adaptive_trace", "first_sharpness"
NVR, NVR_BOUND, LVR_BOUND = "network_log_volume", "network_log_volume_bound", "log_volume_bound"
STABLE = {NMLS: UP, BOUND: UP, MLS: UP, D: DOWN, NVR: UP, NVR_BOUND: UP, MEAN_VOLUME: UP}
OF_F2 = {"matrix_normalized_sharpness": UP, "weighted_mls": UP}
RELATED = {
    "c18": (STABLE, {**STABLE, NVR_BOUND: DOWN, LVR_BOUND: UP}, {**STABLE, LVR_BOUND: UP}),
    "c20": tuple({ADAPTIVE: UP, "normalized_mls": rho} for rho in (UP, DOWN, NONE)),
    "c21": tuple({**OF_F2, ADAPTIVE: UP, "input_invariant_mls": rho} for rho in (UP, DOWN, NONE)),
    "c22": ({FIRST: UP, MLS: UP}, {S: UP, MLS: UP}, {FIRST: UP, S: UP, MLS: UP}),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=lambda plot: plot.figure)
@pytest.mark.parametrize("key", RELATED)
def test_a_correlation_holds_fails_or_is_undecided(plot, key):
    claim = CLAIMS[plot.figure][key]
    found = outcomes(claim, lambda case: [networks(plot.grid, **case)], RELATED[key])
    assert found == ["holds", "fails", "undecided"]


def changed(grid, add=(), **factors):
    """Networks with some columns times a factor, or that much larger."""
    table = networks(grid)
    of_logs = {name: table[name] + more for name, more in dict(add).items()}
    return table.assign({name: table[name] * factor for name, factor in factors.items()} | of_logs)


@pytest.mark.parametrize("plot", PLOTS.values(), ids=lambda plot: plot.figure)
@pytest.mark.parametrize(
    ("key", "cases"),
    [
        ("c17", ({D: 9, "add": {LVR_BOUND: 9}}, {BOUND: 9, "add": {NVR_BOUND: 9}}, {})),
        ("c19", ({}, {"sharpness": 9}, None)),
    ],
)
def test_a_bound_is_tighter_or_not(plot, key, cases):
    claim = CLAIMS[plot.figure][key]
    made = [changed(plot.grid, **case) for case in cases if case is not None]
    expected = ["holds", "fails", "undecided"][: len(made)]
    assert [judged(claim, table).outcome for table in made] == expected


def test_the_gap_with_all_layers_may_be_open():
    """At 1.605^2 times the sharpness of the weights and biases it is half of the other one."""
    table = changed("mlp-grid")
    noise = networks("mlp-grid")[S] - 10
    table["sharpness"] = table["sharpness"] * (1.605 + 0.1 * noise) ** 2
    assert judged(CLAIMS["figH8"]["c19"], table).outcome == "undecided"


def test_inequalities_of_invariant_sharpness_hold_for_every_network_or_fail():
    claim = CLAIMS["figH8"]["inequalities"]
    larger = dict.fromkeys((ADAPTIVE, "matrix_normalized_sharpness"), 100)
    logs = dict.fromkeys((LVR_BOUND, NVR_BOUND), 100)
    table = changed("mlp-grid", add=logs, **larger)
    table = table.assign(network_input_invariant_mls=table["input_invariant_mls"])
    assert judged(claim, table).outcome == "holds"
    table[ADAPTIVE][7] = 0.0
    assert judged(claim, table).outcome == "fails"


def with_volume(grid, level=-20.0, spread=0.0, test_loss=0.005):
    """Training curves with a mean volume, which seeds spread, and a test loss."""
    table = trends(grid)
    volume = (table["log_volume"] - 20 + level + spread * (table["seed"] - 2)).transpose("run", ...)
    losses = table[LOSS] * 0 + test_loss + 0.001 * (table["seed"] - 2)
    volumes = (volume.dims, volume.values)
    return table.assign({MEAN_VOLUME: volumes, TEST_LOSS: losses.transpose(*table[LOSS].dims)})


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("figure", "stem", "grid"), [("fig2", "c9", "vgg-grid"), ("figI11", "c6", "mlp-grid")]
)
def test_compression_in_training_holds_fails_or_is_undecided(figure, stem, grid):
    keys = [key for key in CLAIMS[figure] if key.partition("-")[0] == stem]
    assert len(keys) == 6
    for key in keys:
        cases = (with_volume(grid), with_volume(grid, level=20), with_volume(grid, 0, spread=10))
        found = [judged(CLAIMS[figure][key], table).outcome for table in cases]
        assert found == ["holds", "fails", "undecided"], key


def test_the_test_loss_is_small_or_not():
    cases = [with_volume("vgg-grid", test_loss=loss) for loss in (0.005, 0.1, 0.01)]
    found = [judged(CLAIMS["figJ12"]["c6"], table).outcome for table in cases]
    assert found == ["holds", "fails", "undecided"]
