"""The claims about networks trained by twelve recipes, on synthetic tables."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import kendalltau

from flatlab import plan, plotting
from flatlab.claims import Claim, Evidence, verify
from flatlab.claims.ranks import Pool
from flatlab.papers.andriushchenko2023._printed import TABLE3, TABLE4
from flatlab.papers.andriushchenko2023._recipes import FITTED, GROUPS, PLAIN, RESNETS, VITS
from flatlab.papers.andriushchenko2023.claims import CLAIMS
from flatlab.tables.ranks import rank_correlations

DEFINITIONS = list(TABLE3)
FIGURES = ("fig5", "fig6", "table3", "table4")
EACH = 40
"""Networks of each of the four groups."""


def networks(
    own: float = 1.0,
    between: float = 0.0,
    plain: float = 1.0,
    rate: float = -1.0,
    shift: float = 0.0,
    outside: float = 0.2,
    noise: float = 0.3,
    each: int = EACH,
    best: bool = False,
    augmented_error: float = 0.5,
) -> xr.Dataset:
    """A table of a recipes grid. Error and sharpness follow one number of each network.

    own: how the error goes with it, within groups.  between: how the mean error of a group falls
    with its mean sharpness, which rises from group to group.  plain: how sharpness without
    normalized logits goes with it.  rate: how the logarithm of the learning rate goes with the
    sharpness, and shift, with its group.  outside: how the error on corrupted images does.  noise:
    of all of these.  best: the flattest network is the best one.  augmented_error: the training
    error of networks with augmentation.
    """
    generator = np.random.default_rng(0)
    runs = 4 * each
    group = np.repeat(np.arange(4), each)
    inside = generator.normal(size=runs)
    error = own * inside - between * group + noise * generator.normal(size=runs)
    corrupted = outside * inside + generator.normal(size=runs)
    sharpness = np.empty((runs, len(DEFINITIONS), 4))
    for place, name in enumerate(DEFINITIONS):
        way = plain if "adaptive" in name else 1.0
        sharpness[:, place] = np.exp(way * inside + group)[:, None]
    if best:
        error[sharpness[:, DEFINITIONS.index(PLAIN[0]), 0].argmin()] = error.min() - 1
    lr = np.exp(rate * inside + shift * group + noise * generator.normal(size=runs))
    shape, dims = ("run", "checkpoint"), ("samples", "definition", "radius_index")
    variables = {
        "sharpness_at_radius": ((*shape, *dims), sharpness[:, None, None]),
        "sharpness_radius": ((*shape, *dims), np.full((runs, 1, 1, len(DEFINITIONS), 4), 0.1)),
        "test_set_error": ((*shape, "test_set"), np.stack([error, corrupted], 1)[:, None] + 20),
        "test_error": (shape, error[:, None] + 20),
        "train_error": (shape, np.where(group < 2, 0.5, augmented_error)[:, None]),
    }
    by_run: dict[str, Any] = {
        "diverged": np.zeros(runs, dtype=bool),
        "augmentation": np.where(group < 2, "none", "crop-flip"),
        "mixup_alpha": np.where(group % 2, 0.5, 0.0),
        "sam_radius": np.where(np.arange(runs) % 3, 0.1, 0.0),
        "lr": lr,
    }
    coordinates = {
        **{"run": [f"r{n}" for n in range(runs)], "checkpoint": [7], "samples": ["train"]},
        **{"definition": DEFINITIONS, "radius_index": list("0123")},
        "test_set": ["test", "corrupted"],
        **{name: ("run", values) for name, values in by_run.items()},
    }
    about = {"experiment": RESNETS, "evidence": "own", "differs": [], "left_out": 0}
    about |= {"hyperparameters": ["augmentation", "mixup_alpha", "sam_radius"], "scale": "demo"}
    about |= {
        "name": RESNETS,
        "network": "resnet",
        "data": "digits",
        "extent": "some",
        "length": "9 epochs",
    }
    about |= {"stands_in_for": ""}
    return xr.Dataset(variables, coords=coordinates, attrs=about)


def judged(claim: Claim, table: xr.Dataset) -> str:
    return claim.judge(Evidence({RESNETS: table, VITS: table})).outcome


CASES: dict[str, dict[str, tuple[xr.Dataset, xr.Dataset, xr.Dataset]]] = {
    "fig5": {
        "c1": (networks(between=1.2), networks(own=0), networks(own=0.4, each=27)),
        "c2": (
            networks(plain=-1.0, own=1, noise=0.1),
            networks(own=-1, between=2, plain=1),
            networks(own=0, each=27),
        ),
        "c3": (networks(own=-1), networks(), networks(own=-0.05, between=0.1, each=27)),
        "c5": (networks(own=-1), networks(best=True, plain=1, noise=0), networks(own=-1, each=1)),
        "c6": (networks(outside=0), networks(own=0, outside=3), networks(own=0, outside=0, each=7)),
        "c7": (networks(own=0), networks(between=-1), networks(outside=0.7, each=7)),
        "c8": (networks(own=-1), networks(between=-1), networks(own=0.1, noise=1.0, each=15)),
    },
    "fig6": {
        "c1": (networks(rate=-1), networks(rate=1), networks(rate=0, each=7)),
        "c2": (
            networks(rate=-1, shift=1),
            networks(rate=1, shift=-1),
            networks(rate=-0.1, noise=1.0, each=27),
        ),
    },
}


WITHIN: dict[str, tuple[xr.Dataset, xr.Dataset, xr.Dataset]] = {
    "c5": (networks(own=-1), networks(best=True, plain=1, noise=0), networks(own=-1, each=1)),
    "c6": (networks(outside=0), networks(own=0, outside=3), networks(outside=0, each=7)),
    "c7": (networks(own=0), networks(between=1.2), networks(own=0.4, each=27)),
    "c8": (networks(own=-1), networks(each=60), networks(own=-1, each=20)),
}


def readings(figure: str, key: str, within: bool) -> list[str]:
    every = [each for each in CLAIMS[figure] if each.split("-")[0] == key]
    return [each for each in every if ("within" in each) == within]


@pytest.mark.parametrize("key", WITHIN)
def test_a_claim_within_groups_holds_fails_or_lacks_networks(key: str) -> None:
    for reading in readings("fig5", key, within=True):
        found = [judged(CLAIMS["fig5"][reading], table) for table in WITHIN[key]]
        assert found == ["holds", "fails", "undecided" if key == "c7" else "not run"], reading


def test_a_group_that_lacks_networks_is_named() -> None:
    table = networks(own=0, augmented_error=5)
    verdict = CLAIMS["fig5"]["c7-within"].judge(Evidence({RESNETS: table}))
    assert verdict.outcome == "not run"
    assert "crop-flip" in verdict.reason
    assert judged(CLAIMS["fig5"]["c7-within-unaugmented"], table) == "holds"


@pytest.mark.parametrize(("figure", "key"), [(f, key) for f in CASES for key in CASES[f]])
def test_a_claim_holds_fails_or_is_undecided(figure: str, key: str) -> None:
    for reading in readings(figure, key, within=False):
        found = [judged(CLAIMS[figure][reading], table) for table in CASES[figure][key]]
        third = "not run" if key == "c5" else "undecided"  # a fact about networks that are too few
        assert found == ["holds", "fails", third], reading


def test_networks_as_good_as_others_that_are_sharper_by_a_factor_of_ten() -> None:
    """A fact about these networks: it is never undecided."""
    claim = CLAIMS["fig5"]["c4"]
    assert judged(claim, networks(own=0)) == "holds"
    table = networks(noise=0)
    place = {"definition": PLAIN[0], "radius_index": "0"}
    table["sharpness_at_radius"].loc[place] = table["sharpness_at_radius"].loc[place] ** 0.1
    assert judged(claim, table) == "fails"
    facts = [e for e in claim.judge(Evidence({VITS: table})).evidence if "largest" in e["quantity"]]
    assert [entry["value"] >= 10 for entry in facts] == [True, False]
    assert facts[1]["quantity"].startswith("largest ratio of worst-adaptive-linf at 0.1")
    assert judged(claim, networks(each=1)) == "not run"
    apart = networks(each=2)
    apart["test_set_error"] = 100 * apart["test_set_error"]
    assert judged(claim, apart) == "not run"


TABLES = {"table3": (RESNETS, TABLE3, 0.35), "table4": (VITS, TABLE4, 0.1)}


def signed(figure: str, size: float = 1.0, flip: int | None = None, each: int = EACH) -> xr.Dataset:
    """Networks whose taus have the printed signs, if `size` is 1; a definition has the other ones.

    On the corrupted images they have the signs of the test images.
    """
    printed = np.array([taus for taus, _ in TABLES[figure][1].values()])
    ways = np.sign(printed)
    if flip is not None:
        ways[flip] *= -1
    table = networks(own=1, between=0, noise=0.05, each=each)
    inside = table["test_set_error"].sel(test_set="test").values[:, 0, None, None] - 20
    noise = np.random.default_rng(1).normal(size=(len(inside), *ways.shape))
    table["sharpness_at_radius"].values[:, 0, 0] = np.exp(size * ways * inside + 0.3 * noise)
    table["test_set_error"].values[:, 0, 1] = inside[:, 0, 0] + 0.05 * noise[:, 0, 0]
    return table


@pytest.mark.parametrize("figure", TABLES)
def test_every_sign_has_to_be_the_printed_one_where_that_is_clear(figure: str) -> None:
    """Where the printed signs of both test sets are clear they agree, and 48 of 48 must."""
    claim = CLAIMS[figure]["c1"]
    weak = signed(figure, size=0.0, each=7)
    found = [judged(claim, table) for table in (signed(figure), signed(figure, flip=0), weak)]
    assert found == ["holds", "fails", "undecided"]
    table = signed(figure).assign_attrs(evidence="stand-in")
    assert judged(claim, table) == "not run"


@pytest.mark.parametrize("figure", TABLES)
def test_no_tau_may_be_above_the_largest_printed_one(figure: str) -> None:
    claim, limit = CLAIMS[figure]["c2"], TABLES[figure][2]
    tables = (
        networks(own=-1, outside=-1),
        networks(between=-1),
        signed(figure, size=limit / 6, each=7),
    )
    assert [judged(claim, table) for table in tables] == ["holds", "fails", "undecided"]
    entries = claim.judge(Evidence({TABLES[figure][0]: tables[0]})).evidence
    assert sum(entry["claim"] == f"< {limit:g}" for entry in entries) == 96


def test_every_claim_is_tested() -> None:
    assert {*CASES["fig5"], "c4"} == {key.split("-")[0] for key in CLAIMS["fig5"]}
    assert {*CASES["fig6"]} == {key.split("-")[0] for key in CLAIMS["fig6"]}
    assert all({*CLAIMS[figure]} == {"c1", "c2"} for figure in TABLES)


def test_networks_that_do_not_fit_are_left_out_and_each_group_says_how_many() -> None:
    table = networks(between=1.2, augmented_error=18.0)
    claims = CLAIMS["fig5"]
    verdict = claims["c1"].judge(Evidence({RESNETS: table}))
    assert verdict.outcome == "not run"
    assert "0 of its 40 networks have a train error of at most 1 (median 18)" in verdict.reason
    assert "longer training or wider networks" in verdict.reason
    counts = {
        e["quantity"]: (e["value"], e["n"]) for e in verdict.evidence if "<=" in e["quantity"]
    }
    limit = "networks with train_error <= 1; recipes-grid"
    assert counts[limit] == (80, 160)
    assert counts[f"{limit}, augmentation crop-flip, mixup_alpha 0.5"] == (0, 40)
    assert judged(claims["c1-unaugmented"], table) == "holds"


def test_taus_are_those_of_scipy_over_all_networks_and_within_groups() -> None:
    table = networks()
    pool = Pool.of(Evidence({RESNETS: table}), RESNETS, FITTED, GROUPS)
    x = table["sharpness_at_radius"].sel(definition=PLAIN[0], radius_index="0").values.ravel()
    y = table["test_set_error"].sel(test_set="corrupted").values.ravel()

    def of_scipy(rows: Any) -> float:
        pairs = len(x[rows]) * (len(x[rows]) - 1) / 2
        return kendalltau(x[rows], y[rows]).statistic * pairs / (pairs + 1)

    assert pool.tau(PLAIN, "corrupted").value == pytest.approx(of_scipy(slice(None)))
    taus = pool.taus(PLAIN, "corrupted")
    for number, tau in enumerate(taus.values()):
        assert tau.value == pytest.approx(of_scipy(slice(number * EACH, (number + 1) * EACH)))
    differences = list(pool.beside_all(PLAIN, "corrupted"))
    for tau, difference in zip(taus.values(), differences, strict=True):
        assert difference.point == pytest.approx(tau.point - pool.tau(PLAIN, "corrupted").point)
        low, high = difference.interval()
        assert low < difference.point < high


def test_a_difference_from_all_networks_is_as_wide_as_if_each_were_left_out_of_both() -> None:
    """By hand: both taus without each network in turn."""
    table = networks(each=25)
    pool = Pool.of(Evidence({RESNETS: table}), RESNETS, FITTED, GROUPS)
    (difference, *_) = pool.beside_all(PLAIN, "test")
    runs = np.arange(table.sizes["run"])
    for left_out in (0, 24, 25, 99):
        rest = Pool.of(
            Evidence({RESNETS: table.isel(run=runs != left_out)}), RESNETS, FITTED, GROUPS
        )
        whole = rest.tau(PLAIN, "test").point
        frame = rest.columns(PLAIN, "test")
        own = (frame["augmentation"] == "none") & (frame["mixup_alpha"] == 0)
        names = [rest.column(each)[0] for each in (PLAIN, "test")]
        (inside,) = rank_correlations(frame[own], (names[0], names[1]))
        assert difference.left_out[left_out] == pytest.approx(inside.point - whole)


@pytest.mark.parametrize("figure", FIGURES)
def test_without_sharpness_or_a_test_set_no_claim_is_run(figure: str) -> None:
    table = networks()
    for lacking, missing in (
        (table.drop_vars("sharpness_at_radius"), "has no sharpness_at_radius"),
        (table.sel(test_set=["corrupted"]), "has no test set test"),
        (table.sel(definition=DEFINITIONS[:1]), "has no worst-"),
    ):
        for claim in verify(f"andriushchenko2023_{figure}", {RESNETS: lacking, VITS: lacking})[
            "claims"
        ]:
            if missing not in claim["reason"]:
                assert figure == "fig6"  # it is not about test sets
                assert "test set" in missing
            else:
                assert claim["verdict"] in ("not run", "fails")


@pytest.mark.parametrize("figure", FIGURES)
def test_each_figure_is_drawn_with_the_networks_that_fit(figure: str) -> None:
    declared = next(f for f in plan.figures() if f.target == f"andriushchenko2023_{figure}")
    table = networks(augmented_error=18.0)
    other = table.assign_attrs(name=VITS, experiment=VITS)
    tables = {key: {RESNETS: table, VITS: other}[key] for key in declared.experiments}
    files = plotting.make(declared.settings, tables, {})
    assert files["png"][1:4] == b"PNG"
    frame = pd.read_csv(io.BytesIO(files["csv"]), keep_default_na=False, na_values=[""])
    if "table" in figure:
        whole = frame[frame["group"].isna()]
        assert len(whole) == 48 * 2
        assert set(whole["networks"]) == {80}
        assert whole["paper"].tolist() == [
            tau
            for columns in TABLES[figure][1].values()
            for taus in zip(*columns, strict=True)
            for tau in taus
        ]
    else:
        counts = frame[frame["row"] == "count"].groupby("experiment")
        assert [rows["networks"].tolist() for _, rows in counts] == [[80, 40, 40, 0, 0]] * 2
    assert 20 < len(declared.settings["caption"].split()) <= 80
