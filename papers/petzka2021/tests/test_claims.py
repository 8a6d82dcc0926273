"""Claims of petzka2021 on made-up tables, and what the figures of minima show."""

import re

import numpy as np
import pytest
import xarray as xr

from flatlab.lab import plan
from flatlab.lab.claims import verify
from flatlab.lab.figures import render as figures
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.petzka2021.claims import CLAIMS
from flatlab.papers.petzka2021.minima import MEASURES
from tests.synthetic import tables
from tests.synthetic.tables import judged

SEPARATIONS = [0.1, 0.5, 1.0, 2.0, 5.0]
RISING, FALLING, FLAT = [0.5, 0.0, 0.4, 0.7, 0.9], [0.0, 0.9, 0.7, 0.4, 0.0], [0.3] * 5
"""Correlations at the separation that is not in the authors' list, then in the order of theirs."""

BACKWARDS = ("reversed", "code")
VARIANTS = {"": "exact", "-inverted": "inverted", "-reversed": "reversed", "-code": "code"}
EXPERIMENTS = {"fig3": "locally-constant-labels", "fig4": "representativeness"}


def about(experiment):
    return {"experiment": experiment, "scale": "demo", "evidence": "reduced", "differs": []}


def labels(rhos, datasets=400):
    """A table in which kappa and gap have these correlations, by variant and separation.

    The variants of the authors' code report their separations in the opposite order.
    """
    generator = np.random.default_rng(0)
    dims = ("variant", "separation", "batch", "dataset")
    both = generator.normal(size=(2, len(rhos), len(SEPARATIONS), 2, datasets // 2))
    places = [[*of[1:], of[0]] if name in BACKWARDS else of for name, of in rhos.items()]
    rho = np.array(places)[:, :, None, None]
    drawn_at = [SEPARATIONS[::-1] if name in BACKWARDS else SEPARATIONS for name in rhos]
    values = {"gap": both[0], "relative_flatness": rho * both[0] + (1 - rho**2) ** 0.5 * both[1]}
    coordinates = {"variant": list(rhos), "separation": SEPARATIONS, "loss": ["squared"]}
    table = xr.Dataset({name: (dims, part) for name, part in values.items()})
    table = table.expand_dims(loss=1).assign_coords(coordinates)
    flatness = table["relative_flatness"].expand_dims(normalization=["none"])
    table = table.assign(relative_flatness=flatness, drawn_at=(dims[:2], drawn_at))
    return table.assign_attrs(about("locally-constant-labels"))


def outcome(figure, key, table):
    claim = CLAIMS[figure][key]
    tables = {EXPERIMENTS[figure]: table} if table is not None else {}
    return claim.judge(ResultTables(tables)).outcome


@pytest.mark.parametrize("ending", VARIANTS)
@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [*((key, RISING, FALLING, FLAT) for key in ("c1", "c2")), ("c3", RISING, FALLING, [0.5] * 5)],
)
def test_a_claim_holds_fails_or_is_undecided(key, holds, fails, undecided, ending):
    """Each variant is judged by its own data: the others say the opposite."""
    found = []
    for rhos, opposite in ((holds, fails), (fails, holds), (undecided, holds)):
        mixed = dict.fromkeys(VARIANTS.values(), opposite) | {VARIANTS[ending]: rhos}
        found.append(outcome("fig3", f"{key}{ending}", labels(mixed)))
    assert found == ["holds", "fails", "undecided"]


def test_a_correlation_near_zero_of_few_data_sets_is_not_known_to_be_weak():
    assert outcome("fig3", "c2", labels({"exact": FLAT}, datasets=20)) == "undecided"
    zero = labels({"exact": [0.0] * 5}, datasets=20)
    assert outcome("fig3", "c2", zero) == "undecided"
    assert outcome("fig3", "c2", labels({"exact": RISING}, datasets=8)) == "not run"


def test_a_strong_negative_correlation_is_one():
    assert outcome("fig3", "c2", labels({"exact": [0.0, -0.8, 0.0, 0.0, 0.0]})) == "fails"


@pytest.mark.parametrize(("ending", "variant"), VARIANTS.items())
def test_what_is_not_in_the_list_of_the_authors_is_reported_and_not_judged(ending, variant):
    table = labels({variant: RISING})
    drawn_at = table["drawn_at"].sel(variant=variant, drop=True)
    table["gap"] = table["gap"].where(drawn_at != 0.1, -table["gap"])
    for key in ("c1", "c2", "c3"):
        verdict = CLAIMS["fig3"][key + ending].judge(ResultTables({EXPERIMENTS["fig3"]: table}))
        assert verdict.outcome == "holds"
        for entry in verdict.evidence:
            if entry["quantity"] == "rho(kappa, gap), drawn at 0.1":
                assert entry["claim"] == "reported, not judged"
                assert entry["value"] == pytest.approx(-0.5, abs=0.1)
    without = table.isel(separation=drawn_at.values != 0.5)
    assert outcome("fig3", f"c2{ending}", without) == "not run"


def bounds(above, slope, spread, repeats=30):
    """A table whose bound exceeds its gap by so much, and falls with the separation."""
    generator = np.random.default_rng(1)
    dims = ("variant", "separation", "repeat", "fold")
    noise = spread * generator.normal(size=(2, len(SEPARATIONS), repeats, 3))
    gap = 0.3 + 0 * noise - slope * np.arange(5)[:, None, None] / 5
    bound = gap + above + noise
    return xr.Dataset(
        {
            "gap": (dims, gap),
            "bound": (dims, bound),
            "representativeness": (dims, bound - 0.2),
            "worst_case": (dims, 10 + 0 * noise),
        },
        coords={"variant": ["paper", "code"], "separation": SEPARATIONS},
        attrs=about("representativeness"),
    )


@pytest.mark.parametrize("ending", ["", "-code"])
@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [
        ("c1", bounds(0.02, 0.2, 0.01), bounds(-0.02, 0.2, 0.01), bounds(0.004, 0.2, 0.03)),
        ("c2", bounds(0.02, 0.2, 0.01), bounds(0.5, 0.2, 0.01), bounds(0.15, 0, 0.1)),
        ("c3", bounds(0.02, 0.2, 0.01), bounds(0.02, -0.2, 0.01), bounds(0.02, 0.0, 0.01)),
        ("c4", bounds(0.02, 0.2, 0.01), bounds(0.02, -0.2, 0.01), bounds(0.02, 0.0, 0.01)),
    ],
)
def test_the_bound_is_judged_by_its_repeats(key, holds, fails, undecided, ending):
    tables = holds, fails, undecided, holds.isel(repeat=slice(4))
    found = [outcome("fig4", f"{key}{ending}", table) for table in tables]
    assert found == ["holds", "fails", "undecided", "not run"]


def test_a_worst_case_is_much_larger_or_not():
    table = bounds(0.02, 0.2, 0.01)
    for worst, expected in ((10.0, "holds"), (0.5, "fails")):
        assert outcome("fig4", "c5", table.assign(worst_case=0 * table["gap"] + worst)) == expected


def test_a_bound_is_not_tight_because_it_is_small():
    """It is twice the gap, and both are small."""
    small = bounds(0.3, 0, 0.01)
    small = small.assign({name: small[name] / 100 for name in small})
    claim = CLAIMS["fig4"]["c2"].entry("c2", ResultTables({"representativeness": small}))
    assert claim["verdict"] == "fails"
    assert claim["thresholds"][0] == {"threshold": 0.25, "verdict": "fails"}
    assert claim["evidence"][-1]["value"] == pytest.approx(2, abs=0.05)


def test_where_there_is_no_gap_nothing_is_tight_and_elsewhere_it_may_fail():
    for above, expected in ((0.02, "not run"), (0.5, "fails")):
        table = bounds(above, 0.2, 0.01)
        table["gap"][{"separation": 4}] = table["bound"][{"separation": 3}] * 0
        claim = CLAIMS["fig4"]["c2"].judge(ResultTables({"representativeness": table}))
        assert claim.outcome == expected
        assert claim.reason == "the gap at 5 is not decidedly above 0"


def test_verdicts_tell_of_each_table_and_report_each_separation():
    table = labels(dict.fromkeys(VARIANTS.values(), FALLING))
    result = verify("petzka2021_fig3", {"locally-constant-labels": table})
    assert result["tables"] == {"locally-constant-labels": table.attrs}
    first = result["claims"][0]
    assert (first["id"], first["verdict"]) == ("petzka2021_fig3/c1", "fails")
    reported = {entry["quantity"]: entry["value"] for entry in first["evidence"][1:]}
    assert "rho(kappa, gap), drawn at 0.1" in reported
    assert reported["tau(separation, rho) from 0.5 on"] == -1
    assert -1 < reported["tau(separation, rho) over all"] < 0


def test_what_is_not_finite_is_left_out_and_nothing_at_all_is_not_run():
    table = labels({"exact": FALLING})
    table["gap"][{"separation": 1, "batch": 0}] = np.nan
    assert outcome("fig3", "c1", table) == "fails"
    table["gap"][{"separation": 1}] = np.nan
    assert outcome("fig3", "c1", table) == "not run"
    assert outcome("fig3", "c3", table) == "fails"
    assert outcome("fig3", "c1-code", table) == "not run"


SETTINGS = [
    {"lr": 0.05, "batch_size": 64 * 2**number, "optimizer": ("sgd", "adam")[number % 2]}
    for number in range(4)
]
RHOS = {"kappa": 0.95, "trace": 0.6, "fisher_rao": 0.1, "pac_bayes": 0.6, "norm": 0.6}
BEFORE = {"kappa_before_last": 0.6, "network_trace": 0.6, "network_norm": 0.6}
HIGH = {"trace": 0.9, "pac_bayes": 0.9, "norm": 0.9}


def minima(after=0.0, change=1e-12, seeds=15, **rhos):
    """Networks whose measures have these correlations with the gap.

    after: those of the changing measures after the transformation.  change: of the outputs and of
    the measures that do not change.
    """
    count = len(SETTINGS) * seeds
    generator = np.random.default_rng(3)
    gap = tables.standard(generator.normal(size=count))
    loss = 0.05 + 0.01 * generator.random(count)

    common = {"generalization_gap": gap, "train_loss": loss}
    parts = [{**common, "output_change": 0 * gap + c} for c in (0.0, change)]
    for measure, rho in {**RHOS, **BEFORE, **rhos}.items():
        column, values = Column.of(MEASURES[measure]), tables.following(gap, rho, generator)
        changes = measure not in ("kappa", "kappa_before_last", "fisher_rao")
        drawn = tables.following(gap, after, generator) if changes else values * (1 + change)
        for part, of_part in zip(parts, (values, drawn), strict=True):
            if column.labels:
                plain = column.quantity.removeprefix("normalized_")
                for quantity in {column.quantity, plain}:
                    layers = part.setdefault(quantity, np.full((count, 1, 3), np.nan))
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


LIKE_CODE = {"trace": 0.9, "norm": 0.9}
"""With the squared norm times the trace, one is closer to the gap than each of them."""
OF_MINIMA = [
    ("fig5", "c1", {}, {"kappa": 0.0}, {"pac_bayes": 0.95}),
    ("fig5", "c2", {}, {"fisher_rao": 0.99}, {"norm": 0.1}),
    ("fig5", "c3", {}, {"kappa": -0.9}, {"kappa": 0.5}),
    ("fig5", "c1-network", {}, {"network_norm": 0.999}, {"network_trace": 0.95}),
    ("fig5", "c2-network", {}, {"network_trace": -0.9}, {"network_norm": 0.1}),
    ("fig7", "c1", {}, {"change": 1e-3}, None),
    ("fig7", "c2", HIGH, {"after": 0.95}, {"after": 0.5}),
    ("fig7", "c3", {}, {"change": 1e-5}, None),
    ("fig8", "c1", {}, {"kappa_before_last": 0.999}, {"kappa_before_last": 0.0}),
    ("fig8", "c1", {}, {"kappa_before_last": -0.6}, {"kappa_before_last": 0.95}),
]
STANDARDIZED = [
    (figure, re.sub("(c1|c2|c3)", r"\1-standardized", key), *cases)
    for figure, key, *cases in OF_MINIMA
    if (figure, key) not in (("fig7", "c2"), ("fig7", "c3"))
]
AS_CODE = [
    ("fig5", "c1-code", LIKE_CODE, {"pac_bayes": 0.99}, {"pac_bayes": 0.75}),
    ("fig5", "c2-code", LIKE_CODE, {"fisher_rao": 0.99}, {"norm": 0.1}),
    ("fig5", "c3-code", LIKE_CODE, {"trace": -0.9, "norm": -0.9}, {"trace": 0.3, "norm": 0.4}),
]


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("figure", "key", "holds", "fails", "undecided"), [*OF_MINIMA, *STANDARDIZED, *AS_CODE]
)
def test_a_claim_about_minima_holds_fails_or_is_undecided(figure, key, holds, fails, undecided):
    claim, cases = CLAIMS[figure][key], [holds, fails, undecided]
    if undecided is None:
        assert claim.nature in ("theorem", "check")
        cases.pop()
    found = tables.outcomes(claim, *(minima(**case) for case in cases))
    assert found == ["holds", "fails", "undecided"][: len(cases)]


def test_figure_6_repeats_figure_5():
    assert {claim.repeats for claim in CLAIMS["fig6"].values()} == {
        f"petzka2021_fig5/{key}" for key in ("c1", "c2", "c3")
    }


def test_few_networks_are_not_judged_and_those_that_did_not_converge_are_counted():
    few = minima()
    few["diverged"][9:] = True
    few.attrs["not_converged"] = 50
    verdict = judged(CLAIMS["fig5"]["c1"], few)
    assert verdict.outcome == "not run"
    assert "of 60 networks 1 diverged, 50 did not converge" in verdict.reason


def test_the_grid_leaves_out_what_did_not_converge_and_others_do_not_ask():
    for key, asks in (("minima-grid", True), ("mlp-grid", False)):
        grid = plan.read_experiment(plan.experiment_files()[key], "demo", find=None)
        (*_, pack), (*_, family) = grid.packs, grid.families
        assert grid.tabulating(grid).settings.get("converged_only", False) is asks
        assert ("transformations" in grid.measuring(pack, family).settings) is asks


def test_what_is_missing_after_the_transformation_is_not_counted_as_unchanged():
    some = minima()
    kappa = some["normalized_kappa_trace"]
    some["kappa_trace"] = kappa.where(
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
    return figures.frame_of(figure.settings, tables)


def test_figures_show_the_numbers_that_the_claims_compare():
    frame = framed("fig5", {"minima-grid": minima()})
    facts = frame[frame["row"] == "rho"].set_index("measure")
    np.testing.assert_allclose(facts["rho"][[*RHOS]], [*RHOS.values()], atol=1e-12)
    evidence = ResultTables({"minima-grid": minima()})
    verdict = CLAIMS["fig5"]["c1-standardized"].judge(evidence)
    reported = {e["quantity"]: e for e in verdict.evidence if "rho(kappa, g" in e["quantity"]}
    (kappa,) = (e for name, e in reported.items() if " - " not in name)
    for name, column in (("value", "rho"), ("low", "low"), ("high", "high")):
        assert kappa[name] == pytest.approx(facts[column]["kappa"])
    runs = frame[(frame["row"] == "run") & (frame["measure"] == "norm")]
    line = np.polyfit(runs["x"], runs["gap"], 1)
    np.testing.assert_allclose(facts.loc["norm", ["slope", "intercept"]].astype(float), line)
    after = framed("fig7", {"minima-grid": minima(after=0.2)})
    after = after[after["row"] == "rho"].set_index("measure")["rho"]
    assert after["kappa_after"] == pytest.approx(0.95)
    assert after["trace_after"] == pytest.approx(0.2)
    other = framed("fig8", {"minima-grid": minima()})
    other = other[other["row"] == "rho"].set_index("measure")["rho"]
    assert other["kappa_before_last"] == pytest.approx(0.6)


@pytest.mark.first(1)
@pytest.mark.parametrize("kept", [60, 1, 0])
def test_the_figures_are_drawn_of_any_number_of_networks(kept):
    some = minima()
    some["diverged"][kept:] = True
    some.attrs |= {"data": "digits", "extent": f"{kept} networks", "stands_in_for": ""}
    for figure in plan.figures():
        if figure.paper == "petzka2021" and figure.experiments == ["minima-grid"]:
            files = figures.make(figure.settings, {"minima-grid": some})
            text = files["csv"].decode()
            assert text.count("run,") - 1 == kept * text.count("\nrho,")
