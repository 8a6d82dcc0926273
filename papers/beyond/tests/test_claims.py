"""The statements about the joint grids, each on three synthetic tables, and what they rest on."""

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.claims import ResultTables
from flatlab.papers.beyond import _joint as joint
from flatlab.papers.beyond._invariance import CLAIMED
from flatlab.papers.beyond.claims_joint import JOINT as CLAIMS
from papers.beyond.tests.joint_tables import FLAT, GRIDS, Made, both, table

RIGHT, LOOSE = Made(seed=1, noise=0.002), Made(seed=1, noise=0.06)
PURE, OTHER = Made(noise=1), Made(other=1)
MORE = Made(lr=-3, seed=1)
DECAYED = Made(lr=-1, batch_size=0.5, decay=-3, sam=-1, mixup=-1, seed=1)
AS_PAPERS_SAY = {
    **dict.fromkeys(("loss_gap", "absolute_loss_gap", "softmax_jacobian_norm"), DECAYED),
    "hessian_lambda_max": Made(lr=-1, batch_size=0.5, decay=3, seed=1),
}
NEAR, FAR = (
    Made(lr=-1, batch_size=0.5, sam=-1, seed=1, noise=0.2),
    Made(lr=-1, batch_size=0.5, sam=-1, seed=1, noise=1.5),
)
J, SHARPNESS = "softmax_jacobian_norm", "hessian_lambda_max"
GIVEN = dict.fromkeys(("train_loss", "output_norm"), Made(lr=-1, seed=1, noise=0.05))


def all_measures(made: Made) -> dict[str, Made]:
    return dict.fromkeys(joint.PICTURED, made)


def half_change(name: str) -> dict[str, xr.Dataset]:
    """Half of the networks keep the value of a measure when layers are rescaled."""
    tables = both()
    for each in tables.values():
        kept = xr.where(np.arange(each.sizes["run"]) % 2, 1.0, 1.5)
        changed = each["transformation"] == "layers"
        factor = xr.where(changed, xr.DataArray(kept, dims="run"), 1.0)
        each[name] = (each[name] * factor).transpose(*each[name].dims)
    return tables


CASES = {
    ("fig4", "c1"): (
        both(),
        both(all_measures(PURE)),
        both(all_measures(Made(seed=1, noise=0.73))),
    ),
    ("fig4", "c2"): (
        both({**all_measures(MORE), "error_gap": Made(lr=-3, seed=-1)}),
        both(),
        both({"error_gap": PURE}),
    ),
    ("fig4", "c3"): (
        both(),
        both({"loss_gap": PURE}),
        both(dict.fromkeys(joint.GAPS, Made(seed=1, noise=0.63))),
    ),
    ("fig4", "c4"): (both(all_measures(RIGHT)), both(), both(all_measures(LOOSE))),
    ("fig5", "c1"): (
        both(AS_PAPERS_SAY),
        both({**AS_PAPERS_SAY, "normalized_kappa_trace": Made(lr=2, batch_size=-2)}),
        both({**AS_PAPERS_SAY, "normalized_kappa_trace": PURE}),
    ),
    ("fig5", "c2"): (
        both({"absolute_loss_gap": NEAR, J: NEAR, SHARPNESS: FAR}),
        both({"absolute_loss_gap": NEAR, J: FAR, SHARPNESS: NEAR}),
        both({"absolute_loss_gap": NEAR, J: NEAR, SHARPNESS: NEAR}),
    ),
    ("fig5", "c3"): (
        both({**all_measures(PURE), **GIVEN}),
        both({**all_measures(PURE), **GIVEN, SHARPNESS: OTHER, "error_gap": OTHER}),
        both(
            {
                **all_measures(PURE),
                **GIVEN,
                **dict.fromkeys((SHARPNESS, "error_gap"), Made(other=1, noise=0.65)),
            }
        ),
    ),
    ("fig6", "c1"): (both(), both({"nmls": Made(layers=0.5)}), half_change("nmls")),
}
"""Tables on which a statement holds, fails and is undecided."""


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_a_statement_holds_fails_or_is_undecided(figure: str, key: str) -> None:
    claim = CLAIMS[figure][key]
    found = [claim.judge(ResultTables(tables)).outcome for tables in CASES[figure, key]]
    assert found == ["holds", "fails", "undecided"]


def test_every_statement_has_cases_and_says_what_would_refute_it() -> None:
    keys = {(figure, key) for figure, claims in CLAIMS.items() for key in claims}
    assert keys == {*CASES}
    for figure, key in keys:
        claim = CLAIMS[figure][key]
        assert "Refuted " in claim.quote
        assert claim.source == "declared before the networks were trained"
        assert "both grids" in claim.text


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_a_statement_is_about_both_grids(figure: str, key: str) -> None:
    claim, (holds, fails, _) = CLAIMS[figure][key], CASES[figure, key]
    assert claim.judge(ResultTables({GRIDS[0]: holds[GRIDS[0]]})).outcome == "not run"
    mixed = {GRIDS[0]: holds[GRIDS[0]], GRIDS[1]: fails[GRIDS[1]]}
    assert claim.judge(ResultTables(mixed)).outcome == "fails"


def test_a_measure_that_was_not_computed_leaves_what_needs_it_open() -> None:
    tables = {key: each.drop_vars("kappa_trace") for key, each in both().items()}
    verdict = CLAIMS["fig6"]["c1"].judge(ResultTables(tables))
    assert verdict.outcome == "not run"
    assert "median relative change of kappa_trace" in verdict.reason


def test_few_networks_decide_nothing() -> None:
    settings = [("cross-entropy", 0.02, 32, "none", 0.0), ("cross-entropy", 0.04, 32, "none", 0.0)]
    small = table(settings=settings)
    for claims in CLAIMS.values():
        for claim in claims.values():
            verdict = claim.judge(ResultTables({grid: small for grid in GRIDS}))
            assert verdict.outcome == "not run"
            assert verdict.reason


def reported(tables: dict[str, xr.Dataset]) -> list[str]:
    """What the verdict on the identities reports beside what is judged."""
    entries = CLAIMS["fig4"]["c4"].judge(ResultTables(tables)).evidence
    return [entry["quantity"] for entry in entries if entry["claim"] == "reported, not judged"]


def test_identities_that_were_not_expected_are_listed() -> None:
    changes = {**all_measures(PURE), "mls": RIGHT, "path_norm": RIGHT}
    found = [name for name in reported(both(changes)) if "average" not in name]
    assert found == [f"tau(mls, path_norm); {joint.NETWORKS[grid]}" for grid in GRIDS]


def test_how_well_draws_order_networks_is_reported() -> None:
    found = [name for name in reported(both(all_measures(PURE))) if "average" in name]
    pairs = [f"tau(average-{scale}-l2, average-{scale}-linf)" for scale in ("standard", "adaptive")]
    assert [name.split(";")[0] for name in found] == pairs * len(GRIDS)


@pytest.mark.parametrize("key", CLAIMS["fig5"])
def test_what_was_so_when_networks_first_fitted_is_reported(key: str) -> None:
    verdict = CLAIMS["fig5"][key].judge(ResultTables(both()))
    early = [entry for entry in verdict.evidence if "at the first fit" in entry["quantity"]]
    assert early
    assert {entry["claim"] for entry in early} == {"reported, not judged"}
    assert len(early) < len(verdict.evidence)


def test_what_is_called_invariant_is_a_measure_of_the_figures() -> None:
    assert {*CLAIMED} <= {*joint.PICTURED}
    assert len(joint.PICTURED) == 45
    assert FLAT.layers == FLAT.neurons == 0
