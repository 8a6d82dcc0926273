"""Claims of petzka2021 Figures 5 to 8 on made-up tables, and what the figures show of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.lab import figures as plotting
from flatlab.lab import plan
from flatlab.lab.claims import ResultTables
from flatlab.lab.tables.columns import Column
from flatlab.papers.petzka2021.claims import CLAIMS
from flatlab.papers.petzka2021.measures import MEASURES
from tests.synthetic import tables
from tests.synthetic.tables import judged

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
SETTINGS = [
    {"lr": 0.05, "batch_size": 64 * 2**number, "optimizer": ("sgd", "adam")[number % 2]}
    for number in range(4)
]
RHOS = {"kappa": 0.95, "trace": 0.6, "fisher_rao": 0.1, "pac_bayes": 0.6, "norm": 0.6}
BEFORE = {"kappa_before_last": 0.6, "network_trace": 0.6, "network_norm": 0.6}
HIGH = {"trace": 0.9, "pac_bayes": 0.9, "norm": 0.9}


def table(after: float = 0.0, change: float = 1e-12, seeds: int = 15, **rhos: float):
    """Networks whose measures have these correlations with the gap.

    after: those of the changing measures after the transformation.  change: of the outputs and of
    the measures that do not change.
    """
    count = len(SETTINGS) * seeds
    generator = np.random.default_rng(3)
    gap = _standard(generator.normal(size=count))
    loss = 0.05 + 0.01 * generator.random(count)

    def drawn(rho: float) -> np.ndarray:
        own = _standard(generator.normal(size=count))
        own = _standard(own - gap * (own @ gap) / count)
        return 10 + rho * gap + np.sqrt(1 - rho**2) * own

    common = {"generalization_gap": gap, "train_loss": loss}
    parts: list[dict] = [{**common, "output_change": 0 * gap + c} for c in (0.0, change)]
    for measure, rho in {**RHOS, **BEFORE, **rhos}.items():
        column, values = Column.of(MEASURES[measure]), drawn(rho)
        changes = measure not in ("kappa", "kappa_before_last", "fisher_rao")
        both = values, drawn(after) if changes else values * (1 + change)
        for part, of_part in zip(parts, both, strict=True):
            if column.labels:
                layers = part.setdefault(column.quantity, np.full((count, 1, 3), np.nan))
                layers[..., int(column.labels[0])] = of_part[:, None]
            else:
                part[column.quantity] = of_part
    made = [
        tables.table(
            *("minima-grid", SETTINGS, {n: lambda _, v=v: v for n, v in part.items()}),
            **{"seeds": seeds, "layers": ["conv1", "fc2", "fc3"], "evidence": "reduced"},
            not_converged=0,
        )
        for part in parts
    ]
    kinds = xr.Variable("transformation", ["none", "last-layer"])
    return xr.concat(made, kinds, combine_attrs="override")


def _standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


@pytest.mark.parametrize(
    ("figure", "key", "holds", "fails", "undecided"),
    [
        ("fig5", "c1", {}, {"kappa": 0.0}, {"pac_bayes": 0.95}),
        ("fig5", "c2", {}, {"fisher_rao": 0.99}, {"norm": 0.1}),
        ("fig5", "c3", {}, {"kappa": -0.9}, {"kappa": 0.0}),
        ("fig5", "c1-network", {}, {"network_norm": 0.999}, {"network_trace": 0.95}),
        ("fig5", "c2-network", {}, {"network_trace": -0.9}, {"network_norm": 0.1}),
        ("fig5", "c3-network", {}, {"kappa": -0.9}, {"kappa": 0.0}),
        ("fig7", "c1", {}, {"change": 1e-3}, None),
        ("fig7", "c2", HIGH, {"after": 0.95}, {"after": 0.5}),
        ("fig7", "c3", {}, {"change": 1e-5}, None),
        ("fig8", "c1", {}, {"kappa_before_last": 0.999}, {"kappa_before_last": 0.0}),
        ("fig8", "c1", {}, {"kappa_before_last": -0.6}, {"kappa_before_last": 0.95}),
    ],
)
def test_a_claim_holds_fails_or_is_undecided(figure, key, holds, fails, undecided):
    claim = CLAIMS[figure][key]
    assert judged(claim, table(**holds)).outcome == "holds"
    assert judged(claim, table(**fails)).outcome == "fails"
    if undecided is None:
        assert claim.nature in ("theorem", "check")
    else:
        assert judged(claim, table(**undecided)).outcome == "undecided"


def test_figure_6_repeats_figure_5():
    assert {claim.repeats for claim in CLAIMS["fig6"].values()} == {
        f"petzka2021_fig5/{key}" for key in CLAIMS["fig5"] if "-" not in key
    }


def test_few_networks_are_not_judged_and_those_that_did_not_converge_are_counted():
    few = table()
    few["diverged"][9:] = True
    few.attrs["not_converged"] = 50
    verdict = judged(CLAIMS["fig5"]["c1"], few)
    assert verdict.outcome == "not run"
    assert "of 60 networks 1 diverged, 50 did not converge" in verdict.reason


def test_the_grid_leaves_out_what_did_not_converge_and_others_do_not_ask():
    for key, asks in (("minima-grid", True), ("mlp-grid", False)):
        grid = plan.load_experiment(FOLDER, key, "demo", find=None)
        (*_, pack), (*_, family) = grid.packs, grid.families
        assert grid.tabulating(grid).settings.get("converged_only", False) is asks
        assert ("transformations" in grid.measuring(pack, family).settings) is asks


def test_what_is_missing_after_the_transformation_is_not_counted_as_unchanged():
    some = table()
    kappa = some["normalized_kappa_trace"]
    some["normalized_kappa_trace"] = kappa.where(
        (kappa["transformation"] == "none") | (kappa["run"] != "minima-grid-0")
    )
    verdict = judged(CLAIMS["fig7"]["c1"], some)
    assert [entry["n"] for entry in verdict.evidence] == [59, 60]
    none = some.where(some["transformation"] == "none")
    none = none.assign(train_loss=some["train_loss"], generalization_gap=some["generalization_gap"])
    none["diverged"] = some["diverged"]
    assert judged(CLAIMS["fig7"]["c1"], none).outcome == "not run"
    assert judged(CLAIMS["fig7"]["c3"], none).outcome == "not run"


def framed(key, tables):
    figure = next(each for each in plan.figures() if each.target == f"petzka2021_{key}")
    return plotting.frame_of(figure.settings, tables, {})


def test_figures_show_the_numbers_that_the_claims_compare():
    frame = framed("fig5", {"minima-grid": table()})
    facts = frame[frame["row"] == "rho"].set_index("measure")
    np.testing.assert_allclose(facts["rho"][[*RHOS]], [*RHOS.values()], atol=1e-12)
    evidence = ResultTables({"minima-grid": table()})
    verdict = CLAIMS["fig5"]["c1"].judge(evidence)
    reported = {e["quantity"]: e for e in verdict.evidence if "rho(kappa, g" in e["quantity"]}
    (kappa,) = (e for name, e in reported.items() if " - " not in name)
    for name, column in (("value", "rho"), ("low", "low"), ("high", "high")):
        assert kappa[name] == pytest.approx(facts[column]["kappa"])
    runs = frame[(frame["row"] == "run") & (frame["measure"] == "norm")]
    line = np.polyfit(runs["x"], runs["gap"], 1)
    np.testing.assert_allclose(facts.loc["norm", ["slope", "intercept"]].astype(float), line)
    after = framed("fig7", {"minima-grid": table(after=0.2)})
    after = after[after["row"] == "rho"].set_index("measure")["rho"]
    assert after["kappa_after"] == pytest.approx(0.95)
    assert after["trace_after"] == pytest.approx(0.2)
    other = framed("fig8", {"minima-grid": table()})
    other = other[other["row"] == "rho"].set_index("measure")["rho"]
    assert other["kappa_before_last"] == pytest.approx(0.6)


@pytest.mark.parametrize("kept", [60, 1, 0])
def test_the_figures_are_drawn_of_any_number_of_networks(kept):
    some = table()
    some["diverged"][kept:] = True
    some.attrs |= {"data": "digits", "extent": f"{kept} networks", "stands_in_for": ""}
    for figure in plan.figures():
        if figure.paper == "petzka2021" and figure.experiments == ["minima-grid"]:
            files = plotting.make(figure.settings, {"minima-grid": some}, {})
            assert {*files} == {"csv", "pdf", "svg", "png"}
            text = files["csv"].decode()
            assert text.count("run,") - 1 == kept * text.count("\nrho,")
