"""Every claim on synthetic tables: one where it holds, one where it fails, one undecided."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import Evidence, verify
from flatlab.papers.chen2026.claims import CLAIMS
from flatlab.stats import Verdict, not_run, theorem

S, MLS, NMLS, VOLUME = "root_sharpness", "mls", "nmls", "log_volume"
DIMENSION, GAP, KAPPA = "local_dimension", "generalization_gap", "relative_flatness"
D, BOUND, C, G, LOSS = "bound_d", "nmls_bound", "bound_c", "g", "test_loss"
QUANTITIES = (S, MLS, NMLS, VOLUME, DIMENSION, GAP, KAPPA, D, BOUND, C, G, LOSS)
UP, DOWN, WEAK, NONE = 0.95, -0.95, 0.35, 0.0


def table(**loadings: float) -> xr.Dataset:
    """100 runs in five settings; each quantity correlates with one factor as its loading says."""
    generator = np.random.default_rng(2)
    shape = ("run", "checkpoint", "samples")

    def noise() -> np.ndarray:
        values = generator.normal(size=100)
        return (values - values.mean()) / values.std()

    factor = noise()
    variables = {}
    for name in QUANTITIES:
        own = noise()
        own -= factor * (own @ factor) / 100  # a loading of zero is a correlation of zero
        loading = loadings.get(name, NONE)
        values = loading * factor + np.sqrt(1 - loading**2) * own
        variables[name] = (shape, 10 + values[:, None, None])
    variables[KAPPA] = (
        (*shape, "layer"),
        np.stack([variables[GAP][1] * 0, variables[KAPPA][1]], -1),
    )
    for letter, value in zip("ab", (1.0, 2.0), strict=True):
        variables[f"bound_{letter}"] = (shape, np.full((100, 1, 1), value))
    coordinates = {
        "run": [f"r{n}" for n in range(100)],
        "setting": ("run", np.repeat(list("abcde"), 20)),
        "seed": ("run", np.tile(np.arange(20), 5)),
        "diverged": ("run", np.zeros(100, dtype=bool)),
        "samples": ["train"],
    }
    return xr.Dataset(variables, coords=coordinates, attrs={"scale": "demo"})


# key -> loadings of a table where the claim holds, where it fails, and where it is undecided
CASES = {
    "c1": ({NMLS: UP, BOUND: UP}, {NMLS: UP, BOUND: DOWN}, {NMLS: UP}),
    "c2": (
        {S: UP, MLS: UP, NMLS: UP, VOLUME: UP},
        {S: UP, MLS: UP, NMLS: DOWN, VOLUME: UP},
        {S: UP, MLS: UP, VOLUME: UP},
    ),
    "c3": ({VOLUME: UP, MLS: UP}, {VOLUME: UP, MLS: DOWN}, {VOLUME: UP}),
    "c4": ({S: UP, MLS: UP}, {S: UP, VOLUME: UP}, {S: UP, MLS: UP, VOLUME: UP}),
    "c5": (
        {S: UP, MLS: UP, VOLUME: UP},
        {S: UP, DIMENSION: DOWN, VOLUME: UP},
        {S: UP, MLS: UP, VOLUME: UP, DIMENSION: UP},
    ),
    "c6": ({S: UP, GAP: UP}, {S: UP, GAP: DOWN}, {S: UP}),
    "c7": (
        {GAP: UP, BOUND: UP, MLS: UP, NMLS: UP},
        {GAP: UP, BOUND: UP, MLS: DOWN, NMLS: UP},
        {GAP: UP, BOUND: UP, NMLS: UP},
    ),
    "c8": (
        {S: UP, MLS: UP, NMLS: UP, VOLUME: UP},
        {S: UP, MLS: UP, NMLS: WEAK, VOLUME: UP, GAP: UP},
        {S: UP, MLS: UP, NMLS: UP, VOLUME: UP, GAP: UP},
    ),
    "c9": ({KAPPA: UP, GAP: DOWN}, {KAPPA: UP, GAP: UP}, {KAPPA: UP, GAP: 0.3 / UP}),
    "c10": ({MLS: UP, D: DOWN}, {MLS: UP, D: UP}, {MLS: UP}),
    "c11": ({MLS: UP, C: UP}, {MLS: UP, C: DOWN}, {MLS: UP}),
    "c12": ({S: UP, MLS: UP}, {S: UP, MLS: DOWN}, {S: UP}),
}


def outcome(key: str, figure: str = "figH8", **tables: xr.Dataset) -> str:
    grids = {name.replace("_", "-"): value for name, value in tables.items()}
    return CLAIMS[figure][key].judge(Evidence(grids)).outcome


@pytest.mark.parametrize("key", CASES)
def test_a_claim_holds_fails_or_is_undecided_as_the_table_says(key: str) -> None:
    outcomes = [outcome(key, mlp_grid=table(**loadings)) for loadings in CASES[key]]
    assert outcomes == ["holds", "fails", "undecided"]


PAIR_PLOT = [f"c{number}" for number in range(1, 10)]


@pytest.mark.parametrize(("figure", "grid"), [("figH7", "vgg_grid"), ("figH9", "lenet_grid")])
@pytest.mark.parametrize("key", PAIR_PLOT)
def test_the_other_pair_plots_are_judged_by_their_own_grids(
    figure: str, grid: str, key: str
) -> None:
    found = [outcome(key, figure, **{grid: table(**loadings)}) for loadings in CASES[key]]
    assert found == ["holds", "fails", "undecided"]
    assert [*CLAIMS[figure]] == PAIR_PLOT


def three(**loadings: float) -> dict[str, xr.Dataset]:
    return dict.fromkeys(("mlp_grid", "vgg_grid", "lenet_grid"), table(**loadings))


def test_the_nmls_bound_must_follow_nmls_in_each_grid() -> None:
    """fig4 c1."""
    up, down, none = (table(**loadings) for loadings in CASES["c1"])
    grids = three(**CASES["c1"][0])
    assert outcome("c1", "fig4", **grids) == "holds"
    assert outcome("c1", "fig4", **{**grids, "lenet_grid": down}) == "fails"
    assert outcome("c1", "fig4", **{**grids, "vgg_grid": none}) == "undecided"
    assert outcome("c1", "fig4", mlp_grid=up) == "not run"
    assert outcome("c1", "fig4", mlp_grid=down) == "fails"


def test_the_mls_bound_must_be_negative_in_one_grid() -> None:
    """fig4 c2."""
    down, up, none = (table(**loadings) for loadings in CASES["c10"])
    grids = three(**CASES["c10"][1])
    assert outcome("c2", "fig4", **{**grids, "mlp_grid": down}) == "holds"
    assert outcome("c2", "fig4", **grids) == "fails"
    assert outcome("c2", "fig4", **{**grids, "mlp_grid": none}) == "undecided"
    assert outcome("c2", "fig4", mlp_grid=up) == "not run"
    assert outcome("c2", "fig4", mlp_grid=down) == "holds"


def with_bounds(*violated: int) -> xr.Dataset:
    """A table whose MLS and NMLS are within their bounds, but for MLS of these runs."""
    runs = table()
    runs[D], runs[BOUND] = runs[MLS] + 1, runs[NMLS] + 1
    runs[D][[*violated]] = 0.0
    return runs


def test_bounds_are_judged_for_perceptrons_and_counted_for_others() -> None:
    """fig4 c3, a theorem: it cannot be undecided."""
    sound, broken = with_bounds(), with_bounds(7, 8)
    assert outcome("c3", "fig4", mlp_grid=sound, vgg_grid=broken) == "holds"
    assert outcome("c3", "fig4", mlp_grid=broken, vgg_grid=sound) == "fails"
    assert outcome("c3", "fig4", vgg_grid=sound) == "not run"
    evidence = Evidence({"mlp-grid": sound, "vgg-grid": broken})
    *judged, mls, nmls = CLAIMS["fig4"]["c3"].judge(evidence).evidence
    assert {entry["claim"] for entry in judged} == {"for every value"}
    assert {mls["claim"], nmls["claim"]} == {"reported, not judged"}
    assert (mls["violations"], mls["of"], mls["n"], nmls["violations"]) == (2, 100, 100, 0)


def test_bounds_are_counted_with_each_norm_that_was_measured() -> None:
    runs = with_bounds(7)
    values = np.stack([np.full((100, 1, 1, 2), limit) for limit in (1e3, np.nan, 0.0)], axis=-2)
    runs = runs.assign_coords(norm=["kernel", "operator", "frobenius"], bound=["d", "nmls"])
    runs["bound_by_norm"] = (("run", "checkpoint", "samples", "norm", "bound"), values)
    evidence = CLAIMS["fig4"]["c3"].judge(Evidence({"mlp-grid": runs, "vgg-grid": runs})).evidence
    found = {entry["quantity"]: entry["violations"] for entry in evidence[2:]}
    assert found == {
        f"{name} <= {name} bound, {norm} norm; vgg-grid": count
        for name in ("MLS", "NMLS")
        for norm, count in (("kernel", 0), ("frobenius", 100))
    }


def test_comparisons_are_of_the_runs_that_have_all_that_is_compared() -> None:
    """A run without a dimension is left out of both correlations of c5, and of no other claim."""
    runs = table(**CASES["c5"][0])
    runs[DIMENSION][3] = np.nan
    claims = verify("chen2026_figH8", {"mlp-grid": runs})["claims"]
    used = {c["id"].split("/")[1]: {entry["n"] for entry in c["evidence"]} for c in claims}
    assert used["c5"] == {99}
    assert used["c2"] == {100}


def test_without_a_quantity_a_correlation_is_not_run() -> None:
    result = verify("chen2026_figH8", {"mlp-grid": table().drop_vars(MLS)})
    claim = result["claims"][1]
    assert (claim["verdict"], claim["reason"]) == ("not run", "mlp-grid has no mls")


def test_the_claim_over_three_grids_needs_one_of_them() -> None:
    """c13 of fig4 holds where one grid shows it, fails where none does."""
    up = {MLS: UP, D: UP, KAPPA: UP, GAP: UP}
    none = dict.fromkeys(("mlp_grid", "vgg_grid", "lenet_grid"), table(**up))
    assert outcome("c13", "fig4", **none) == "fails"
    assert outcome("c13", "fig4", **{**none, "vgg_grid": table(**{**up, D: DOWN})}) == "holds"
    assert (
        outcome("c13", "fig4", **{**none, "lenet_grid": table(**{**up, GAP: NONE})}) == "undecided"
    )
    assert outcome("c13", "fig4", mlp_grid=none["mlp_grid"]) == "not run"
    assert outcome("c13", "fig4", mlp_grid=table(**{**up, D: DOWN})) == "holds"  # one is enough


def test_the_theorem_holds_for_every_network_or_fails() -> None:
    sound = table()
    for number, name in enumerate(("bound_a", "bound_b", C, D), start=1):
        sound[name] = sound[name] * 0 + number
    sound[BOUND] = sound[NMLS] + 1
    assert outcome("theorem", mlp_grid=sound) == "holds"
    broken = sound.copy(deep=True)
    broken[C][7] = 1.5  # B is 2 there
    assert outcome("theorem", mlp_grid=broken) == "fails"


def test_every_claim_is_tested() -> None:
    assert {*CLAIMS["figH8"]} == {*CASES, "theorem"}


def test_a_claim_about_a_grid_that_is_not_there_is_not_run_and_says_which() -> None:
    runs = table(**CASES["c1"][0])
    elsewhere = {
        claim["id"]: claim for claim in verify("chen2026_fig4", {"mlp-grid": runs})["claims"]
    }
    assert elsewhere["chen2026_fig4/c1"]["verdict"] == "not run"
    assert "vgg-grid" in elsewhere["chen2026_fig4/c1"]["reason"]
    result = verify("chen2026_figH8", {"mlp-grid": runs})
    verdicts = {claim["id"]: claim for claim in result["claims"]}
    assert verdicts["chen2026_figH8/c1"]["verdict"] == "holds"
    evidence = verdicts["chen2026_figH8/c1"]["evidence"][0]
    assert evidence["low"] < evidence["value"] < evidence["high"]


def test_diverged_runs_are_left_out_and_counted() -> None:
    runs = table(**CASES["c1"][0])
    runs[BOUND][:50] = -1e3 * runs[NMLS][:50]  # would turn the verdict
    runs["diverged"][:50] = True
    result = verify("chen2026_figH8", {"mlp-grid": runs})
    assert result["claims"][0]["verdict"] == "holds"
    assert result["tables"] == {"mlp-grid": {"scale": "demo", "runs": 50, "diverged": 50}}


def test_of_runs_that_all_diverged_nothing_is_judged() -> None:
    runs = table()
    runs["diverged"][:] = True
    for figure in ("figH8", "fig4"):
        claims = verify(f"chen2026_{figure}", {"mlp-grid": runs})["claims"]
        assert {claim["verdict"] for claim in claims} == {"not run"}
        assert all(claim["reason"] for claim in claims)


def test_a_correlation_that_is_not_defined_is_not_run() -> None:
    flat = table()
    flat[NMLS] = flat[NMLS] * 0
    assert outcome("c1", mlp_grid=flat) == "not run"


HOLDS, FAILS = Verdict("holds"), Verdict("fails")
UNDECIDED, ABSENT = Verdict("undecided"), not_run("no table")


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [
        (HOLDS, HOLDS, "holds", "holds"),
        (HOLDS, FAILS, "fails", "holds"),
        (HOLDS, UNDECIDED, "undecided", "holds"),
        (HOLDS, ABSENT, "not run", "holds"),
        (FAILS, FAILS, "fails", "fails"),
        (FAILS, UNDECIDED, "fails", "undecided"),
        (FAILS, ABSENT, "fails", "not run"),
        (UNDECIDED, UNDECIDED, "undecided", "undecided"),
        (UNDECIDED, ABSENT, "not run", "not run"),
    ],
)
def test_verdicts_combine(a: Verdict, b: Verdict, both: str, either: str) -> None:
    assert (a & b).outcome == (b & a).outcome == both
    assert (a | b).outcome == (b | a).outcome == either


def test_the_contrary_of_a_verdict_keeps_what_is_open() -> None:
    contrary = {v.outcome: (~v).outcome for v in (HOLDS, FAILS, UNDECIDED, ABSENT)}
    assert contrary == {
        "holds": "fails",
        "fails": "holds",
        "undecided": "undecided",
        "not run": "not run",
    }


def test_a_reason_is_said_once() -> None:
    assert (not_run("a") & not_run("b") & not_run("a") & HOLDS).reason == "a; b"


def test_an_inequality_is_counted_value_by_value() -> None:
    verdict = theorem("a <= b", [1, 2, np.nan, 3], [1, 2 - 1e-9, 5, 2])
    assert verdict.outcome == "fails"
    (entry,) = verdict.evidence
    assert (entry["violations"], entry["of"], entry["n"]) == (1, 3, 3)
    assert theorem("a <= b", [np.nan], [1.0]).outcome == "not run"
