"""Each claim of andriushchenko2023 on synthetic tables: one holds, fails, is undecided."""

import re

import pytest

from flatlab.core.schema import OWN, REDUCED
from flatlab.papers.andriushchenko2023._names import BERT, CLIP, VIT, VIT21K
from flatlab.papers.andriushchenko2023.claims import CLAIMS
from papers.andriushchenko2023.tests.tables import claim_of, diagonal, linear, recipes, verdict, zoo

FEW = {"runs": 40, "noise": 1.0}
SMALL = tuple({"slope": slope, **few} for slope, few in ((-1.0, {}), (1.0, {}), (0.25, FEW)))
GAPS = ({}, {"train": (8.0, 0.0), "slope": 1.0}, {"train": (0.0, 4.0), **FEW, "slope": 1.0})
FALLS = ({"slope": -1.0}, {"slope": 1.0}, FEW)
OF_MAKERS = {
    linear: {
        "fig1/c1": ({}, {"error": 2.0}, None),
        "fig1/c2": ({}, {"floor": 0.3}, {"floor": 0.12, "last": 3}),
        "fig1/c3": ({}, {"tail": 0.5}, {"tail": 0.5, "last": 1}),
        "fig1/c4": ({}, {"normalized": 0.1}, None),
        "fig1/c5": ({}, {"rise": 0.5}, {"rise": 0.9, "last": 3}),
    },
    diagonal: {
        "fig7/c1": ({}, {"error": 0.3}, {"runs": 26, "error": 0.1}),
        "fig7/c2": ({}, {"rescaled": 2, "plain": 0.5}, {"runs": 27, "rescaled": 1, "plain": 1}),
        "fig7/c3": ({}, {"eigenvalue": 2}, {"eigenvalue": 0}),
        "fig7/c4": ({}, {"rescaled": 3}, {"runs": 27, "rescaled": 0.5}),
    },
    recipes: {
        "fig5/c1": ({"between": 1.2}, {"own": 0}, {"own": 0.4, "each": 27}),
        "fig5/c2": ({"plain": -1, "noise": 0.1}, {"own": -1, "between": 2}, {"own": 0, "each": 27}),
        "fig5/c3": ({"own": -1}, {}, {"own": -0.05, "between": 0.1, "each": 27}),
        **dict.fromkeys(
            ("fig5/c5", "fig5/c5-within"),
            ({"own": -1}, {"best": True, "noise": 0}, {"own": -1, "each": 1}),
        ),
        "fig5/c6": ({"outside": 0}, {"own": 0, "outside": 3}, {"own": 0, "outside": 0, "each": 7}),
        "fig5/c7": ({"own": 0}, {"between": -1}, {"outside": 0.7, "each": 7}),
        "fig5/c8": ({"own": -1}, {"between": -1}, {"own": 0.1, "noise": 1.0, "each": 15}),
        "fig5/c6-within": ({"outside": 0}, {"own": 0, "outside": 3}, {"outside": 0, "each": 7}),
        "fig5/c7-within": ({"own": 0}, {"between": 1.2}, {"own": 0.4, "each": 27}),
        "fig5/c8-within": ({"own": -1}, {"each": 60}, {"own": -1, "each": 20}),
        "fig6/c1": ({}, {"rate": 1}, {"rate": 0, "each": 7}),
        "fig6/c2": ({"shift": 1}, {"rate": 1, "shift": -1}, {"rate": -0.1, "noise": 1, "each": 27}),
    },
    zoo: {
        "fig2/c1": ({}, {"slope": 1.0}, {**FEW, "slope": 0.15}),
        "fig2/c3": ({"apart": 5.0}, {"noise": 1.0}, {"apart": 1.0, "runs": 40}),
        "fig2/c4": ({"decay": 3.0}, {"decay": -3.0}, {"runs": 40}),
        "fig2/c5": ({"slope": -1.0}, {"slope": 1.0}, {"noise": 1.0}),
        "fig3/c1": ({}, {"slope": 1.0}, {**FEW, "slope": 0.25}),
        "fig3/c3": ({"rate": 1.0}, {"rate": -1.0}, {"runs": 40}),
        "fig4/c3": ({}, {"spans": (30.0, 1.0)}, {"spans": (50.0, 3.0)}),
        **{f"fig{figure}": FALLS for figure in ("2/c2", "3/c2", "4/c1", "4/c2")},
        **{f"fig{number}/c1": GAPS for number in (8, 9)},
        **{f"fig{number}/c1": SMALL for number in (10, 11, 13, 14, 15)},
        "fig12/c1": ({"slope": 1.0}, {"slope": -1.0}, {**FEW, "slope": 0.4}),
    },
}
CASES = {name: (make, *cases) for make, each in OF_MAKERS.items() for name, cases in each.items()}
"""What makes tables in which a claim holds, fails and is undecided."""

NEVER = {
    **{"fig1/c1": "", "fig1/c4": "", "fig4/c3": "fails"},
    **dict.fromkeys(("fig5/c5", *(f"fig5/c{n}-within" for n in (5, 6, 8))), "not run"),
}
"""What a claim is instead of undecided: a fact about all networks, or about too few."""

ZOOS = {"fig3": CLIP, "fig4": BERT, "fig9": CLIP, "fig14": VIT21K, "fig15": VIT21K}
NAMES = [f"{figure}/{key}" for figure, claims in CLAIMS.items() for key in claims]
OF_ZOOS = [name for name in CASES if CASES[name][0] is zoo]


def case_of(name):
    """Variants of a claim have the same cases."""
    return re.sub("-(vit|unaugmented|printed)$", "", name)


def outcome(name, **case):
    make = CASES[case_of(name)][0]
    of_zoo = {"key": ZOOS.get(name.split("/")[0], VIT)} if make is zoo else {}
    return verdict(name, make(**of_zoo, **case)).outcome


def test_every_claim_is_asked():
    apart = {"fig5/c4", "table1/c1", "table2/c1"}
    apart |= {f"table{number}/{key}" for number in (3, 4) for key in ("c1", "c2")}
    assert {case_of(name) for name in NAMES} == {*CASES} | apart


@pytest.mark.every(8)
@pytest.mark.parametrize("name", [name for name in NAMES if case_of(name) in CASES])
def test_a_claim_holds_fails_or_is_undecided_as_the_networks_say(name):
    _, *cases = CASES[case_of(name)]
    expected = ["holds", "fails", NEVER.get(case_of(name), "undecided")]
    for case, said in zip(cases, expected, strict=True):
        if case is not None:
            assert outcome(name, **case) == said, said


def test_what_is_released_or_printed_is_not_compared_with_other_networks_or_data():
    own, no_stand_in = (
        {name for name in NAMES if claim_of(name).admits == kinds}
        for kinds in ((OWN,), (OWN, REDUCED))
    )
    assert own == {*OF_ZOOS, "table1/c1", "table2/c1"}
    assert no_stand_in == {"fig7/c4", "fig7/c4-printed", "table3/c1", "table4/c1"}


# Figure 1: linear classifiers


def test_the_values_of_the_notebook_stand_beside_ours():
    table = linear()
    entries = verdict("fig1/c2", table).evidence
    told = [entry for entry in entries if "notebook" in entry["quantity"]]
    assert [entry["quantity"].split("notebook: ")[1] for entry in told] == ["0.1379", "0.0208"]
    curve = table["scaled_worst_sharpness"].sel(neighbourhood="ball", logits="plain", radius="0.5")
    expected = curve.isel(run=0, checkpoint=-1, samples=0, factor=[10, 15]).values
    assert [entry["value"] for entry in told] == pytest.approx(expected.tolist())
