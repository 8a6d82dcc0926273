"""Claims of petzka2021 on made-up tables: one that holds, one that fails, one that is undecided."""

import numpy as np
import pytest
import xarray as xr

from flatlab.lab import claims as verify
from flatlab.lab.claims import ResultTables
from flatlab.papers.petzka2021.claims import CLAIMS

SEPARATIONS = [0.1, 0.5, 1.0, 2.0, 5.0]
RISING, FALLING, FLAT = [0.5, 0.0, 0.4, 0.7, 0.9], [0.0, 0.9, 0.7, 0.4, 0.0], [0.3] * 5
"""Correlations at the separation that is not in the authors' list, then in the order of theirs."""

BACKWARDS = ("reversed", "code")
VARIANTS = {"": "exact", "-inverted": "inverted", "-reversed": "reversed", "-code": "code"}
EXPERIMENTS = {"fig3": "locally-constant-labels", "fig4": "representativeness"}


def about(experiment: str) -> dict:
    return {"experiment": experiment, "scale": "demo", "evidence": "reduced", "differs": []}


def labels(rhos: dict[str, list[float]], datasets: int = 400) -> xr.Dataset:
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


def outcome(figure: str, key: str, table: xr.Dataset | None) -> str:
    claim = CLAIMS[figure][key]
    tables = {EXPERIMENTS[figure]: table} if table is not None else {}
    return claim.judge(ResultTables(tables)).outcome


@pytest.mark.parametrize("ending", VARIANTS)
@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [
        ("c1", RISING, FALLING, FLAT),
        ("c2", RISING, FALLING, FLAT),
        ("c3", RISING, FALLING, [0.5] * 5),
    ],
)
def test_a_claim_holds_fails_or_is_undecided(
    key: str, holds: list, fails: list, undecided: list, ending: str
) -> None:
    """Each variant is judged by its own data: the others say the opposite."""
    variant = VARIANTS[ending]
    for rhos, opposite, expected in (
        (holds, fails, "holds"),
        (fails, holds, "fails"),
        (undecided, holds, "undecided"),
    ):
        others = dict.fromkeys({*VARIANTS.values()} - {variant}, opposite)
        assert outcome("fig3", f"{key}{ending}", labels({variant: rhos, **others})) == expected


def test_a_correlation_near_zero_of_few_data_sets_is_not_known_to_be_weak() -> None:
    assert outcome("fig3", "c2", labels({"exact": FLAT}, datasets=20)) == "undecided"
    zero = labels({"exact": [0.0] * 5}, datasets=20)
    assert outcome("fig3", "c2", zero) == "undecided"
    assert outcome("fig3", "c2", labels({"exact": RISING}, datasets=8)) == "not run"


def test_a_strong_negative_correlation_is_one() -> None:
    assert outcome("fig3", "c2", labels({"exact": [0.0, -0.8, 0.0, 0.0, 0.0]})) == "fails"


@pytest.mark.parametrize(("ending", "variant"), VARIANTS.items())
def test_what_is_not_in_the_list_of_the_authors_is_reported_and_not_judged(
    ending: str, variant: str
) -> None:
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


def bounds(above: float, slope: float, spread: float, repeats: int = 30) -> xr.Dataset:
    """A table whose bound exceeds its gap by so much, and falls with the separation."""
    generator = np.random.default_rng(1)
    dims = ("variant", "separation", "repeat", "fold")
    noise = spread * generator.normal(size=(2, len(SEPARATIONS), repeats, 3))
    gap = 0.3 + 0 * noise - slope * np.arange(5)[:, None, None] / 5
    bound = gap + above + noise
    return xr.Dataset(
        {"gap": (dims, gap), "bound": (dims, bound), "representativeness": (dims, bound - 0.2)},
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
def test_the_bound_is_judged_by_its_repeats(
    key: str, holds: xr.Dataset, fails: xr.Dataset, undecided: xr.Dataset, ending: str
) -> None:
    assert outcome("fig4", f"{key}{ending}", holds) == "holds"
    assert outcome("fig4", f"{key}{ending}", fails) == "fails"
    assert outcome("fig4", f"{key}{ending}", undecided) == "undecided"
    assert outcome("fig4", f"{key}{ending}", holds.isel(repeat=slice(4))) == "not run"


def test_a_bound_is_not_tight_because_it_is_small() -> None:
    """It is twice the gap, and both are small."""
    small = bounds(0.3, 0, 0.01)
    small = small.assign({name: small[name] / 100 for name in small})
    claim = CLAIMS["fig4"]["c2"].entry("c2", ResultTables({"representativeness": small}))
    assert claim["verdict"] == "fails"
    assert claim["thresholds"][0] == {"threshold": 0.25, "verdict": "fails"}
    assert claim["evidence"][-1]["value"] == pytest.approx(2, abs=0.05)


def test_where_there_is_no_gap_nothing_is_tight_and_elsewhere_it_may_fail() -> None:
    for above, expected in ((0.02, "not run"), (0.5, "fails")):
        table = bounds(above, 0.2, 0.01)
        table["gap"][{"separation": 4}] = table["bound"][{"separation": 3}] * 0
        claim = CLAIMS["fig4"]["c2"].judge(ResultTables({"representativeness": table}))
        assert claim.outcome == expected
        assert claim.reason == "the gap at 5 is not decidedly above 0"


def test_verdicts_tell_of_each_table_and_report_each_separation() -> None:
    table = labels(dict.fromkeys(VARIANTS.values(), FALLING))
    result = verify.verify("petzka2021_fig3", {"locally-constant-labels": table})
    assert result["tables"] == {"locally-constant-labels": table.attrs}
    first = result["claims"][0]
    assert (first["id"], first["verdict"]) == ("petzka2021_fig3/c1", "fails")
    reported = {entry["quantity"]: entry["value"] for entry in first["evidence"][1:]}
    assert "rho(kappa, gap), drawn at 0.1" in reported
    assert reported["tau(separation, rho) from 0.5 on"] == -1
    assert -1 < reported["tau(separation, rho) over all"] < 0


def test_what_is_not_finite_is_left_out_and_nothing_at_all_is_not_run() -> None:
    table = labels({"exact": FALLING})
    table["gap"][{"separation": 1, "batch": 0}] = np.nan
    assert outcome("fig3", "c1", table) == "fails"
    table["gap"][{"separation": 1}] = np.nan
    assert outcome("fig3", "c1", table) == "not run"
    assert outcome("fig3", "c3", table) == "fails"
    assert outcome("fig3", "c1-code", table) == "not run"
