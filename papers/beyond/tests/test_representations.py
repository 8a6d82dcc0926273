"""Statements about inner layers: each on synthetic tables on which it holds, fails or neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.lab import plan
from flatlab.lab.claims import ResultTables
from flatlab.papers.beyond import _bottleneck as bottleneck
from flatlab.papers.beyond._bottleneck import GRID, NARROW, WIDE
from flatlab.papers.beyond.claims_representations import REPRESENTATIONS
from papers.beyond.tests.bottleneck_tables import LAYERS, Made, table

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
PURE, AGAINST = Made(noise=1), Made(seed=-1)
BY_FOLDS = "representativeness_by_folds"
FROBENIUS, MLS, NC1 = "feature_sensitivity", "normalized_feature_mls", "collapse_within"


def weak(level: float = 1.0, noise: float = 3.6) -> Made:
    """Hardly follows the trait that all others follow."""
    return Made(level, seed=1, noise=noise)


def shares(second: float, last: float, noise: float = 0.05) -> dict[str, Made]:
    return {"linear_share_within": Made((1, second, 0.5, last), noise=noise)}


CASES = {
    ("fig7", "c1"): (
        table(),
        table({NC1: Made((8, 4, 2, 1), first=0.7)}),
        table({NC1: Made((8, 4, 2, 1), wander=0.5)}),
    ),
    ("fig7", "c2"): (
        table(),
        table({MLS: Made((1, 2, 3, 4), first=0.7)}),
        table({MLS: Made((1, 2, 3, 4), wander=0.5)}),
    ),
    ("fig8", "c4"): (
        table(),
        table({"penultimate_bound": Made(16, seed=1)}),
        table({"penultimate_bound": Made(11, seed=1, noise=1)}),
    ),
    ("fig8", "c5"): (
        table(),
        table({"penultimate_bound": AGAINST}),
        table({"penultimate_bound": weak(8, 20)}),
    ),
    ("fig8", "c6"): (
        table(),
        table({"head_share": Made(0.2, start=0.5)}),
        table({"head_share": Made(0.2, wander=0.5)}),
    ),
    ("fig9", "c1"): (table(), table({FROBENIUS: AGAINST}), table({FROBENIUS: weak(1, 20)})),
    ("fig9", "c2"): (table(), table({NC1: AGAINST}), table({NC1: weak(1, 20)})),
    ("fig9", "c3"): (table(), table({NC1: AGAINST}), table({NC1: weak(1, 20)})),
    ("fig9", "c4"): (
        table({FROBENIUS: Made(seed=1, noise=1)}),
        table({"g": Made(seed=1, noise=1), FROBENIUS: Made(seed=1, noise=0.01)}),
        table({"g": Made(seed=1, noise=0.3), FROBENIUS: Made(seed=1, noise=0.3)}),
    ),
    ("fig9", "c5"): (table(), table(shares(0.8, 0.7)), table(shares(0.8, 0.5))),
    ("fig9", "c6"): (table(), table({BY_FOLDS: AGAINST}), table({BY_FOLDS: weak(1, 60)})),
    ("fig9", "c7"): (
        table(),
        table({BY_FOLDS: Made(-0.1, seed=1)}),
        table({BY_FOLDS: Made(0.2, seed=1, noise=0.1)}),
    ),
}
"""Tables on which a statement holds, fails and is undecided."""
VIOLATED = {"representation_violations": Made(1.0)}
THEOREMS = {
    ("fig8", "c1"): (table(), table(VIOLATED), table().drop_vars("representation_violations")),
    ("fig8", "c2"): (table(), table(VIOLATED), table().drop_vars("representation_violations")),
    ("fig8", "c3"): (
        table(),
        table().assign(penultimate_bound=lambda t: t["penultimate_bound"] * np.inf),
        table().drop_vars("penultimate_bound"),
    ),
}
"""Tables on which a theorem holds, fails and is not run: nothing is undecided about it."""


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_a_statement_holds_fails_or_is_undecided(figure: str, key: str) -> None:
    claim = REPRESENTATIONS[figure][key]
    outcomes = [claim.judge(ResultTables({GRID: each})).outcome for each in CASES[figure, key]]
    assert outcomes == ["holds", "fails", "undecided"]


@pytest.mark.parametrize(("figure", "key"), THEOREMS)
def test_a_theorem_holds_fails_or_is_not_run(figure: str, key: str) -> None:
    claim = REPRESENTATIONS[figure][key]
    outcomes = [claim.judge(ResultTables({GRID: each})).outcome for each in THEOREMS[figure, key]]
    assert outcomes == ["holds", "fails", "not run"]
    assert claim.nature == "theorem"


def test_every_statement_has_cases_and_ours_say_what_would_refute_them() -> None:
    claims = {(f, key): c for f, each in REPRESENTATIONS.items() for key, c in each.items()}
    assert {*claims} == {*CASES, *THEOREMS}
    ours = [c for c in claims.values() if c.source == "declared before the networks were trained"]
    assert len(ours) >= 5
    assert all("Refuted " in claim.quote for claim in ours)
    papers = [claim for claim in claims.values() if claim not in ours]
    assert {claim.source.split(",")[0] for claim in papers} == {
        "chen2026 Sec. 3.5",
        "petzka2021 Sec. 6",
    }
    assert all('"' in claim.quote for claim in papers)


@pytest.mark.parametrize(("figure", "key"), CASES)
def test_without_networks_that_interpolate_nothing_is_judged(figure: str, key: str) -> None:
    slow = table(losses=[2.0, 1.0, 0.5, 0.2])
    verdict = REPRESENTATIONS[figure][key].judge(ResultTables({GRID: slow}))
    assert verdict.outcome == "not run"
    assert verdict.reason


def test_a_bound_that_some_narrow_network_lacks_is_no_theorem() -> None:
    one = table()
    bound = one["penultimate_bound"].copy()
    bound[{"run": 0, "checkpoint": -1}] = np.inf
    verdict = REPRESENTATIONS["fig8"]["c3"].judge(
        ResultTables({GRID: one.assign(penultimate_bound=bound)})
    )
    assert verdict.outcome == "fails"
    assert verdict.evidence[0]["violations"] == 1


def test_changes_are_of_each_network() -> None:
    networks = bottleneck.networks(table()).that_interpolate()
    raw = table()[NC1].isel(samples=0, layer=-1)
    expected = raw.isel(checkpoint=3) / raw.isel(checkpoint=2)
    np.testing.assert_allclose(networks.since_interpolation(NC1), expected)
    share = table()["head_share"].isel(samples=0)
    expected = share.isel(checkpoint=3) / share.isel(checkpoint=0)
    np.testing.assert_allclose(networks.since_the_start("head_share"), expected)


def test_a_network_that_interpolates_at_the_end_alone_has_no_change() -> None:
    late = table(losses=[2.0, 1.0, 0.5, 0.001])
    networks = bottleneck.networks(late).that_interpolate()
    assert np.isnan(networks.since_interpolation(NC1)).all()


def test_pairs_are_of_one_width_and_loss_or_of_one_setting() -> None:
    networks = bottleneck.networks(table())
    assert networks.pairs("all").sum() == 8 * 15 * 14
    assert networks.pairs("seeds").sum() == 24 * 5 * 4
    first = networks.data.isel(run=np.flatnonzero(networks.pairs("all")[0]))
    assert set(first["units"].values) == {4}
    assert set(first["loss"].values) == {"cross-entropy"}


@pytest.mark.parametrize("scale", ["paper", "short", "demo"])
def test_names_of_settings_say_what_the_networks_are(scale: str) -> None:
    grid = plan.load_experiment(FOLDER, GRID, scale, find=None)
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


def test_units_are_read_from_the_names_of_settings() -> None:
    made: xr.Dataset = table()
    units = bottleneck.with_units(made)["units"].values
    assert units.tolist()[::15] == [4, 8, 10, 32, 128, 4, 8, 10]
    assert list(made["layer"].values) == LAYERS
