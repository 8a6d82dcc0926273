"""The claims of macdonald2023 on synthetic tables: holding, failing and undecided."""

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import verify
from flatlab.papers.macdonald2023.claims_regression import GRID, SCALES

SEEDS, CHECKPOINTS = 6, 7
FIGURES = {"fig30": "relu", "fig31": "tanh"}
JACOBIAN, SHARPNESS, FEATURES = "softmax_jacobian_norm", "hessian_lambda_max", "feature_norm"

# quantity -> its largest value in training at the three scales; all start at 1
PUBLISHED = {JACOBIAN: (9, 6, 3), SHARPNESS: (2, 3, 4), FEATURES: (20, 30, 40)}
CLAIMS = {"c1": JACOBIAN, "c2": SHARPNESS, "c3": FEATURES}
OTHERWISE = {
    "fails": {JACOBIAN: (3, 6, 9), SHARPNESS: (2, 4, 3), FEATURES: (30, 20, 40)},
    "undecided": {JACOBIAN: (6, 6, 3), SHARPNESS: (2, 2, 4), FEATURES: (20, 30, 30)},
}


def synthetic(changes=None, activations=("relu", "tanh"), start=None):
    """Networks whose quantities rise linearly to their largest values, which vary by a tenth."""
    tops = PUBLISHED | (changes or {})
    settings = [(a, scale) for a in activations for scale in SCALES]
    runs = [(a, scale, seed) for a, scale in settings for seed in range(SEEDS)]
    noise = np.array([0.9 + 0.04 * seed for _, _, seed in runs])
    ramp = np.linspace(0, 1, CHECKPOINTS)
    variables = {}
    for name, largest in tops.items():
        top = np.array([largest[SCALES.index(scale)] for _, scale, _ in runs]) * noise
        first = np.array([(start or {}).get(name, (1, 1, 1))[SCALES.index(s)] for _, s, _ in runs])
        values = (first[:, None] + (top - first)[:, None] * ramp)[..., None]
        dims = ("run", "checkpoint", "samples")
        if name == FEATURES:
            inputs = np.full_like(values, 99.0)  # the first layer's, which are no features
            values, dims = np.stack([inputs, values / 2, values], -1), (*dims, "layer")
        variables[name] = (dims, values)
    shape = (len(runs), CHECKPOINTS, 1)
    variables["hessian_converged"] = (("run", "checkpoint", "samples"), np.ones(shape))
    coordinates = {
        "samples": ["train"],
        "layer": ["fc1", "fc2", "fc3"],
        "checkpoint": np.arange(CHECKPOINTS),
        "activation": ("run", [a for a, _, _ in runs]),
        "scale": ("run", [scale for _, scale, _ in runs]),
        "seed": ("run", [seed for _, _, seed in runs]),
        "diverged": ("run", np.zeros(len(runs), dtype=bool)),
    }
    about = {"experiment": GRID, "evidence": "own", "differs": []}
    return xr.Dataset(variables, coordinates, about)


def outcomes(table, figure):
    verdicts = verify(f"macdonald2023_{figure}", {GRID: table} if table is not None else {})
    return {claim["id"].partition("/")[2]: claim["verdict"] for claim in verdicts["claims"]}


@pytest.mark.parametrize("figure", FIGURES)
def test_all_claims_hold_of_the_published_curves(figure):
    assert set(outcomes(synthetic(), figure).values()) == {"holds"}


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("outcome", OTHERWISE)
def test_each_claim_can_fail_and_be_undecided_without_the_others(figure, claim, outcome):
    name = CLAIMS[claim]
    found = outcomes(synthetic({name: OTHERWISE[outcome][name]}), figure)
    assert found == dict.fromkeys(CLAIMS, "holds") | {claim: outcome}


@pytest.mark.parametrize("figure", FIGURES)
def test_growth_of_both_is_relative_to_the_start(figure):
    """Sharpness that rises to larger values does not grow more, if it starts from larger ones."""
    lower = synthetic({SHARPNESS: (4, 3, 2)}, start={SHARPNESS: (2, 1, 0.5)})
    assert outcomes(lower, figure)["c2"] == "holds"
    starts = (0.2, 1, 2)
    higher = synthetic({SHARPNESS: (2, 3, 4)}, start={SHARPNESS: starts})
    assert outcomes(higher, figure)["c2"] == "fails"
    assert outcomes(synthetic({JACOBIAN: (2, 3, 4)}, start={JACOBIAN: starts}), figure)["c1"] == (
        "holds"
    )


def test_increases_and_largest_values_are_reported_and_not_judged():
    """Both rise with the scale, although the growth falls."""
    table = synthetic({SHARPNESS: (2, 4, 6)}, start={SHARPNESS: (0.2, 1, 2)})
    claim = verify("macdonald2023_fig30", {GRID: table})["claims"][1]
    assert claim["verdict"] == "fails"
    judged = [e["quantity"] for e in claim["evidence"] if e["claim"] == "> 0"]
    assert [name.split("(")[0] for name in judged] == ["growth of lambda_max"] * 2
    reported = {e["quantity"].split("(")[0]: e for e in claim["evidence"][2:-1]}
    assert set(reported) == {"increase of lambda_max", "max lambda_max"}
    assert all(entry["low"] > 0 for entry in reported.values())


@pytest.mark.parametrize("figure", FIGURES)
def test_what_was_not_computed_is_not_run(figure):
    other = [activation for activation in FIGURES.values() if activation != FIGURES[figure]]
    for table in (
        None,
        synthetic(activations=other),
        synthetic().isel(run=slice(None, None, SEEDS)),
    ):
        assert set(outcomes(table, figure).values()) == {"not run"}
    assert outcomes(synthetic().drop_vars(FEATURES), figure)["c3"] == "not run"


def test_runs_that_diverged_do_not_count():
    table = synthetic()
    spoilt = table.copy(deep=True)
    spoilt[JACOBIAN][0] = np.nan
    assert outcomes(spoilt, "fig30")["c1"] == "not run"
    flagged = spoilt.assign_coords(diverged=("run", np.arange(spoilt.sizes["run"]) == 0))
    assert outcomes(flagged, "fig30")["c1"] == "holds"


def test_eigenvalues_that_did_not_converge_are_counted():
    table = synthetic()
    table["hessian_converged"][3, 2] = 0
    claims = verify("macdonald2023_fig30", {GRID: table})["claims"]
    counted = [entry for entry in claims[1]["evidence"] if "converged" in entry["quantity"]]
    assert [(entry["violations"], entry["of"]) for entry in counted] == [(1, 252)]
