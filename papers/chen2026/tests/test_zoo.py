"""The claims of chen2026 Figure 5 on synthetic tables: one that holds, fails, is undecided."""

import io

import pandas as pd
import pytest

from flatlab.lab import plan
from flatlab.lab.figures import make
from flatlab.lab.tables.zoo import kept
from flatlab.papers.chen2026.claims import CLAIMS
from tests.synthetic.claim_tables import FAMILIES, judged, outcomes, zoo

NEAR = {"mobile": (1, 1), "fast": (1, 1)}
ZOO = CLAIMS["fig5"]
CASES: dict[str, list[dict]] = {
    "c1": [NEAR, {**NEAR, "slope": -1}, {**NEAR, "slope": 0.02}],
    "c2": [{}, {"mobile": (30, 0.01)}],
    "c3": [{}, {"fast": (0.1, 30)}],
    "c4": [{}, {"plain": 0.8}, {"plain": 0.3}],
}
"""c2 and c3 are about all the networks that there are, and cannot be undecided."""


@pytest.mark.parametrize("key", ZOO)
def test_a_claim_holds_fails_or_is_undecided_as_the_networks_say(key):
    found = outcomes(ZOO[key], lambda case: [zoo(**case)], tuple(CASES[key]))
    assert found == ["holds", "fails", "undecided"][: len(found)]


@pytest.mark.parametrize("key", ZOO)
@pytest.mark.parametrize("kind", ["reduced", "stand-in"])
def test_of_other_networks_nothing_is_judged_and_all_is_told(key, kind):
    table, own = zoo(), judged(ZOO[key], zoo())
    table.attrs["evidence"] = kind
    verdict = judged(ZOO[key], table)
    assert verdict.outcome == "not run"
    assert verdict.reason == f"the evidence is {kind}, and this claim admits own alone"
    assert {entry["claim"] for entry in verdict.evidence} == {"reported, not judged"}
    values = [[entry["value"] for entry in found.evidence] for found in (verdict, own)]
    assert values[0] == values[1]


def test_families_are_the_units_that_vary():
    """Networks that are counted three times say no more, and three families say less."""
    once, thrice = zoo(**NEAR), zoo(**NEAR)
    thrice = thrice.isel(run=[*range(len(FAMILIES))] * 3)
    (one,), (many,) = (judged(ZOO["c1"], table).evidence for table in (once, thrice))
    assert many["n"] == 3 * one["n"] == 300
    assert [many[end] for end in ("low", "high")] == pytest.approx([one["low"], one["high"]])
    few = once.sel(run=[family in ("vit", "mobilevit", "fastvit") for family in FAMILIES])
    (entry,) = judged(ZOO["c1"], few).evidence
    assert entry["high"] - entry["low"] > 1.5 * (one["high"] - one["low"])


def test_a_family_that_is_missing_is_not_judged():
    table = zoo().sel(run=[family != "fastvit" for family in FAMILIES])
    verdict = judged(ZOO["c3"], table)
    assert (verdict.outcome, verdict.reason) == (
        "not run",
        "there is no fastvit among the networks",
    )


def test_nine_networks_are_too_few():
    verdict = judged(ZOO["c1"], zoo().isel(run=slice(56, 65)))
    assert verdict.outcome == "not run"
    assert verdict.reason == "vision-zoo has 9 networks, a correlation needs 10"


def test_networks_that_were_dropped_or_failed_do_not_count():
    table = zoo()
    table["dropped"][3] = 1
    table["finite"][7] = 0
    table["finite"][9] = float("nan")
    assert {*table["run"].values} - {*kept(table)["run"].values} == {
        f"network{number}" for number in (3, 7, 9)
    }
    table["adaptive_sharpness"][5] = -1.0  # has no logarithm
    assert judged(ZOO["c1"], table).evidence[0]["n"] == 96


def test_the_figure_says_what_it_shows_and_counts_what_it_lacks():
    table = zoo()
    table["dropped"][3] = 1
    table["adaptive_sharpness"][5] = -1.0  # has no logarithm
    settings = next(f.settings for f in plan.figures() if f.target == "chen2026_fig5")
    files = make(settings, {"vision-zoo": table}, {})
    csv = files["csv"].decode()
    assert "network3," not in csv
    accuracies = pd.read_csv(io.StringIO(csv)).set_index("name")["sample_accuracy"]
    assert set(accuracies["network99"]) == {90.0}
    text = files["svg"].decode()
    assert "98 networks, 2 left out" in text
    assert "99 networks, 1 left out" in text
