"""The claims about released networks on synthetic tables: one holds, fails, is undecided."""

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import verify
from flatlab.papers.andriushchenko2023._printed_released import TABLE1, TABLE2
from flatlab.papers.andriushchenko2023._released import BERT, CLIP, IMAGES, SENTENCES, VIT, VIT21K
from flatlab.papers.andriushchenko2023._released_claims import CLAIMS
from flatlab.papers.andriushchenko2023._released_figures import FIGURES
from tests.synthetic.claim_tables import judged

DEFINITIONS = ["worst-normalized-linf", "worst-adaptive-linf"]
DEFINITIONS += ["average-normalized-linf", "average-adaptive-linf"]
NORMALIZED, PLAIN, AVERAGE, AVERAGE_PLAIN = DEFINITIONS


def zoo(
    key: str = VIT,
    runs: int = 240,
    slope: float | dict = 0.0,
    noise: float = 0.3,
    apart: float = 0.0,
    decay: float = 0.0,
    rate: float = 0.0,
    train: tuple[float, float] = (0.0, 0.0),
    spans: tuple[float, float] = (50.0, 1.0),
) -> xr.Dataset:
    """Networks whose sharpness follows their errors as `slope` says, by definition or for all.

    apart: how far dropout puts the sharpness.  decay: how the errors fall with weight decay.
    rate: how they go with the learning rate.  train: how the training error goes with them, and its
    noise.
    spans: of the errors on HANS lexical and MNLI.
    """
    generator = np.random.default_rng(1)
    sets = list(SENTENCES if key == BERT else IMAGES)
    good, dropout, weight_decay = generator.normal(size=(3, runs))
    dropout, weight_decay = dropout > 0, weight_decay > 0
    noises = generator.normal(size=(len(DEFINITIONS), runs))
    error = good - decay * weight_decay
    slopes = slope if isinstance(slope, dict) else dict.fromkeys(DEFINITIONS, slope)
    sharpness = np.stack(
        [
            slopes.get(name, 0.0) * error + noise * each
            for name, each in zip(DEFINITIONS, noises, strict=True)
        ],
        1,
    )
    sharpness += apart * dropout[:, None]
    errors = np.repeat(40 + 5 * error[:, None], len(sets), 1)
    if key == BERT:
        scaled = (error - error.min()) / np.ptp(error)
        errors[:, sets.index("hans-lexical")] = 45 + spans[0] * scaled
        errors[:, 0] = 16 + spans[1] * scaled
    lr = np.exp(rate * error + generator.normal(size=runs))
    sharp = np.exp(sharpness)[:, :, None].repeat(3, 2)
    variables = {
        "sharpness_at_radius": (("run", "definition", "radius_index"), sharp),
        "sharpness_radius": (("run", "definition", "radius_index"), np.full(sharp.shape, 0.002)),
        "test_set_error": (("run", "test_set"), errors),
        "test_error": ("run", errors[:, 0]),
        "train_error": ("run", 30 + train[0] * error + train[1] * generator.normal(size=runs)),
    }
    by_run = {"dropout": 0.1 * dropout, "weight_decay": 0.03 + 0.07 * weight_decay, "lr": lr}
    coordinates = {
        **{"run": [f"n{n}" for n in range(runs)], "definition": DEFINITIONS, "test_set": sets},
        **{name: ("run", values) for name, values in by_run.items()},
        "radius_index": list("012"),
    }
    about = {"experiment": key, "evidence": "own", "differs": [], "hyperparameters": []}
    return xr.Dataset(variables, coords=coordinates, attrs=about)


MIXED = {NORMALIZED: 0.0, PLAIN: -1.0}
FEW = {"runs": 40, "noise": 1.0}
CASES: dict[tuple[str, str], tuple[str, list[dict]]] = {
    ("fig2", "c1"): (VIT, [{}, {"slope": 1.0}, {**FEW, "slope": 0.15}]),
    ("fig2", "c2"): (VIT, [{"slope": -1.0}, {"slope": 1.0}, FEW]),
    ("fig2", "c3"): (VIT, [{"apart": 5.0}, {"noise": 1.0}, {"apart": 1.0, "runs": 40}]),
    ("fig2", "c4"): (VIT, [{"decay": 3.0}, {"decay": -3.0}, {"runs": 40}]),
    ("fig2", "c5"): (VIT, [{"slope": -1.0}, {"slope": 1.0}, {"noise": 1.0}]),
    ("fig3", "c1"): (CLIP, [{}, {"slope": 1.0}, {**FEW, "slope": 0.25}]),
    ("fig3", "c2"): (CLIP, [{"slope": -1.0}, {"slope": 1.0}, FEW]),
    ("fig3", "c3"): (CLIP, [{"rate": 1.0}, {"rate": -1.0}, {"runs": 40}]),
    ("fig4", "c1"): (BERT, [{"slope": -1.0}, {"slope": 1.0}, FEW]),
    ("fig4", "c2"): (BERT, [{"slope": -1.0}, {"slope": 1.0}, FEW]),
    ("fig4", "c3"): (BERT, [{}, {"spans": (30.0, 1.0)}, {"spans": (50.0, 3.0)}]),
    ("fig8", "c1"): (
        VIT,
        [{}, {"train": (8.0, 0.0), "slope": 1.0}, {"train": (0.0, 4.0), **FEW, "slope": 1.0}],
    ),
    ("fig9", "c1"): (
        CLIP,
        [{}, {"train": (8.0, 0.0), "slope": 1.0}, {"train": (0.0, 4.0), **FEW, "slope": 1.0}],
    ),
    **{
        (figure, "c1"): (key, [{"slope": -1.0}, {"slope": 1.0}, {**FEW, "slope": 0.25}])
        for figure, key in {
            **{"fig10": VIT, "fig11": VIT, "fig13": VIT, "fig14": VIT21K, "fig15": VIT21K}
        }.items()
    },
    ("fig12", "c1"): (VIT, [{"slope": 1.0}, {"slope": -1.0}, {**FEW, "slope": 0.4}]),
}
OUTCOMES = ["holds", "fails", "undecided"]
EXACT = ("fig4", "c3")
"""About all the networks that there are: it is never undecided."""


def test_every_claim_has_its_three_tables():
    there = {(figure, key) for figure, claims in CLAIMS.items() for key in claims}
    assert there - {("table1", "c1"), ("table2", "c1")} == {*CASES}
    assert {*CLAIMS} == {*FIGURES}


@pytest.mark.parametrize("place", CASES, ids="/".join)
def test_a_claim_holds_fails_or_is_undecided_as_the_networks_say(place):
    (figure, number), (key, cases) = place, CASES[place]
    found = [judged(CLAIMS[figure][number], zoo(key, **case)).outcome for case in cases]
    assert found == (OUTCOMES if place != EXACT else ["holds", "fails", "fails"])


@pytest.mark.parametrize("place", CASES, ids="/".join)
@pytest.mark.parametrize("kind", ["reduced", "stand-in"])
def test_of_other_networks_nothing_is_judged(place, kind):
    (figure, number), (key, cases) = place, CASES[place]
    table = zoo(key, **cases[0])
    table.attrs["evidence"] = kind
    verdict = judged(CLAIMS[figure][number], table)
    assert verdict.outcome == "not run"
    assert verdict.reason == f"the evidence is {kind}, and this claim admits own alone"
    assert {entry["claim"] for entry in verdict.evidence} == {"reported, not judged"}


def as_printed(key: str, printed: dict, of: float = 1.0) -> xr.Dataset:
    """Many networks whose taus are about those of a table, times a number.

    Of normal variables with the correlation sin(pi tau / 2) Kendall's tau is tau.
    """
    table = zoo(key, runs=1500)
    generator = np.random.default_rng(0)
    sets = table["test_set"].values
    taus = np.array([printed[name] for name in DEFINITIONS])  # definitions, sets, radii
    mean = taus.mean((0, 2)) * 0
    common = generator.normal(size=1500)
    errors = np.repeat(40 + 5 * common[:, None], len(sets), 1)
    table["test_set_error"][:] = errors + mean
    table["test_error"][:] = errors[:, 0]
    rho = np.sin(np.pi / 2 * of * taus.mean(1))
    own = generator.normal(size=(1500, *rho.shape))
    table["sharpness_at_radius"][:] = np.exp(
        rho * common[:, None, None] + np.sqrt(1 - rho**2) * own
    )
    return table


@pytest.mark.parametrize(
    ("figure", "keys", "printed"),
    [("table1", (VIT, VIT21K, CLIP), TABLE1), ("table2", (BERT,), TABLE2)],
)
def test_a_table_agrees_if_every_tau_does(figure, keys, printed):
    """With the mean over the test sets printed for each of them, as here all errors are alike."""
    alike = {
        key: {
            name: (tuple(np.mean(of_sets, axis=0)),) * len(of_sets)
            for name, of_sets in printed[key].items()
        }
        for key in keys
    }
    before = {key: dict(printed[key]) for key in keys}
    claim = CLAIMS[figure]["c1"]
    with pytest.MonkeyPatch.context() as patch:
        for key in keys:
            for name, taus in alike[key].items():
                patch.setitem(printed[key], name, taus)
        ours = [as_printed(key, printed[key]) for key in keys]
        assert judged(claim, *ours).outcome == "holds"
        opposite = [as_printed(key, printed[key], -1.0) for key in keys]
        assert judged(claim, *opposite).outcome == "fails"
        few = [table.isel(run=slice(40)) for table in ours]
        assert judged(claim, *few).outcome == "undecided"
    assert {key: dict(printed[key]) for key in keys} == before


def test_networks_that_fail_the_test_or_were_not_measured_do_not_count():
    table = zoo(VIT21K, slope=-1.0)
    table["test_error"][3] = 99.5
    table["test_error"][7] = np.nan
    verdict = judged(CLAIMS["fig14"]["c1"], table)
    assert {entry["n"] for entry in verdict.evidence} == {238}


def test_too_few_networks_are_not_judged():
    verdict = judged(CLAIMS["fig2"]["c2"], zoo(runs=24, slope=-1.0))
    assert verdict.outcome == "not run"
    assert "24 networks, it needs 25" in verdict.reason


def test_one_value_of_dropout_separates_nothing():
    table = zoo(apart=5.0)
    table["dropout"][:] = 0.1
    verdict = judged(CLAIMS["fig2"]["c3"], table)
    assert (verdict.outcome, verdict.reason) == (
        "not run",
        "there are 1 values of dropout, two are needed",
    )


def test_the_area_of_two_clusters_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    from flatlab.claims import Evidence
    from flatlab.papers.andriushchenko2023._released_pools import pool, separation

    table = zoo(apart=0.7)
    networks = pool(Evidence({VIT: table}), VIT, "dropout")
    frame = networks.columns((NORMALIZED, 1))
    values, larger = frame.iloc[:, -1], frame["dropout"].to_numpy() > 0
    tau, most = separation("sharpness", values, larger)
    pairs = len(values) * (len(values) - 1) / 2
    area = (tau.value * (pairs + 1) / pairs / most + 1) / 2  # less the shrinkage of tau
    assert area == pytest.approx(roc_auc_score(larger, values), abs=1e-12)


def test_verdicts_name_the_figure():
    entries = verify("andriushchenko2023_fig3", {CLIP: zoo(CLIP)})["claims"]
    assert [entry["id"] for entry in entries] == [
        f"andriushchenko2023_fig3/c{n}" for n in (1, 2, 3)
    ]
