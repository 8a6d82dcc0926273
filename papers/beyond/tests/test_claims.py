"""Our statements: each on tables on which it holds, fails or neither; and what they rest on."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.lab import plan
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond._bottleneck import GRID, NARROW, WIDE
from flatlab.papers.beyond.claims import CLAIMS
from papers.beyond.tests import bottleneck_tables as layers
from papers.beyond.tests.joint_tables import GRIDS, Made, both, table
from tools import findings

ROOT = Path(__file__).resolve().parents[3]
BEFORE = "declared before the networks were trained"
BESIDE = "reported, not judged"
POST_HOC = "post hoc: said after the networks were judged"
RIGHT, LOOSE = Made(seed=1, noise=0.002), Made(seed=1, noise=0.06)
PURE, OTHER, MORE = Made(noise=1), Made(other=1), Made(lr=-3, seed=1)
DECAYED = Made(lr=-1, batch_size=0.5, decay=-3, sam=-1, mixup=-1, seed=1)
AS_PAPERS_SAY = {
    **dict.fromkeys(("loss_gap", "absolute_loss_gap", "softmax_jacobian_norm"), DECAYED),
    "hessian_lambda_max": Made(lr=-1, batch_size=0.5, decay=3, seed=1),
}
NEAR, FAR = (Made(lr=-1, batch_size=0.5, sam=-1, seed=1, noise=noise) for noise in (0.2, 1.5))
J, SHARPNESS, GAP = "softmax_jacobian_norm", "hessian_lambda_max", "absolute_loss_gap"
KAPPA = "normalized_kappa_trace"


def all_measures(made, **others):
    return dict.fromkeys(joint.PICTURED, made) | others


GIVEN = all_measures(
    PURE, **dict.fromkeys(("train_loss", "output_norm"), Made(lr=-1, seed=1, noise=0.05))
)
OF_JOINT = {
    "fig4/c1": ({}, all_measures(PURE), all_measures(Made(seed=1, noise=0.73))),
    "fig4/c2": (all_measures(MORE, error_gap=Made(lr=-3, seed=-1)), {}, {"error_gap": PURE}),
    "fig4/c3": ({}, {"loss_gap": PURE}, dict.fromkeys(joint.GAPS, Made(seed=1, noise=0.63))),
    "fig4/c4": (all_measures(RIGHT), {}, all_measures(LOOSE)),
    "fig5/c1": tuple(
        AS_PAPERS_SAY | change for change in ({}, {KAPPA: Made(lr=2, batch_size=-2)}, {KAPPA: PURE})
    ),
    "fig5/c2": tuple(
        {GAP: NEAR, J: jacobian, SHARPNESS: sharpness}
        for jacobian, sharpness in ((NEAR, FAR), (FAR, NEAR), (NEAR, NEAR))
    ),
    "fig5/c3": (
        GIVEN,
        *(
            GIVEN | dict.fromkeys((SHARPNESS, "error_gap"), made)
            for made in (OTHER, Made(other=1, noise=0.65))
        ),
    ),
    **dict.fromkeys(
        ("fig5/c4", "fig5/c4-pooled", "fig5/c4-cross-entropy"),
        ({}, {"mls": Made(lr=1, batch_size=-0.5, sam=1, seed=-1)}, {"nmls": PURE}),
    ),
    "fig6/c1": ({}, {"nmls": Made(layers=0.5)}, "half"),
}
"""What is made otherwise in the joint grids where a statement holds, fails and is undecided."""


def half_change(name):
    """Half of the networks keep the value of a measure when layers are rescaled."""
    tables = both()
    for each in tables.values():
        kept = xr.where(np.arange(each.sizes["run"]) % 2, 1.0, 1.5)
        changed = each["transformation"] == "layers"
        factor = xr.where(changed, xr.DataArray(kept, dims="run"), 1.0)
        each[name] = (each[name] * factor).transpose(*each[name].dims)
    return tables


AGAINST = layers.Made(seed=-1)
BY_FOLDS, BOUND = "representativeness_by_folds", "penultimate_bound"
ROBUSTNESS = "feature_robustness"
FROBENIUS, MLS, NC1 = "feature_sensitivity", "normalized_feature_mls", "collapse_within"


def weak(level=1.0, noise=20):
    """Hardly follows the trait that all others follow."""
    return layers.Made(level, seed=1, noise=noise)


def shares(second, last):
    return {"linear_share_within": layers.Made((1, second, 0.5, last), noise=0.05)}


def of(name, *arguments, **traits):
    return {name: layers.Made(*arguments, **traits)}


RIGHTLY = {"seed": 1, "noise": 0.3}
OF_LAYERS = {
    "fig7/c1": ({}, *(of(NC1, (8, 4, 2, 1), **way) for way in ({"first": 0.7}, {"wander": 0.5}))),
    "fig7/c2": ({}, *(of(MLS, (1, 2, 3, 4), **way) for way in ({"first": 0.7}, {"wander": 0.5}))),
    "fig8/c4": ({}, of(BOUND, 16, seed=1), of(BOUND, 11, seed=1, noise=1)),
    "fig8/c5": ({}, {BOUND: AGAINST}, {BOUND: weak(8)}),
    "fig8/c6": ({}, of("head_share", 0.2, start=0.5), of("head_share", 0.2, wander=0.5)),
    "fig9/c1": ({}, {FROBENIUS: AGAINST}, {FROBENIUS: weak()}),
    **dict.fromkeys(("fig9/c2", "fig9/c3"), ({}, {NC1: AGAINST}, {NC1: weak()})),
    "fig9/c4": (
        of(FROBENIUS, seed=1, noise=1),
        of("g", seed=1, noise=1) | of(FROBENIUS, seed=1, noise=0.01),
        of("g", **RIGHTLY) | of(FROBENIUS, **RIGHTLY),
    ),
    "fig9/c5": ({}, shares(0.8, 0.7), shares(0.8, 0.5)),
    "fig9/c6": ({}, {BY_FOLDS: AGAINST}, {BY_FOLDS: weak(noise=60)}),
    "fig9/c7": ({}, of(BY_FOLDS, -0.1, seed=1), of(BY_FOLDS, 0.2, seed=1, noise=0.1)),
    "fig9/c8": ({}, of(ROBUSTNESS, 3), of(ROBUSTNESS, 0.15, noise=1)),
    "fig9/c9": (of(ROBUSTNESS, 0.8), {}, of(ROBUSTNESS, 0.5, noise=1)),
}
"""The same of `bottleneck-grid`."""
VIOLATIONS = "representation_violations"
THEOREMS = {
    **dict.fromkeys(("fig8/c1", "fig8/c2"), (of(VIOLATIONS, 1.0), VIOLATIONS)),
    "fig8/c3": (None, BOUND),
}
"""With which a theorem fails, and without which it is not run; nothing is undecided about it."""


def claim_of(name):
    figure, key = name.split("/")
    return CLAIMS[figure][key]


def judged(name, tables):
    tables = tables if isinstance(tables, dict) else {GRID: tables}
    return claim_of(name).judge(ResultTables(tables))


def tables_of(name, case):
    if name in OF_LAYERS:
        return layers.table(case)
    return half_change("nmls") if case == "half" else both(case)


@pytest.mark.every(8)
@pytest.mark.parametrize("name", OF_JOINT | OF_LAYERS)
def test_a_statement_holds_fails_or_is_undecided(name):
    found = [judged(name, tables_of(name, case)).outcome for case in (OF_JOINT | OF_LAYERS)[name]]
    assert found == ["holds", "fails", "undecided"]


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_holds_fails_or_is_not_run(name):
    made, (wrong, needed) = layers.table(), THEOREMS[name]
    fails = layers.table(wrong) if wrong else made.assign({needed: made[needed] * np.inf})
    tables = (made, fails, made.drop_vars(needed))
    assert [judged(name, each).outcome for each in tables] == ["holds", "fails", "not run"]
    assert claim_of(name).nature == "theorem"


def test_every_statement_has_cases_and_ours_say_what_would_refute_them():
    # test_runs.py, test_logits.py and test_matched.py have their cases
    of_runs = ("fig10", "fig11", "fig12", "fig16", "fig17")
    figures = {figure: claims for figure, claims in CLAIMS.items() if figure not in of_runs}
    names = [f"{figure}/{key}" for figure, claims in figures.items() for key in claims]
    assert {*names} == {*OF_JOINT, *OF_LAYERS, *THEOREMS}
    ours = [name for name in names if claim_of(name).source == BEFORE]
    post_hoc = {name for name in names if claim_of(name).source == POST_HOC}
    assert {*OF_JOINT} - post_hoc < {*ours}
    assert len(ours) >= len(OF_JOINT) - len(post_hoc) + 5
    assert all("Refuted " in claim_of(name).quote for name in ours)
    assert all("both grids" in claim_of(name).text for name in OF_JOINT)
    papers = [claim_of(name) for name in names if name not in {*ours} | post_hoc]
    places = {claim.source.split(",")[0] for claim in papers}
    of_petzka = {f"petzka2021 {where}" for where in ("Sec. 6", "Sec. 5", "Thm. 5")}
    assert places == {"chen2026 Sec. 3.5"} | of_petzka
    assert all('"' in claim.quote for claim in papers)


@pytest.mark.parametrize("name", [*OF_JOINT][::4])  # that all say so is asked above
def test_a_statement_is_about_both_grids(name):
    holds, fails, _ = (tables_of(name, case) for case in OF_JOINT[name])
    assert judged(name, {GRIDS[0]: holds[GRIDS[0]]}).outcome == "not run"
    assert judged(name, {GRIDS[0]: holds[GRIDS[0]], GRIDS[1]: fails[GRIDS[1]]}).outcome == "fails"


def test_few_networks_and_such_as_do_not_interpolate_decide_nothing():
    settings = [("cross-entropy", lr, 32, "none", 0.0) for lr in (0.02, 0.04)]
    small, slow = table(settings=settings), layers.table(losses=[2.0, 1.0, 0.5, 0.2])
    for name in OF_JOINT | OF_LAYERS:
        few = slow if name in OF_LAYERS else {grid: small for grid in GRIDS}
        verdict = judged(name, few)
        assert verdict.outcome == "not run"
        assert verdict.reason


def test_a_measure_that_was_not_computed_leaves_what_needs_it_open():
    tables = {key: each.drop_vars("kappa_trace") for key, each in both().items()}
    verdict = judged("fig6/c1", tables)
    assert verdict.outcome == "not run"
    assert "median relative change of kappa_trace" in verdict.reason


def test_identities_that_were_not_expected_are_listed_and_how_well_draws_order_networks():
    tables = both({**all_measures(PURE), "mls": RIGHT, "path_norm": RIGHT})
    entries = [e for e in judged("fig4/c4", tables).evidence if e["claim"] == BESIDE]
    found = {average: [] for average in (False, True)}
    for entry in entries:
        found["average" in entry["quantity"]].append(entry["quantity"])
    assert found[False] == [f"tau(mls, path_norm); {joint.NETWORKS[grid]}" for grid in GRIDS]
    pairs = [f"tau(average-{scale}-l2, average-{scale}-linf)" for scale in ("standard", "adaptive")]
    assert [name.split(";")[0] for name in found[True]] == pairs * len(GRIDS)


def test_what_was_so_when_networks_first_fitted_is_reported():
    verdict = judged("fig5/c1", both())
    early = [entry for entry in verdict.evidence if "at the first fit" in entry["quantity"]]
    assert early
    assert {entry["claim"] for entry in early} == {BESIDE}
    assert len(early) < len(verdict.evidence)


def test_a_bound_that_some_narrow_network_lacks_is_no_theorem():
    one = layers.table()
    bound = one["penultimate_bound"].copy()
    bound[{"run": 0, "checkpoint": -1}] = np.inf
    verdict = judged("fig8/c3", one.assign(penultimate_bound=bound))
    assert verdict.outcome == "fails"
    assert verdict.evidence[0]["violations"] == 1


def test_changes_are_of_each_network_that_interpolates_before_the_end():
    networks = bottleneck.networks(layers.table()).that_interpolate()
    raw = layers.table()[NC1].isel(samples=0, layer=-1)
    expected = raw.isel(checkpoint=3) / raw.isel(checkpoint=2)
    np.testing.assert_allclose(networks.since_interpolation(NC1), expected)
    late = bottleneck.networks(layers.table(losses=[2.0, 1.0, 0.5, 0.001])).that_interpolate()
    assert np.isnan(late.since_interpolation(NC1)).all()


def test_pairs_are_of_one_width_and_loss_or_of_one_setting():
    networks = bottleneck.networks(layers.table())
    assert networks.pairs("all").sum() == 8 * 15 * 14
    assert networks.pairs("seeds").sum() == 24 * 5 * 4
    first = networks.data.isel(run=np.flatnonzero(networks.pairs("all")[0]))
    assert set(first["units"].values) == {4}
    assert set(first["loss"].values) == {"cross-entropy"}


@pytest.mark.parametrize("scale", ["paper", "short", "demo"])
def test_names_of_settings_say_what_the_networks_are(scale):
    grid = plan.read_experiment(plan.experiment_files()[GRID], scale, find=None)
    kinds = set()
    for pack in grid.packs.values():
        units = pack.network.options.width[-1]
        assert pack.setting.startswith(f"units{units}-")
        classes = 10 if pack.data.classes == "all" else len(pack.data.classes)
        squared = pack.training.loss == "half-mse"
        assert classes == (units if squared else 10)
        assert len(pack.seeds) >= 5
        kinds.add((units, pack.training.loss))
    of_entropy = {units for units, loss in kinds if loss == "cross-entropy"}
    assert of_entropy == {*NARROW, *WIDE}
    assert kinds - {(units, "cross-entropy") for units in of_entropy} == {
        (units, "half-mse") for units in NARROW
    }
    assert len(grid.packs) == 3 * len(kinds)
    assert "representations" in grid.families


def test_every_statement_on_inner_layers_is_on_a_page_of_findings():
    [of_question] = [
        page for page in findings.pages().values() if page.stem == "inside-the-network"
    ]
    listed = re.findall(r'\("beyond_(fig\d)", "([c\d ]+)"\)', (ROOT / of_question).read_text())
    named = {(figure, key) for figure, keys in listed for key in keys.split()}
    assert named == {(fig, key) for fig in ("fig7", "fig8", "fig9") for key in CLAIMS[fig]}
