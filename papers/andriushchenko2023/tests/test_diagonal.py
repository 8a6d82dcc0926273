"""Figure 7 of andriushchenko2023, diagonal linear networks: what decides its claims."""

from __future__ import annotations

import numpy as np
import pytest

from flatlab.lab.claims import ResultTables
from flatlab.papers.andriushchenko2023 import fig7
from flatlab.papers.andriushchenko2023._networks import NETWORKS, fitted, not_fitted
from papers.andriushchenko2023.tests.tables import claim_of, diagonal, verdict


@pytest.mark.parametrize("ending", ["", "-printed"])
def test_each_variant_is_judged_by_its_own_scales(ending: str) -> None:
    """The other one says the opposite."""
    own = "printed" if ending else "balanced"
    mixed, opposite = diagonal(), diagonal(rescaled=3, error=0.3, eigenvalue=2)
    for name in ("rescaled_trace", "rescaled_lambda_max"):
        mixed[name] = mixed[name].where(mixed["scales"].isin([own, "none"]), opposite[name])
    for number in (1, 2, 3, 4):
        assert verdict(f"fig7/c{number}{ending}", mixed).outcome == "holds", number


def test_a_test_loss_that_the_trace_tells_too_well_is_not_what_the_paper_says() -> None:
    assert verdict("fig7/c4", diagonal(rescaled=0.05)).outcome == "fails"


@pytest.mark.parametrize(
    ("kind", "expected"), [("own", "holds"), ("reduced", "holds"), ("stand-in", "not run")]
)
def test_what_is_printed_is_not_compared_with_other_data(kind: str, expected: str) -> None:
    assert verdict("fig7/c4", diagonal().assign_attrs(evidence=kind)).outcome == expected


def test_the_verdict_on_about_0_8_depends_on_what_is_about() -> None:
    entry = claim_of("fig7/c4").entry("c4", ResultTables({"dln-grid": diagonal(runs=200)}))
    assert entry["verdict"] == "holds"
    assert [t["threshold"] for t in entry["thresholds"]] == [0.05, 0.2]
    assert entry["thresholds"][1]["verdict"] == "holds"


def test_one_of_seven_groups_that_is_hardly_reverse_is_not_enough() -> None:
    """Its own interval lies below zero, but it is the best of seven."""
    found = verdict("fig7/c3", diagonal(eigenvalue=-0.2, runs=78))
    of_groups = [entry for entry in found.evidence if entry["claim"] == "< 0"]
    assert len(of_groups) == 7
    assert any(entry["high"] < 0 for entry in of_groups)
    assert found.outcome == "undecided"


def test_a_third_of_the_networks_may_be_reverse() -> None:
    """By learning rate: the eigenvalue falls with the trace for the smallest rates alone."""
    table = diagonal(eigenvalue=2)
    smallest = table["lr"] <= np.quantile(table["lr"], 1 / 3)
    falling = 1 / table["rescaled_trace"]
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].where(~smallest, falling)
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].transpose(*falling.dims)
    assert verdict("fig7/c3", table).outcome == "holds"


def test_networks_that_do_not_fit_are_left_out_counted_and_too_few_are_not_judged() -> None:
    table = diagonal(runs=90, stopped=70)
    assert (len(fitted(table)), not_fitted(table)) == (70, 20)
    entries = verdict("fig7/c1", table).evidence
    counts = [entry for entry in entries if "did not reach" in entry["quantity"]]
    assert [(entry["value"], entry["n"]) for entry in counts] == [(20, 70)]
    found = verdict("fig7/c1", diagonal(stopped=5))
    assert found.outcome == "not run"
    assert "5 networks that fit" in found.reason


def test_of_many_networks_the_first_two_hundred_are_taken() -> None:
    table = diagonal(runs=NETWORKS + 30)
    shuffled = table.isel(run=np.random.default_rng(0).permutation(NETWORKS + 30))
    networks = fitted(shuffled)
    assert networks["seed"].tolist() == list(range(NETWORKS))
    at, row = table.isel(run=7, checkpoint=-1, samples=0), networks.iloc[7]
    assert row["trace_printed"] == float(at["rescaled_trace"].sel(scales="printed"))
    assert row["lambda_max_none"] == float(at["rescaled_lambda_max"].sel(scales="none"))
    assert row["norm_1"] == float(at["coefficients_norm_1"])
    assert row["test_loss"] == float(at["test_loss"])
    assert row["initial_trace"] == float(table["rescaled_trace"][7, 0, 0, 0])


def test_the_error_of_the_trace_is_relative_to_the_norm() -> None:
    table = diagonal()
    half = fitted(table)["trace_balanced"] / 2
    errors = np.abs(half / fitted(table)["norm_1"] - 1)
    (entry, _) = verdict("fig7/c1", table).evidence
    assert entry["value"] == pytest.approx(np.median(errors))


def test_what_is_not_finite_is_left_out_of_its_correlation_alone() -> None:
    table = diagonal(runs=150)
    table["rescaled_trace"][3:6, 1, 0, 2] = np.inf
    frame = fig7.frame({}, {"dln-grid": table}, {}).set_index("panel")
    taus = frame[frame["row"] == "tau"]
    assert taus["networks"].to_dict() == {
        panel: 147 if panel == "printed" else 150 for panel in fig7.PANELS
    }
    assert verdict("fig7/c4-printed", table).outcome == "holds"
