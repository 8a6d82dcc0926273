"""Claims of petzka2021 on made-up tables: one that holds, one that fails, one that is undecided."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from flatlab import claims as verify
from flatlab.claims import Evidence
from flatlab.papers.petzka2021.claims import CLAIMS

SEPARATIONS = [0.1, 0.5, 1.0, 2.0, 5.0]
RISING, FALLING, FLAT = [0.0, 0.2, 0.5, 0.7, 0.9], [0.9, 0.7, 0.5, 0.2, 0.0], [0.3] * 5


def labels(rhos: dict[str, list[float]], datasets: int = 400) -> xr.Dataset:
    """A table in which kappa and gap have these correlations, by variant and separation."""
    generator = np.random.default_rng(0)
    dims = ("variant", "separation", "batch", "dataset")
    both = generator.normal(size=(2, len(rhos), len(SEPARATIONS), 2, datasets // 2))
    rho = np.array(list(rhos.values()))[:, :, None, None]
    values = {"gap": both[0], "relative_flatness": rho * both[0] + (1 - rho**2) ** 0.5 * both[1]}
    coordinates = {"variant": list(rhos), "separation": SEPARATIONS, "loss": ["squared"]}
    table = xr.Dataset({name: (dims, part) for name, part in values.items()})
    table = table.expand_dims(loss=1).assign_coords(coordinates)
    flatness = table["relative_flatness"].expand_dims(normalization=["none"])
    attributes = {"experiment": "locally-constant-labels", "scale": "demo"}
    return table.assign(relative_flatness=flatness).assign_attrs(attributes)


def outcome(figure: str, key: str, table: xr.Dataset | None) -> str:
    experiment = "locally-constant-labels" if figure == "fig3" else "representativeness"
    claim = CLAIMS[figure][key]
    return claim.judge(Evidence({experiment: table} if table is not None else {})).outcome


@pytest.mark.parametrize("ending", ["", "-reversed", "-code"])
@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [("c1", RISING, FALLING, FLAT), ("c2", RISING, FALLING, FLAT)],
)
def test_a_claim_holds_fails_or_is_undecided(
    key: str, holds: list, fails: list, undecided: list, ending: str
) -> None:
    """Each variant is judged by its own data: the others say the opposite."""
    variant = ending.removeprefix("-") or "exact"
    for rhos, opposite, expected in (
        (holds, fails, "holds"),
        (fails, holds, "fails"),
        (undecided, holds, "undecided"),
    ):
        others = dict.fromkeys({"exact", "reversed", "code"} - {variant}, opposite)
        assert outcome("fig3", f"{key}{ending}", labels({variant: rhos, **others})) == expected


@pytest.mark.parametrize(("last", "expected"), [(0.9, "holds"), (0.0, "fails"), (0.5, "undecided")])
def test_at_the_largest_separation_the_correlation_must_be_strong(last: float, expected: str):
    table = labels({"exact": [*RISING[:-1], last]})
    assert outcome("fig3", "c3", table) == expected


def test_a_correlation_near_zero_of_few_data_sets_is_not_known_to_be_weak() -> None:
    """The absolute value of its resamples would pile up at zero and feign a narrow interval."""
    assert outcome("fig3", "c2", labels({"exact": FLAT}, datasets=20)) == "undecided"
    zero = labels({"exact": [0.0] * 5}, datasets=20)
    assert outcome("fig3", "c2", zero) == "undecided"


def bounds(above: float, slope: float, spread: float) -> xr.Dataset:
    """A table whose bound exceeds its gap by so much, and falls with the separation."""
    generator = np.random.default_rng(1)
    dims = ("variant", "separation", "repeat", "fold")
    noise = spread * generator.normal(size=(2, len(SEPARATIONS), 30, 3))
    gap = 0.3 + 0 * noise - slope * np.arange(5)[:, None, None] / 5
    return xr.Dataset(
        {"gap": (dims, gap), "bound": (dims, gap + above + noise)},
        coords={"variant": ["paper", "code"], "separation": SEPARATIONS},
        attrs={"experiment": "representativeness", "scale": "demo"},
    )


@pytest.mark.parametrize("ending", ["", "-code"])
@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [
        ("c1", bounds(0.02, 0.2, 0.01), bounds(-0.02, 0.2, 0.01), bounds(0.004, 0.2, 0.03)),
        ("c2", bounds(0.02, 0.2, 0.01), bounds(0.5, 0.2, 0.01), bounds(0.15, 0, 0.1)),
        ("c3", bounds(0.02, 0.2, 0.01), bounds(0.02, -0.2, 0.01), bounds(0.02, 0.0, 0.01)),
    ],
)
def test_the_bound_is_judged_by_its_repeats(
    key: str, holds: xr.Dataset, fails: xr.Dataset, undecided: xr.Dataset, ending: str
) -> None:
    assert outcome("fig4", f"{key}{ending}", holds) == "holds"
    assert outcome("fig4", f"{key}{ending}", fails) == "fails"
    assert outcome("fig4", f"{key}{ending}", undecided) == "undecided"


def test_verdicts_tell_of_each_table_and_report_each_separation() -> None:
    table = labels(dict.fromkeys(("exact", "reversed", "code"), FALLING))
    result = verify.verify("petzka2021_fig3", {"locally-constant-labels": table})
    assert result["tables"] == {"locally-constant-labels": table.attrs}
    first = result["claims"][0]
    assert (first["id"], first["verdict"]) == ("petzka2021_fig3/c1", "fails")
    reported = [entry["quantity"] for entry in first["evidence"]]
    assert "rho at 0.1" in reported
    assert "tau from separation 0.5 on" in reported


def test_what_is_not_finite_is_left_out_and_nothing_at_all_is_not_run() -> None:
    table = labels({"exact": FALLING})
    table["gap"][{"separation": 0, "batch": 0}] = np.nan
    assert outcome("fig3", "c1", table) == "fails"
    assert outcome("fig3", "c1", table.where(False)) == "not run"
    assert outcome("fig3", "c3", table.where(False)) == "not run"
