"""The algebra of verdicts, what a file of verdicts says, and the registry of a paper's claims."""

import itertools

import pytest

from flatlab.core.schema import REDUCED
from flatlab.lab.claims import Claim, Claims, Reading, verify
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026.claims import CLAIMS
from flatlab.stats import Verdict, at_least, every, not_run, some
from tests.synthetic.claim_tables import (
    BOUND,
    DOWN,
    GAP,
    GRIDS,
    KAPPA,
    MLS,
    NMLS,
    UP,
    judged,
    networks,
)

HOLDS, FAILS = Verdict("holds"), Verdict("fails")
UNDECIDED, ABSENT = Verdict("undecided"), not_run("no table")


ALL, ONE = (HOLDS, UNDECIDED, ABSENT, FAILS), (FAILS, UNDECIDED, ABSENT, HOLDS)
"""For all of some parts, and for one of them, the last in the order decides."""


@pytest.mark.parametrize(("a", "b"), [*itertools.product(ALL, repeat=2)])
def test_verdicts_combine(a, b):
    assert (a & b).outcome == max(a, b, key=ALL.index).outcome
    assert (a | b).outcome == max(a, b, key=ONE.index).outcome
    assert (a & b).p is None  # nothing was tested


def test_several_of_many_are_between_all_and_one():
    """Benjamini and Heller: (k - count + 1) p_(count), on both sides."""
    parts = [Verdict.tested(p, 1 - p, []) for p in (0.001, 0.004, 0.3, 0.995)]
    assert at_least(2, parts).holds == pytest.approx(3 * 0.004)
    assert at_least(2, parts).outcome == "holds"
    assert at_least(3, parts).outcome == "undecided"
    assert at_least(4, parts).fails == pytest.approx(4 * 0.005)
    assert at_least(4, parts).outcome == every(parts).outcome == "fails"
    assert at_least(1, parts).holds == some(parts).holds
    assert at_least(1, parts).fails == some(parts).fails
    assert at_least(2, [*parts, not_run("no table")]).outcome == "holds"
    assert at_least(3, [*parts, not_run("no table")]).outcome == "not run"


def test_a_file_of_verdicts_says_what_the_claim_is_and_what_was_found():
    table = networks(**{NMLS: UP, BOUND: UP})
    table.attrs |= {"evidence": "reduced", "differs": ["25 of 100 networks"]}
    result = verify("chen2026_figH8", {"mlp-grid": table})
    claim = result["claims"][0]
    (entry,) = claim.pop("evidence")
    assert claim.pop("p") < 1e-6
    assert claim == {
        "id": "chen2026_figH8/c1",
        "text": "rho(NMLS, NMLS bound) > 0",
        "quote": CLAIMS["figH8"]["c1"].quote,
        "source": "App. H.2, 4",
        "nature": "finding",
        "repeats": "",
        "kind": "reduced",
        "differs": ["mlp-grid: 25 of 100 networks"],
        "verdict": "holds",
        "reason": "",
        "thresholds": [],
        "readings": {"settings": "five"},
    }
    assert (entry["quantity"], entry["claim"]) == ("rho(nmls, nmls_bound); mlp-grid", "> 0")
    assert entry["low"] < entry["value"] < entry["high"]
    assert result["tables"]["mlp-grid"]["runs"] == 100


def test_verdicts_are_given_at_half_and_at_twice_a_threshold_that_is_ours():
    table = networks(**{KAPPA: UP, GAP: 0.4 / UP})
    weak, two_sided, well = (
        CLAIMS["figH8"][key].entry("id", ResultTables({"mlp-grid": table}))
        for key in ("c9-accuracies", "c14-gap-accuracies", "c15")
    )
    for entry in (weak, two_sided):  # rho is 0.4, the threshold 0.3
        assert entry["verdict"] == "undecided"
        assert entry["thresholds"] == [
            {"threshold": 0.15, "verdict": "fails"},
            {"threshold": 0.6, "verdict": "holds"},
        ]
    # how far from 1 a correlation may be, of quantities that are not correlated with sharpness
    assert [found["threshold"] for found in well["thresholds"]] == [0.25, 1]
    assert well["thresholds"][0]["verdict"] == "fails"


def test_the_worst_kind_of_the_tables_that_were_used_is_named():
    tables = {grid: networks(grid, **{NMLS: UP, BOUND: UP}) for grid in GRIDS}
    tables["vgg-grid"].attrs |= {"evidence": "stand-in", "differs": ["digits", "narrower"]}
    tables["lenet-grid"].attrs |= {"evidence": "reduced", "differs": ["30 networks"]}
    evidence = ResultTables(tables)
    for figure, kind, differs in (
        ("fig4", "stand-in", ["lenet-grid: 30 networks", "vgg-grid: digits", "vgg-grid: narrower"]),
        ("figH9", "reduced", ["lenet-grid: 30 networks"]),
        ("figH8", "own", []),
        ("figH9", "reduced", ["lenet-grid: 30 networks"]),  # its correlations are known already
    ):
        entry = CLAIMS[figure]["c1"].entry("id", evidence)
        assert (entry["verdict"], entry["kind"], entry["differs"]) == ("holds", kind, differs)
    assert CLAIMS["figH7"]["c1"].entry("id", ResultTables({}))["kind"] == ""


def test_a_claim_that_admits_other_evidence_is_not_run_and_its_numbers_are_reported():
    table = networks(**{MLS: UP, NMLS: DOWN})
    table.attrs["evidence"] = "reduced"
    claim = Claim("text", "Sec. 1", lambda e: e["mlp-grid"].rho(MLS, NMLS) > 0, "quote")
    assert judged(claim, table).outcome == "fails"
    strict = Claim(claim.text, "Sec. 1", claim.predicate, "quote", admits=("own", "stand-in"))
    verdict = judged(strict, table)
    assert (verdict.outcome, verdict.p) == ("not run", None)
    expected = "the evidence is reduced, and this claim admits own and stand-in alone"
    assert verdict.reason == expected
    assert [entry["claim"] for entry in verdict.evidence] == ["reported, not judged"]
    assert verdict.evidence[0]["value"] < -0.8
    table.attrs["evidence"] = "own"
    assert judged(strict, table).outcome == "fails"


def test_many_reasons_are_counted_and_each_is_told_once():
    assert some([not_run("a"), not_run("b"), not_run("a"), UNDECIDED]).reason == "a; b"
    parts = [not_run(f"no table {number}") for number in range(5)]
    nested = every([every(parts[:4]), every(parts[2:])])
    assert nested.reasons == tuple(f"no table {number}" for number in range(5))
    assert nested.reason == "no table 0; no table 1; no table 2; and 2 more"
    assert every(parts[:3]).reason == "no table 0; no table 1; no table 2"
    condition = every(parts)
    assert HOLDS.provided(condition, "since").reason == "since; no table 0; no table 1; and 3 more"


def nothing(tables):
    return not_run("no tables")


@pytest.fixture
def claims():
    made = Claims("doe2027")
    for text in ("a", "b"):
        made("fig1", text, "Sec. 1", "quote", threshold=0.3)(nothing)
    return made


def test_claims_are_numbered_in_order_unless_a_key_is_given_and_a_variant_as_its_claim(claims):
    claims("fig1", "c", "Sec. 1", "quote", key="theorem")(nothing)
    for text in ("a'", "b'"):
        claims("fig1", text, "Sec. 1", "quote", variant="-code")(nothing)
    claims("fig1", "d", "Sec. 1", "quote")(nothing)
    found = {key: claim.text for key, claim in claims["fig1"].items()}
    named = ("c1", "c2", "theorem", "c1-code", "c2-code", "c3")
    assert found == dict(zip(named, ("a", "b", "c", "a'", "b'", "d"), strict=True))
    assert claims["fig1"]["c1"].threshold == 0.3
    assert claims["fig1"]["c2-code"].repeats == "doe2027_fig1/c2"


def test_a_predicate_remains_itself_so_that_several_figures_can_have_it(claims):
    @claims("fig2", "x", "Sec. 2", "quote")
    @claims("fig3", "y", "Sec. 3", "quote")
    def predicate(tables):
        return nothing(tables)

    assert claims["fig2"]["c1"].predicate is claims["fig3"]["c1"].predicate is predicate


def test_a_figure_repeats_claims_of_another(claims):
    claims.repeat("fig2", of="fig1")
    assert {key: (c.text, c.repeats) for key, c in claims["fig2"].items()} == {
        "c1": ("a", "doe2027_fig1/c1"),
        "c2": ("b", "doe2027_fig1/c2"),
    }
    claims.repeat("fig3", "fig1", "c2", source="App. B", admits=(REDUCED,))
    assert [*claims["fig3"]] == ["c1"]
    repeated = claims["fig3"]["c1"]
    assert (repeated.repeats, repeated.source) == ("doe2027_fig1/c2", "App. B")
    assert repeated.admits == (REDUCED,)
    claims("fig4", "z", "Sec. 4", "quote", repeats="smith2026_fig1/c3")(nothing)
    assert claims["fig4"]["c1"].repeats == "smith2026_fig1/c3"


def test_a_claim_is_judged_under_each_reading_that_it_names():
    gap, time = (
        Reading(main, (other,), "", "", "") for main, other in (("a", "b"), ("all", "end"))
    )
    claims = Claims("smith2030", {"gap": gap, "time": time})
    seen = []

    @claims("fig1", "they rise", "Sec. 1", "They rise.", under=("gap", "time"), threshold=0.5)
    def rises(e, limit, gap, time):
        seen.append((gap, time, limit))
        return HOLDS

    assert [*claims["fig1"]] == ["c1", "c1-end", "c1-b", "c1-b-end"]
    assert {claim.repeats for claim in claims["fig1"].values()} == {"", "smith2030_fig1/c1"}
    assert claims["fig1"]["c1-b"].text == "they rise (gap: b; time: all)"
    entry = claims["fig1"]["c1-b"].entry("smith2030_fig1/c1-b", ResultTables({}))
    assert entry["readings"] == {"gap": "b", "time": "all"}
    assert seen == [("b", "all", limit) for limit in (0.5, 0.25, 1.0)]
    claims.repeat("fig2", "fig1", "c1")
    assert [*claims["fig2"]] == [*claims["fig1"]]
    assert claims["fig2"]["c1"].repeats == claims["fig2"]["c1-b"].repeats == "smith2030_fig1/c1"


def test_a_file_of_verdicts_says_what_its_readings_are():
    told = verify("chen2026_figH8", {"mlp-grid": networks(seeds=2)})["readings"]
    assert {*told} == {"compared", "gap", "settings", "volume"}
    assert told["gap"]["main"] == "losses"
    assert "readings" not in verify("macdonald2023_fig1", {})
