"""What decides the claims of andriushchenko2023: of recipes, released and diagonal networks."""

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from flatlab.lab.claims import verify
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.andriushchenko2023 import claims_released, fig7
from flatlab.papers.andriushchenko2023._names import (
    BERT,
    TABLE1,
    TABLE2,
    TABLE3,
    TABLE4,
    VIT,
    VIT21K,
)
from flatlab.papers.andriushchenko2023._networks import NETWORKS, fitted, not_fitted
from flatlab.papers.andriushchenko2023.claims_recipes import (
    PLAIN,
    RESNETS,
    VITS,
    Kind,
    error,
    excess_within,
    groups,
    sharpness,
    tau,
    taus_within,
)
from flatlab.papers.andriushchenko2023.claims_released import NORMALIZED, separation
from papers.andriushchenko2023.tests.tables import (
    EACH,
    OF_RECIPES,
    OF_RELEASED,
    claim_of,
    diagonal,
    recipes,
    verdict,
    zoo,
)
from tests.synthetic.tables import judged


def test_networks_as_good_as_others_that_are_sharper_by_a_factor_of_ten():
    """A fact about these networks: it is never undecided."""
    assert verdict("fig5/c4", recipes(own=0)).outcome == "holds"
    table = recipes(noise=0)
    place = {"definition": "worst-adaptive-linf", "radius_index": "0"}
    table["sharpness_at_radius"].loc[place] = table["sharpness_at_radius"].loc[place] ** 0.1
    found = verdict("fig5/c4", table)
    assert found.outcome == "fails"
    facts = [entry for entry in found.evidence if "largest" in entry["quantity"]]
    assert [entry["value"] >= 10 for entry in facts] == [True, False]
    assert facts[1]["quantity"].startswith("largest ratio of worst-adaptive-linf at 0.1")
    apart = recipes(each=2)
    apart["test_set_error"] = 100 * apart["test_set_error"]
    for few in (recipes(each=1), apart):
        assert verdict("fig5/c4", few).outcome == "not run"


RECIPES = {"table3": (TABLE3[RESNETS], 0.3), "table4": (TABLE4[VITS], 0.3)}


def signed(figure, size=1.0, flip=None, each=EACH):
    """Networks whose taus have the printed signs, if `size` is 1; a definition has the other ones.

    On the corrupted images they have the signs of the test images.
    """
    ways = np.sign([taus for taus, _ in RECIPES[figure][0].values()])
    if flip is not None:
        ways[flip] *= -1
    table = recipes(own=1, between=0, noise=0.05, each=each)
    inside = table["test_set_error"].sel(test_set="test").values[:, 0, None, None] - 20
    noise = np.random.default_rng(1).normal(size=(len(inside), *ways.shape))
    table["sharpness_at_radius"].values[:, 0, 0] = np.exp(size * ways * inside + 0.3 * noise)
    table["test_set_error"].values[:, 0, 1] = inside[:, 0, 0] + 0.05 * noise[:, 0, 0]
    return table


@pytest.mark.more
@pytest.mark.parametrize("figure", ["table3"])  # the other one differs in what is printed
def test_every_sign_has_to_be_the_printed_one_where_that_is_clear(figure):
    """Where the printed signs of both test sets are clear they agree, and 48 of 48 must."""
    tables = (signed(figure), signed(figure, flip=0), signed(figure, size=0.0, each=7))
    found = [verdict(f"{figure}/c1", table).outcome for table in tables]
    assert found == ["holds", "fails", "undecided"]


@pytest.mark.more
@pytest.mark.parametrize("figure", ["table3"])
def test_no_tau_may_be_above_a_weak_one(figure):
    limit = RECIPES[figure][1]
    cases = (recipes(own=-1, outside=-1), recipes(between=-1), signed(figure, limit / 6, each=7))
    found = [verdict(f"{figure}/c2", table) for table in cases]
    assert [each.outcome for each in found] == ["holds", "fails", "undecided"]
    assert sum(entry["claim"] == f"< {limit:g}" for entry in found[0].evidence) == 96


def test_networks_that_do_not_fit_are_left_out_and_each_group_says_how_many():
    table = recipes(between=1.2, augmented_error=18.0)
    found = verdict("fig5/c1", table)
    assert found.outcome == "not run"
    assert "0 of its 40 networks have a train error of at most 1 (median 18)" in found.reason
    assert "longer training or wider networks" in found.reason
    counts = {e["quantity"]: (e["value"], e["n"]) for e in found.evidence if "<=" in e["quantity"]}
    limit = "networks with train_error <= 1; recipes-grid"
    assert counts[limit] == (80, 160)
    assert counts[f"{limit}, augmentation crop-flip, mixup_alpha 0.5"] == (0, 40)
    assert verdict("fig5/c1-unaugmented", table).outcome == "holds"


def test_taus_are_those_of_scipy_over_all_networks_and_within_groups():
    table = recipes()
    networks = Kind("ResNets", RESNETS).networks(ResultTables({RESNETS: table}))
    x = table["sharpness_at_radius"].sel(definition="worst-adaptive-linf", radius_index="0")
    x, y = x.values.ravel(), table["test_set_error"].sel(test_set="corrupted").values.ravel()

    def of_scipy(rows):
        return kendalltau(x[rows], y[rows]).statistic

    whole = tau(networks, PLAIN, error("corrupted"))
    assert whole.value == pytest.approx(of_scipy(slice(None)))
    taus = taus_within(networks, PLAIN, error("corrupted"))
    differences = excess_within(networks, PLAIN, error("corrupted"))
    for number, (inside, difference) in enumerate(zip(taus, differences, strict=True)):
        assert inside.value == pytest.approx(of_scipy(slice(number * EACH, (number + 1) * EACH)))
        assert difference.point == pytest.approx(inside.point - whole.point)
        low, high = difference.interval()
        assert low < difference.point < high


def test_a_difference_from_all_networks_is_as_wide_as_if_each_were_left_out_of_both():
    """By hand: both taus without each network in turn."""
    table, kind = recipes(each=26), Kind("ResNets", RESNETS)
    networks = kind.networks(ResultTables({RESNETS: table}))
    (difference, *_) = excess_within(networks, PLAIN, error("test"))
    runs = np.arange(table.sizes["run"])
    for left_out in (0, 25, 26, 103):
        rest = kind.networks(ResultTables({RESNETS: table.isel(run=runs != left_out)}))
        inside = tau(groups(rest)[0], PLAIN, error("test"))
        expected = inside.point - tau(rest, PLAIN, error("test")).point
        assert difference.jackknife_values[left_out] == pytest.approx(expected)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "figure", ["fig5", "fig6", *(pytest.param(t, marks=pytest.mark.long) for t in RECIPES)]
)
def test_without_sharpness_or_a_test_set_no_claim_is_run(figure):
    table = recipes(each=26)
    for lacking, missing in (
        (table.drop_vars("sharpness_at_radius"), "has no sharpness_at_radius"),
        (table.sel(test_set=["corrupted"]), "has no test_set test"),
        (table.sel(definition=OF_RECIPES[:1]), "has no definition worst-"),
    ):
        tables = {RESNETS: lacking, VITS: lacking}
        for claim in verify(f"andriushchenko2023_{figure}", tables)["claims"]:
            if missing in claim["reason"]:
                assert claim["verdict"] in ("not run", "fails")
            else:
                assert (figure, missing) == ("fig6", "has no test_set test")  # not about these


RUNS = 700
PRINTED = {"table1": TABLE1, "table2": TABLE2, "table3": TABLE3, "table4": TABLE4}


def as_printed(key, printed, of=1.0):
    """Many networks whose taus are about those of a table, times a number.

    Of normal variables with the correlation sin(pi tau / 2) Kendall's tau is tau.
    """
    table, generator = zoo(key, runs=RUNS), np.random.default_rng(0)
    common = generator.normal(size=RUNS)
    taus = np.mean([printed[name] for name in OF_RELEASED], axis=1)  # definitions, radii
    table["test_set_error"][:] = 40 + 5 * common[:, None]
    table["test_error"][:] = 40 + 5 * common
    rho = np.sin(np.pi / 2 * of * taus)
    own = generator.normal(size=(RUNS, *rho.shape))
    table["sharpness_at_radius"][:] = np.exp(
        rho * common[:, None, None] + np.sqrt(1 - rho**2) * own
    )
    return table


@pytest.mark.more
@pytest.mark.parametrize("figure", [pytest.param("table1", marks=pytest.mark.long), "table2"])
def test_a_table_agrees_if_every_tau_does(figure, monkeypatch):
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


def test_printed_numbers_are_read_by_definition_test_set_and_radius():
    assert TABLE1[VIT]["worst-normalized-linf"][5] == (0.04, 0.03, -0.16)
    assert TABLE2[BERT]["average-adaptive-linf"][1][1] == -0.58
    assert TABLE3[RESNETS]["worst-normalized-l2"] == (
        (0.19, 0.07, -0.13, -0.52),
        (0.14, 0.0, -0.22, -0.58),
    )


def test_networks_that_fail_the_test_or_were_not_measured_do_not_count():
    table = zoo(VIT21K, slope=-1.0)
    table["test_error"][3], table["test_error"][7] = 99.5, np.nan
    assert {entry["n"] for entry in verdict("fig14/c1", table).evidence} == {238}


def test_one_value_of_dropout_separates_nothing():
    table = zoo(apart=5.0)
    table["dropout"][:] = 0.1
    found = verdict("fig2/c3", table)
    reason = "there are 1 values of dropout, two are needed"
    assert (found.outcome, found.reason) == ("not run", reason)


def test_the_area_of_two_clusters_is_that_of_scikit_learn():
    networks = claims_released.networks(ResultTables({VIT: zoo(apart=0.7)}), VIT)
    found, most = separation(networks, sharpness(NORMALIZED, 1), "sharpness")
    values, larger = networks.column(sharpness(NORMALIZED, 1)), networks.column("dropout") > 0
    area = (found.value / most + 1) / 2
    assert area == pytest.approx(roc_auc_score(larger, values), abs=1e-12)


@pytest.mark.parametrize("ending", ["", "-printed"])
def test_each_variant_is_judged_by_its_own_scales(ending):
    """The other one says the opposite."""
    own = "printed" if ending else "balanced"
    mixed, opposite = diagonal(), diagonal(rescaled=3, error=0.3, eigenvalue=2)
    for name in ("rescaled_trace", "rescaled_lambda_max"):
        mixed[name] = mixed[name].where(mixed["scales"].isin([own, "none"]), opposite[name])
    for number in (1, 2, 3, 4):
        assert verdict(f"fig7/c{number}{ending}", mixed).outcome == "holds", number


def test_a_test_loss_that_the_trace_tells_too_well_is_not_what_the_paper_says():
    assert verdict("fig7/c4", diagonal(rescaled=0.05)).outcome == "fails"


def test_one_of_seven_groups_that_is_hardly_reverse_is_not_enough():
    """Its own interval lies below zero, but it is the best of seven."""
    found = verdict("fig7/c3", diagonal(eigenvalue=-0.2, runs=78))
    of_groups = [entry for entry in found.evidence if entry["claim"] == "< 0"]
    assert len(of_groups) == 7
    assert any(entry["high"] < 0 for entry in of_groups)
    assert found.outcome == "undecided"


def test_a_third_of_the_networks_may_be_reverse():
    """By learning rate: the eigenvalue falls with the trace for the smallest rates alone."""
    table = diagonal(eigenvalue=2)
    smallest = table["lr"] <= np.quantile(table["lr"], 1 / 3)
    falling = 1 / table["rescaled_trace"]
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].where(~smallest, falling)
    table["rescaled_lambda_max"] = table["rescaled_lambda_max"].transpose(*falling.dims)
    assert verdict("fig7/c3", table).outcome == "holds"


def test_networks_that_do_not_fit_are_left_out_counted_and_too_few_are_not_judged():
    table = diagonal(runs=90, stopped=70)
    assert (len(fitted(table)), not_fitted(table)) == (70, 20)
    entries = verdict("fig7/c1", table).evidence
    counts = [entry for entry in entries if "did not reach" in entry["quantity"]]
    assert [(entry["value"], entry["n"]) for entry in counts] == [(20, 70)]
    found = verdict("fig7/c1", diagonal(stopped=5))
    assert found.outcome == "not run"
    assert "5 networks that fit" in found.reason


def test_of_many_networks_the_first_two_hundred_are_taken():
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


def test_the_error_of_the_trace_is_relative_to_the_norm():
    table = diagonal()
    half = fitted(table)["trace_balanced"] / 2
    errors = np.abs(half / fitted(table)["norm_1"] - 1)
    (entry, _) = verdict("fig7/c1", table).evidence
    assert entry["value"] == pytest.approx(np.median(errors))


def test_what_is_not_finite_is_left_out_of_its_correlation_alone():
    table = diagonal(runs=150)
    table["rescaled_trace"][3:6, 1, 0, 2] = np.inf
    frame = fig7.frame({}, ResultTables({"dln-grid": table})).set_index("panel")
    taus = frame[frame["row"] == "tau"]
    assert taus["networks"].to_dict() == {
        panel: 147 if panel == "printed" else 150 for panel in fig7.PANELS
    }
    assert verdict("fig7/c4-printed", table).outcome == "holds"
