"""Figures 2-4 and 8-15 and Tables 1 and 2 of andriushchenko2023: released networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from sklearn.metrics import roc_auc_score

from flatlab.lab.claims import ResultTables, verify
from flatlab.papers.andriushchenko2023 import claims_released
from flatlab.papers.andriushchenko2023._printed import TABLE1, TABLE2, TABLE3, TABLE4
from flatlab.papers.andriushchenko2023._recipes import RESNETS
from flatlab.papers.andriushchenko2023._released import BERT, CLIP, VIT, VIT21K
from flatlab.papers.andriushchenko2023._sharpness import sharpness
from flatlab.papers.andriushchenko2023.claims_released import NORMALIZED, separation
from papers.andriushchenko2023.tests.tables import OF_RELEASED, claim_of, verdict, zoo
from tests.synthetic.tables import judged

PRINTED = {"table1": TABLE1, "table2": TABLE2, "table3": TABLE3, "table4": TABLE4}


def as_printed(key: str, printed: Any, of: float = 1.0) -> xr.Dataset:
    """Many networks whose taus are about those of a table, times a number.

    Of normal variables with the correlation sin(pi tau / 2) Kendall's tau is tau.
    """
    table, generator = zoo(key, runs=800), np.random.default_rng(0)
    common = generator.normal(size=800)
    taus = np.mean([printed[name] for name in OF_RELEASED], axis=1)  # definitions, radii
    table["test_set_error"][:] = 40 + 5 * common[:, None]
    table["test_error"][:] = 40 + 5 * common
    rho = np.sin(np.pi / 2 * of * taus)
    own = generator.normal(size=(800, *rho.shape))
    table["sharpness_at_radius"][:] = np.exp(
        rho * common[:, None, None] + np.sqrt(1 - rho**2) * own
    )
    return table


@pytest.mark.parametrize("figure", ["table1", "table2"])
def test_a_table_agrees_if_every_tau_does(figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mean over the test sets printed for each of them, as here all errors are alike."""
    for key, by_definition in PRINTED[figure].items():
        for name, of_sets in by_definition.items():
            alike = (tuple(np.mean(of_sets, axis=0)),) * len(of_sets)
            monkeypatch.setitem(PRINTED[figure][key], name, alike)
    ours, opposite = (
        [as_printed(key, taus, of) for key, taus in PRINTED[figure].items()] for of in (1.0, -1.0)
    )
    few = [table.isel(run=slice(40)) for table in ours]
    found = [judged(claim_of(f"{figure}/c1"), *tables).outcome for tables in (ours, opposite, few)]
    assert found == ["holds", "fails", "undecided"]


def test_printed_numbers_are_read_by_definition_test_set_and_radius() -> None:
    assert TABLE1[VIT]["worst-normalized-linf"][5] == (0.04, 0.03, -0.16)
    assert TABLE2[BERT]["average-adaptive-linf"][1][1] == -0.58
    assert TABLE3[RESNETS]["worst-normalized-l2"] == (
        (0.19, 0.07, -0.13, -0.52),
        (0.14, 0.0, -0.22, -0.58),
    )
    shapes = {
        name: np.shape([*map(list, map(dict.values, t.values()))]) for name, t in PRINTED.items()
    }
    assert shapes == {
        **{"table1": (3, 4, 6, 3), "table2": (1, 4, 4, 3)},
        **{"table3": (1, 12, 2, 4), "table4": (1, 12, 2, 4)},
    }


def test_networks_that_fail_the_test_or_were_not_measured_do_not_count() -> None:
    table = zoo(VIT21K, slope=-1.0)
    table["test_error"][3], table["test_error"][7] = 99.5, np.nan
    assert {entry["n"] for entry in verdict("fig14/c1", table).evidence} == {238}


def test_too_few_networks_are_not_judged() -> None:
    found = verdict("fig2/c2", zoo(runs=24, slope=-1.0))
    assert found.outcome == "not run"
    assert "24 networks, it needs 25" in found.reason


def test_one_value_of_dropout_separates_nothing() -> None:
    table = zoo(apart=5.0)
    table["dropout"][:] = 0.1
    found = verdict("fig2/c3", table)
    reason = "there are 1 values of dropout, two are needed"
    assert (found.outcome, found.reason) == ("not run", reason)


def test_the_area_of_two_clusters_is_that_of_scikit_learn() -> None:
    networks = claims_released.networks(ResultTables({VIT: zoo(apart=0.7)}), VIT)
    found, most = separation(networks, sharpness(NORMALIZED, 1), "sharpness")
    values, larger = networks.column(sharpness(NORMALIZED, 1)), networks.column("dropout") > 0
    pairs = len(values) * (len(values) - 1) / 2
    area = (found.value * (pairs + 1) / pairs / most + 1) / 2  # less the shrinkage of tau
    assert area == pytest.approx(roc_auc_score(larger, values), abs=1e-12)


def test_verdicts_name_the_figure() -> None:
    entries = verify("andriushchenko2023_fig3", {CLIP: zoo(CLIP)})["claims"]
    assert [entry["id"][-7:] for entry in entries] == ["fig3/c1", "fig3/c2", "fig3/c3"]
