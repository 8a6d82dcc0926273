"""The registry of a paper's claims: keys, variants, repetitions."""

import pytest

from flatlab.lab.claims import REDUCED, Claims
from flatlab.stats import not_run


def judge(tables):
    return not_run("no tables")


@pytest.fixture
def claims():
    made = Claims("doe2027")
    for text in ("a", "b"):
        made("fig1", text, "Sec. 1", "quote", threshold=0.3)(judge)
    return made


def test_claims_are_numbered_in_order_unless_a_key_is_given(claims):
    claims("fig1", "c", "Sec. 1", "quote", key="theorem")(judge)
    claims("fig1", "d", "Sec. 1", "quote")(judge)
    assert {key: claim.text for key, claim in claims["fig1"].items()} == {
        **{"c1": "a", "c2": "b"},
        **{"theorem": "c", "c3": "d"},
    }
    assert claims["fig1"]["c1"].threshold == 0.3


def test_a_predicate_remains_itself_so_that_several_figures_can_have_it(claims):
    @claims("fig2", "x", "Sec. 2", "quote")
    @claims("fig3", "y", "Sec. 3", "quote")
    def predicate(tables):
        return judge(tables)

    assert claims["fig2"]["c1"].predicate is claims["fig3"]["c1"].predicate is predicate


def test_a_variant_repeats_the_claim_of_the_same_number(claims):
    for text in ("a'", "b'"):
        claims("fig1", text, "Sec. 1", "quote", variant="-code")(judge)
    assert [*claims["fig1"]] == ["c1", "c2", "c1-code", "c2-code"]
    assert claims["fig1"]["c2-code"].repeats == "doe2027_fig1/c2"


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
    claims("fig4", "z", "Sec. 4", "quote", repeats="smith2026_fig1/c3")(judge)
    assert claims["fig4"]["c1"].repeats == "smith2026_fig1/c3"
