"""The claims of chen2026 Figure 5 on synthetic tables: one that holds, fails, is undecided."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from flatlab import plan
from flatlab.claims import verify
from flatlab.plotting import make
from flatlab.tables.zoo import kept

FAMILIES = ["vit"] * 60 + ["mobilevit"] * 10 + ["fastvit"] * 4 + ["deit"] * 26


def zoo(slope=1.0, noise=0.3, mobile=(0.1, 20), fast=(20, 0.1), plain=0.0, stands_in=""):
    """Networks whose log sharpness follows normalized MLS; two families are put elsewhere.

    mobile, fast: normalized MLS and sharpness of these, as factors.  plain: correlation without
    normalization.
    """
    generator = np.random.default_rng(0)
    count = len(FAMILIES)
    norm = generator.uniform(1, 5, count)
    sharpness = np.exp(slope * norm / 2 + noise * generator.normal(size=count))
    for family, (of_norm, of_sharpness) in (("mobilevit", mobile), ("fastvit", fast)):
        inside = np.array(FAMILIES) == family
        norm[inside] *= of_norm
        sharpness[inside] *= of_sharpness
    common, own = generator.normal(size=(2, count))
    values = {
        "normalized_norm": norm,
        "adaptive_sharpness": sharpness,
        "mean_norm": common,
        "plain_trace": np.exp(plain * common + (1 - abs(plain)) * own),
        "finite": np.ones(count),
        "dropped": np.zeros(count),
        **dict.fromkeys(("train_accuracy", "test_accuracy"), np.full(count, np.nan)),
        "sample_accuracy": np.linspace(70, 90, count),
    }
    values |= {f"{name}_error": 0.01 * abs(value) for name, value in values.items()}
    return xr.Dataset(
        {name: ("run", value) for name, value in values.items()},
        coords={
            "run": [f"network{number}" for number in range(count)],
            "family": ("run", np.array(FAMILIES, dtype=object)),
            "failure": ("run", np.array([""] * count, dtype=object)),
        },
        attrs={
            "scale": "paper",
            "experiment": "vision-zoo",
            "name": "local-zoo" if stands_in else "timm-zoo",
            "data": "imagenet",
            "extent": "100 networks",
            "stands_in_for": stands_in,
            "evidence": "stand-in" if stands_in else "own",
        },
    )


def claims(table):
    found = verify("chen2026_fig5", {"vision-zoo": table})["claims"]
    return {claim["id"].split("/")[1]: claim for claim in found}


NEAR = {"mobile": (1, 1), "fast": (1, 1)}


@pytest.mark.parametrize(
    ("key", "holds", "fails", "undecided"),
    [
        ("c1", NEAR, {**NEAR, "slope": -1}, {**NEAR, "slope": 0.02}),
        ("c2", {}, {"mobile": (30, 0.01)}, {"mobile": (0.1, 3)}),
        ("c3", {}, {"fast": (0.1, 30)}, {"fast": (1.45, 0.1)}),
        ("c4", {}, {"plain": 0.8}, {"plain": 0.25}),
    ],
)
def test_claims_on_three_tables(key, holds, fails, undecided):
    outcomes = [claims(zoo(**changes))[key]["verdict"] for changes in (holds, fails, undecided)]
    assert outcomes == ["holds", "fails", "undecided"]


def test_of_a_stand_in_nothing_is_judged_and_all_is_told():
    for key, claim in claims(zoo(stands_in="timm-zoo")).items():
        assert claim["verdict"] == "not run", key
        assert "local-zoo stands in" in claim["reason"]
        assert {entry["claim"] for entry in claim["evidence"]} == {"reported, not judged"}
        values = [entry["value"] for entry in claims(zoo())[key]["evidence"]]
        assert [entry["value"] for entry in claim["evidence"]] == values


def test_a_family_that_is_missing_is_not_judged():
    table = zoo().sel(run=[family != "fastvit" for family in FAMILIES])
    assert claims(table)["c3"]["verdict"] == "not run"
    assert "no fastvit" in claims(table)["c3"]["reason"]


def test_networks_that_were_dropped_or_failed_do_not_count():
    table = zoo()
    table["dropped"][3] = 1
    table["finite"][7] = 0
    table["finite"][9] = np.nan
    assert {*table["run"].values} - {*kept(table)["run"].values} == {
        f"network{number}" for number in (3, 7, 9)
    }


def test_the_figure_says_what_it_shows_and_counts_what_it_lacks():
    table = zoo()
    table["dropped"][3] = 1
    table["adaptive_sharpness"][5] = -1.0  # has no logarithm
    settings = next(f.settings for f in plan.figures() if f.target == "chen2026_fig5")
    files = make(settings, {"vision-zoo": table}, {})
    csv = files["csv"].decode()
    assert "network3," not in csv
    accuracies = pd.read_csv(io.StringIO(csv)).set_index("name")["sample_accuracy"]
    assert set(accuracies["network99"]) == {90.0}
    text = files["svg"].decode()
    assert "98 networks, 2 left out" in text
    assert "99 networks, 1 left out" in text
    assert "timm-zoo" in text
