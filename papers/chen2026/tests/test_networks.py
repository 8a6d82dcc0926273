"""Claims about correlations between networks: tables that agree, contradict, and leave it open."""

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.claims import ResultTables, verify
from flatlab.papers.chen2024.claims import CLAIMS as OF_2024
from flatlab.papers.chen2026.claims import CLAIMS as OF_2026
from papers.chen2026.tests.correlations import CASES, OF_PREPRINT, PLOTS, Loadings
from tests.synthetic.claim_tables import (
    BOUND,
    DIMENSION,
    DOWN,
    GAP,
    GRIDS,
    KAPPA,
    MLS,
    NMLS,
    NONE,
    UP,
    A,
    B,
    C,
    D,
    judged,
    networks,
    outcomes,
)


@pytest.mark.parametrize(("figure", "grid", "key"), PLOTS)
def test_a_claim_holds_fails_or_is_undecided_as_the_networks_say(
    figure: str, grid: str, key: str
) -> None:
    year, name = figure.split("_")
    claims, cases = (OF_2026, CASES) if year == "2026" else (OF_2024, OF_PREPRINT)
    found = outcomes(claims[name][key], lambda case: [networks(grid, **case)], cases[key])
    assert found == ["holds", "fails", "undecided"]


def test_every_claim_of_a_pair_plot_is_tested() -> None:
    """c16 is one about training curves, the theorem is below."""
    for year, of_paper in (("2026", OF_2026), ("2024", OF_2024)):
        for name in {figure.split("_")[1] for figure, _, _ in PLOTS if figure.startswith(year)}:
            keys = {key for figure, _, key in PLOTS if figure == f"{year}_{name}"}
            assert {*of_paper[name]} - {"c16", "theorem"} == keys


UNLIKE = {MLS: UP, D: UP, KAPPA: UP, GAP: UP}
OF_ALL: dict[str, tuple[Loadings, Loadings, Loadings]] = {
    "c2": ({**UNLIKE, D: DOWN}, UNLIKE, {**UNLIKE, D: NONE}),
    "c13": ({**UNLIKE, GAP: DOWN}, UNLIKE, {**UNLIKE, GAP: NONE}),
}


@pytest.mark.parametrize("key", OF_ALL)
def test_one_of_three_grids_is_enough_for_a_negative_correlation(key: str) -> None:
    """fig4 c2 and c13: none may be missing for it to fail."""
    claim = OF_2026["fig4"][key]
    for changed in GRIDS:
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


def test_the_nmls_bound_must_follow_nmls_in_each_grid() -> None:
    """fig4 c1."""
    claim, (up, down, none) = OF_2026["fig4"]["c1"], CASES["c1"]
    for grid in GRIDS:
        others = [networks(other, **up) for other in GRIDS if other != grid]
        found = outcomes(claim, lambda case: [*others, networks(grid, **case)], (up, down, none))  # noqa: B023
        assert found == ["holds", "fails", "undecided"]
    assert judged(claim, networks(**up)).outcome == "not run"
    assert judged(claim, networks(**down)).outcome == "fails"


def with_bounds(grid: str, *violated: int) -> xr.Dataset:
    """A table whose MLS and NMLS are within their bounds, but for MLS of these runs."""
    runs = networks(grid)
    runs[C], runs[D], runs[BOUND] = runs[B] + 1, runs[MLS] + 10, runs[NMLS] + 1
    runs[D][[*violated]] = 0.0
    return runs


def test_bounds_are_judged_for_perceptrons_and_counted_for_others() -> None:
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


def test_bounds_are_counted_with_each_norm_that_was_measured() -> None:
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


def test_the_theorem_holds_for_every_network_or_fails() -> None:
    claim, sound = OF_2026["figH8"]["theorem"], with_bounds("mlp-grid")
    assert judged(claim, sound).outcome == "holds"
    sound[C][7] = 1.5  # B is 2 there
    assert judged(claim, sound).outcome == "fails"
    assert judged(claim, sound.drop_vars(A)).reason == "mlp-grid has no bound_a"


def test_comparisons_are_of_the_runs_that_have_all_that_is_compared() -> None:
    """A run without a dimension is left out of all correlations of c5, and of no other claim."""
    runs = networks(**CASES["c5"][0])
    runs[DIMENSION][3] = np.nan
    claims = verify("chen2026_figH8", {"mlp-grid": runs})["claims"]
    used = {c["id"].split("/")[1]: {entry["n"] for entry in c["evidence"]} for c in claims}
    assert used["c5"] == {99}
    assert used["c2"] == {100}


def test_without_a_quantity_a_correlation_is_not_run() -> None:
    verdict = judged(OF_2026["figH8"]["c2"], networks().drop_vars(MLS))
    assert (verdict.outcome, verdict.reason) == ("not run", "mlp-grid has no mls")


def test_a_correlation_that_is_not_defined_is_not_run() -> None:
    flat = networks()
    flat[NMLS] = flat[NMLS] * 0
    verdict = judged(OF_2026["figH8"]["c1"], flat)
    assert (verdict.outcome, "is not defined" in verdict.reason) == ("not run", True)


def test_pair_plots_of_the_preprint_show_the_first_four_seeds() -> None:
    claims = verify("chen2024_figD6", {"mlp-grid": networks()})["claims"]
    assert {entry["n"] for claim in claims for entry in claim["evidence"]} == {20}


def test_the_root_of_g_is_reported_beside_g() -> None:
    verdict = judged(OF_2024["figD5"]["c1"], networks("vgg-grid", **OF_PREPRINT["c1"][0]))
    _, root = verdict.evidence
    assert root["claim"] == "reported, not judged"
    assert root["quantity"] == "rho(root_g, mls); vgg-grid"
