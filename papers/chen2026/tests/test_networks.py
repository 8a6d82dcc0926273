"""Claims of chen2026 and chen2024 about correlations between networks, pretrained ones as well."""

import io

import numpy as np
import pandas as pd
import pytest

from flatlab.core.schema import OWN
from flatlab.lab import plan
from flatlab.lab.claims import verify
from flatlab.lab.figures.render import make
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.chen2024.claims import CLAIMS as OF_2024
from flatlab.papers.chen2026.claims import CLAIMS as OF_2026
from papers.chen2026.tests.cases import OF_PLOTS, OF_PREPRINT, PLOTS
from tests.synthetic.claim_tables import (
    BOUND,
    DIMENSION,
    DOWN,
    FAMILIES,
    GAP,
    GRIDS,
    KAPPA,
    MLS,
    NMLS,
    NONE,
    TEST_LOSS,
    UP,
    A,
    B,
    C,
    D,
    judged,
    networks,
    outcomes,
    zoo,
)

OF_ONE_GRID = [
    case if case[1] == "mlp-grid" else pytest.param(*case, marks=pytest.mark.long) for case in PLOTS
]
"""The figures of the other grids have the same claims."""


@pytest.mark.every(8)
@pytest.mark.parametrize(("figure", "grid", "key", "case"), OF_ONE_GRID)
def test_a_claim_holds_fails_or_is_undecided_as_the_networks_say(figure, grid, key, case):
    claims = OF_2026 if figure in OF_2026 else OF_2024
    found = outcomes(claims[figure][key], lambda loadings: [networks(grid, **loadings)], case)
    assert found == ["holds", "fails", "undecided"]


def test_every_claim_of_a_pair_plot_is_tested():
    """c16 is one about training curves, theorems are below; what the text states is elsewhere."""
    for figure in {figure for figure, *_ in PLOTS}:
        claims = OF_2026 if figure in OF_2026 else OF_2024
        keys = {key for name, _, key, _ in PLOTS if name == figure}
        apart = {f"c{number}" for number in range(16, 23)} | {"theorem", "inequalities"}
        assert {*claims[figure]} - apart == keys


UNLIKE = {MLS: UP, D: UP, KAPPA: UP, GAP: UP, TEST_LOSS: UP}
OF_ALL = {
    "c2": ({**UNLIKE, D: DOWN}, UNLIKE, {**UNLIKE, D: NONE}),
    "c13": ({MLS: UP, KAPPA: DOWN, D: DOWN}, UNLIKE, {**UNLIKE, KAPPA: NONE, D: DOWN}),
    **{
        f"c13-gap-{of}": ({**UNLIKE, gap: DOWN, D: DOWN}, UNLIKE, {**UNLIKE, gap: NONE, D: DOWN})
        for of, gap in (("losses", TEST_LOSS), ("accuracies", GAP))
    },
}


@pytest.mark.more
@pytest.mark.parametrize("key", OF_ALL)
def test_one_of_three_grids_is_enough_for_a_negative_correlation(key):
    """fig4 c2 and c13: none may be missing for it to fail."""
    claim = OF_2026["fig4"][key]
    for changed in GRIDS if key == "c2" else GRIDS[-1:]:
        cases = [
            [networks(grid, **(case if grid == changed else UNLIKE)) for grid in GRIDS]
            for case in OF_ALL[key]
        ]
        found = [judged(claim, *tables).outcome for tables in cases]
        assert found == ["holds", "fails", "undecided"]
    assert judged(claim, networks(**OF_ALL[key][0])).outcome == "holds"
    missing = judged(claim, networks(**UNLIKE))
    assert missing.outcome == "not run"
    assert missing.reason == "vgg-grid is not among the tables; lenet-grid is not among the tables"


def test_the_nmls_bound_must_follow_nmls_in_each_grid():
    """fig4 c1."""
    claim, (up, down, none) = OF_2026["fig4"]["c1"], OF_PLOTS["c1"]
    for grid in GRIDS:
        others = [networks(other, **up) for other in GRIDS if other != grid]
        found = outcomes(claim, lambda case: [*others, networks(grid, **case)], (up, down, none))  # noqa: B023
        assert found == ["holds", "fails", "undecided"]
    assert judged(claim, networks(**up)).outcome == "not run"
    assert judged(claim, networks(**down)).outcome == "fails"


def with_bounds(grid, *violated):
    """A table whose MLS and NMLS are within their bounds, but for MLS of these runs."""
    runs = networks(grid)
    runs[C], runs[D], runs[BOUND] = runs[B] + 1, runs[MLS] + 10, runs[NMLS] + 1
    runs[D][[*violated]] = 0.0
    return runs


def test_bounds_are_judged_for_perceptrons_and_counted_for_others():
    """fig4 c3, a theorem: it cannot be undecided."""
    claim = OF_2026["fig4"]["c3"]
    assert judged(claim, with_bounds("mlp-grid"), with_bounds("vgg-grid", 7)).outcome == "holds"
    assert judged(claim, with_bounds("mlp-grid", 7), with_bounds("vgg-grid")).outcome == "fails"
    assert judged(claim, with_bounds("vgg-grid")).outcome == "not run"
    others = with_bounds("vgg-grid", 7, 8).assign_attrs(evidence="stand-in", differs=["digits"])
    evidence = ResultTables({"mlp-grid": with_bounds("mlp-grid"), "vgg-grid": others})
    entry = claim.entry("id", evidence)
    assert (entry["kind"], entry["differs"]) == ("own", [])
    *of_perceptrons, mls, nmls = entry["evidence"]
    assert {entry["claim"] for entry in of_perceptrons} == {"for every value"}
    assert {mls["claim"], nmls["claim"]} == {"reported, not judged"}
    assert (mls["violations"], mls["of"], mls["n"], nmls["violations"]) == (2, 100, 100, 0)


def test_bounds_are_counted_with_each_norm_that_was_measured():
    runs = with_bounds("vgg-grid", 7)
    values = np.stack([np.full((100, 1, 1, 2), limit) for limit in (1e3, np.nan, 0.0)], axis=-2)
    runs = runs.assign_coords(norm=["kernel", "operator", "frobenius"], bound=["d", "nmls"])
    runs["bound_by_norm"] = (("run", "checkpoint", "samples", "norm", "bound"), values)
    evidence = judged(OF_2026["fig4"]["c3"], with_bounds("mlp-grid"), runs).evidence
    found = {entry["quantity"]: entry["violations"] for entry in evidence[2:]}
    assert found == {
        f"{name} <= {name} bound, {norm} norm; vgg-grid": count
        for name in ("MLS", "NMLS")
        for norm, count in (("kernel", 0), ("frobenius", 100))
    }


def test_the_theorem_holds_for_every_network_or_fails():
    claim, sound = OF_2026["figH8"]["theorem"], with_bounds("mlp-grid")
    assert judged(claim, sound).outcome == "holds"
    sound[C][7] = 1.5  # B is 2 there
    assert judged(claim, sound).outcome == "fails"
    assert judged(claim, sound.drop_vars(A)).reason == "mlp-grid has no bound_a"


def test_comparisons_are_of_the_runs_that_have_all_that_is_compared():
    """A run without a dimension is left out of all correlations of c5, and of no other claim."""
    runs = networks(**OF_PLOTS["c5"][0])
    runs[DIMENSION][3] = np.nan
    claims = verify("chen2026_figH8", {"mlp-grid": runs})["claims"]
    used = {c["id"].split("/")[1]: {entry["n"] for entry in c["evidence"]} for c in claims}
    assert used["c5"] == {99}
    assert used["c2"] == {100}


@pytest.mark.parametrize(
    ("figure", "key", "table", "reason"),
    [
        ("figH8", "c2", networks().drop_vars(MLS), "mlp-grid has no mls"),
        ("figH8", "c1", networks().assign({NMLS: 0 * networks()[NMLS]}), " is not defined"),
        ("fig5", "c1", zoo().isel(run=slice(56, 65)), "has 9 networks, a correlation needs 10"),
        (
            "fig5",
            "c3",
            zoo().sel(run=np.array(FAMILIES) != "fastvit"),
            "there is no fastvit among the networks",
        ),
    ],
)
def test_what_cannot_be_compared_is_not_run_and_says_why(figure, key, table, reason):
    verdict = judged(OF_2026[figure][key], table)
    assert verdict.outcome == "not run"
    assert reason in verdict.reason


def test_pair_plots_of_the_preprint_show_the_first_four_seeds():
    claims = verify("chen2024_figD6", {"mlp-grid": networks()})["claims"]
    assert {entry["n"] for claim in claims for entry in claim["evidence"]} == {20}


def test_the_root_of_g_is_reported_beside_g():
    verdict = judged(OF_2024["figD5"]["c1"], networks("vgg-grid", **OF_PREPRINT["c1"][0]))
    _, root = verdict.evidence
    assert root["claim"] == "reported, not judged"
    assert root["quantity"] == "rho(root_g, mls); vgg-grid"


NEAR = {"mobile": (1, 1), "fast": (1, 1)}
ZOO = OF_2026["fig5"]
CASES = {
    "c1": [NEAR, {**NEAR, "slope": -1}, {**NEAR, "slope": 0.02}],
    "c2": [{}, {"mobile": (30, 0.01)}],
    "c3": [{}, {"fast": (0.1, 30)}],
    "c4": [{}, {"plain": 0.8}, {"plain": 0.3}],
}
"""c2 and c3 are about all the networks that there are, and cannot be undecided."""


@pytest.mark.parametrize("key", ZOO)
def test_a_claim_about_pretrained_networks_holds_fails_or_is_undecided(key):
    found = outcomes(ZOO[key], lambda case: [zoo(**case)], tuple(CASES[key]))
    assert found == ["holds", "fails", "undecided"][: len(found)]


def test_of_other_networks_nothing_is_judged():
    assert {claim.admits for claim in ZOO.values()} == {(OWN,)}


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


def test_networks_that_were_dropped_or_failed_do_not_count():
    table = zoo()
    table["dropped"][3] = 1
    table["finite"][7] = 0
    table["finite"][9] = float("nan")
    assert {*table["run"].values} - {*Networks.of("vision-zoo", table).data["run"].values} == {
        f"network{number}" for number in (3, 7, 9)
    }
    table["adaptive_sharpness"][5] = -1.0  # has no logarithm
    assert judged(ZOO["c1"], table).evidence[0]["n"] == 96


def test_the_figure_says_what_it_shows_and_counts_what_it_lacks():
    table = zoo()
    table["dropped"][3] = 1
    table["adaptive_sharpness"][5] = -1.0  # has no logarithm
    settings = next(f.settings for f in plan.figures() if f.target == "chen2026_fig5")
    files = make(settings, {"vision-zoo": table})
    csv = files["csv"].decode()
    assert "network3," not in csv
    accuracies = pd.read_csv(io.StringIO(csv)).set_index("name")["sample_accuracy"]
    assert set(accuracies["network99"]) == {90.0}
    text = files["svg"].decode()
    assert "98 networks (2 left out)" in text
    assert "99 networks (1 left out)" in text
