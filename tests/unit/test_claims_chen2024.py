"""The claims of chen2024 on synthetic tables: one that holds, one that fails, one undecided."""

from __future__ import annotations

import pytest

from flatlab.claims import Evidence, verify
from flatlab.papers.chen2024.claims import CLAIMS
from tests.unit.test_claims_of_trends import (
    BLURRED,
    DIMENSION,
    MIXED,
    SPREAD_OUT,
    TURNED,
    VOLUME,
    G,
    S,
    outcomes,
)
from tests.unit.test_verdicts import DOWN, NONE, UP, WEAK, table

C, D, MLS, LOSS = "bound_c", "bound_d", "mls", "test_loss"
ONE = 0.995

# (figure, claim) -> changes of the published curves for which it fails, and is undecided
CURVES: dict[tuple[str, str], tuple[dict, dict | None]] = {
    ("fig1", "c1"): ({G: {"ramp": 2}}, {G: MIXED}),
    ("fig1", "c2"): ({VOLUME: TURNED}, {S: SPREAD_OUT}),
    ("fig1", "c3"): ({DIMENSION: {"first": -5}}, {DIMENSION: {"first": 0, "first_mixed": 5}}),
    ("fig2", "c1"): ({G: TURNED}, {G: SPREAD_OUT}),
    ("fig2", "c2"): ({VOLUME: {"ramp": 2}}, {VOLUME: MIXED}),
    ("fig3", "c1"): ({(S, "test"): {"ramp": -2}}, {(S, "test"): MIXED}),
    ("fig3", "c2"): ({(S, "misclassified"): {"level": 15}}, {(S, "misclassified"): SPREAD_OUT}),
    ("fig3", "c3"): ({(G, "test"): {"ramp": -2}}, {(G, "test"): MIXED}),
    ("fig3", "c4"): ({(VOLUME, "test"): {"ramp": 2}}, {(VOLUME, "test"): MIXED}),
    ("fig3", "c5"): (
        {(VOLUME, "misclassified"): {"level": 15}},
        {(VOLUME, "misclassified"): SPREAD_OUT},
    ),
    ("figD4", "c1"): ({"bound_b": {"level": 0.5}}, None),  # a theorem
    ("figD4", "c2"): ({"bound_c": {"level": 8.5}}, {"bound_d": SPREAD_OUT}),
    ("figE7", "c1"): ({VOLUME: TURNED}, {VOLUME: SPREAD_OUT}),
    ("figE7", "c2"): ({G: {"decay": -3, "wave": -0.6}}, {G: BLURRED | MIXED}),
    ("figE7", "c3"): ({VOLUME: {"ramp": 2}}, {VOLUME: MIXED}),
    ("figE8", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("figE8", "c2"): ({G: {"decay": -3, "wave": -0.6}}, {G: BLURRED | MIXED}),
    ("figE8", "c3"): ({S: {"wave": 0}}, {VOLUME: MIXED}),
}

# claim -> loadings on one factor of a table where it holds, where it fails, and is undecided
LOADINGS = {
    "c1": ({G: ONE, MLS: ONE}, {MLS: UP}, {G: UP, MLS: UP}),
    "c2": ({VOLUME: UP, S: UP, MLS: UP}, {VOLUME: UP, S: UP, MLS: DOWN}, {VOLUME: UP, S: UP}),
    "c3": ({S: UP, LOSS: UP}, {S: UP, LOSS: DOWN}, {S: UP}),
    "c4": ({MLS: UP, LOSS: UP}, {VOLUME: UP, DIMENSION: UP, LOSS: UP}, {MLS: UP, LOSS: WEAK}),
    "c5": (
        {C: UP, MLS: UP, D: DOWN, LOSS: UP},
        {C: UP, MLS: UP, D: DOWN, LOSS: DOWN},
        {C: UP, MLS: UP, D: DOWN, LOSS: NONE},
    ),
}
PAIR_PLOTS = [("figD5", "vgg-grid", key) for key in ("c1", "c2", "c3", "c4")]
PAIR_PLOTS += [("figD6", "mlp-grid", key) for key in LOADINGS]


@pytest.mark.parametrize(("figure", "key"), CURVES)
def test_a_claim_holds_fails_or_is_undecided_as_the_curves_say(figure: str, key: str) -> None:
    against, between = CURVES[figure, key]
    cases = ({}, against) if between is None else ({}, against, between)
    expected = ["holds", "fails", "undecided"][: len(cases)]
    assert outcomes(CLAIMS[figure][key], cases) == expected


@pytest.mark.parametrize(("figure", "grid", "key"), PAIR_PLOTS)
def test_a_claim_holds_fails_or_is_undecided_as_the_table_says(
    figure: str, grid: str, key: str
) -> None:
    claim = CLAIMS[figure][key]
    found = [claim.judge(Evidence({grid: table(**case)})).outcome for case in LOADINGS[key]]
    assert found == ["holds", "fails", "undecided"]


def test_every_claim_is_tested() -> None:
    tested = {*CURVES, *((figure, key) for figure, _, key in PAIR_PLOTS)}
    assert {(figure, key) for figure in CLAIMS for key in CLAIMS[figure]} == tested


def test_pair_plots_show_twenty_networks() -> None:
    claims = verify("chen2024_figD6", {"mlp-grid": table()})["claims"]
    assert {entry["n"] for claim in claims for entry in claim["evidence"]} == {20}


def test_the_root_of_g_is_reported_beside_g() -> None:
    claim = verify("chen2024_figD5", {"vgg-grid": table(**LOADINGS["c1"][0])})["claims"][0]
    _, root = claim["evidence"]
    assert root["claim"] == "reported, not judged"
    assert root["quantity"] == "rho(root_g, mls)"


def test_without_its_tables_no_claim_is_run() -> None:
    for figure in CLAIMS:
        for claim in verify(f"chen2024_{figure}", {})["claims"]:
            assert claim["verdict"] == "not run"
            assert "grid is not among the tables" in claim["reason"]
