"""The claims about learning rates and batch sizes on synthetic tables."""

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
import xarray as xr

from flatlab.claims import Evidence
from flatlab.papers.macdonald2023.claims import CLAIMS
from flatlab.papers.macdonald2023.claims_rates import HUNDRED as RATES_100
from flatlab.papers.macdonald2023.claims_rates import TEN as RATES
from flatlab.stats.ranks import Ranks
from tests.synthetic.ends_tables import (
    GAP,
    SHARPNESS,
    Columns,
    J,
    Rule,
    outcome,
    seeds_alone,
    table,
)


def small(c: Columns) -> np.ndarray:
    """Falls with the learning rate and rises with the batch size."""
    return 3 - np.log10(c["lr"]) + np.log2(c["batch_size"]) / 10 + c["noise"]


def turned(c: Columns) -> np.ndarray:
    """The same but for ResNets at the largest learning rate, where it falls with the batch size."""
    there = (c["lr"] == 0.1) & (c["architecture"] == "resnet")
    return np.where(there, 4.6 - np.log2(c["batch_size"]) / 10 - c["noise"], small(c))


RATE_RULES: dict[str, Rule] = {SHARPNESS: small, GAP: small, J: turned}
NEGATED: dict[str, Rule] = {
    name: lambda c, rule=rule: 20 - rule(c) for name, rule in RATE_RULES.items()
}
CONSTANT: dict[str, Rule] = dict.fromkeys(RATE_RULES, seeds_alone)


def mixed(c: Columns) -> np.ndarray:
    """Neither rises nor falls in order."""
    return 5 + 100 * c["noise"] * np.where(np.log2(c["batch_size"]) % 2 == 0, 1, -1)


def rates(grid: str = RATES, rules: Mapping[str, Rule] | None = None) -> xr.Dataset:
    factors = {
        "architecture": ["resnet", "vgg"],
        "lr": [0.1, 0.01, 0.001],
        "batch_size": [64, 128, 256, 512, 1024],
    }
    rows = [dict(zip(factors, v, strict=True)) for v in itertools.product(*factors.values())]
    return table(grid, rows, {**RATE_RULES, **(rules or {})})


RATE_CASES: dict[tuple[str, str], tuple[Mapping[str, Rule], Mapping[str, Rule]]] = {
    ("fig3", "c1"): (NEGATED, CONSTANT),
    ("fig3", "c2"): ({J: NEGATED[J]}, {J: mixed}),
    ("fig3", "c3"): ({J: NEGATED[SHARPNESS]}, {J: seeds_alone}),
    ("fig4", "c1"): (NEGATED, {J: mixed}),
    ("fig4", "c2"): ({J: small}, {J: mixed}),
    **{
        (figure, "c1"): (NEGATED, {GAP: mixed})
        for figure in ("fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "fig18", "fig19")
    },
    **{
        (figure, "c2"): ({J: NEGATED[J]}, {J: mixed})
        for figure in ("fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "fig18", "fig19")
    },
    ("fig17", "c3"): ({J: small}, {J: mixed}),
    **{(figure, "c3"): ({J: NEGATED[J]}, {J: mixed}) for figure in ("fig18", "fig19")},
}
"""Rules with which a claim fails, and with which it is undecided."""


@pytest.mark.parametrize(("figure", "key"), RATE_CASES)
def test_a_claim_about_rates_holds_fails_or_is_undecided(figure: str, key: str) -> None:
    grid = RATES_100 if figure in ("fig13", "fig15", "fig17", "fig19") else RATES
    found = [outcome(figure, key, rates(grid, r)) for r in ({}, *RATE_CASES[figure, key])]
    assert found == ["holds", "fails", "undecided"]


def test_what_is_typical_may_be_otherwise_at_one_batch_size_and_not_at_two() -> None:
    def other_at(*sizes: int) -> str:
        def rule(c: Columns) -> np.ndarray:
            return np.where(np.isin(c["batch_size"], sizes), 20 - small(c), small(c))

        return outcome("fig3", "c1", rates(rules={SHARPNESS: rule}))

    assert [other_at(64), other_at(64, 128)] == ["holds", "fails"]


def test_four_of_five_batch_sizes_need_no_correction_for_all_choices_of_four() -> None:
    """Two times the fourth p-value: each of four alone is enough, not five times."""
    noise = np.random.default_rng(3).normal(size=5)

    def rule(c: Columns) -> np.ndarray:
        falls = small(c) + 0.3 * noise[c["seed"].astype(int)]
        return np.where(c["batch_size"] == 64, 20 - small(c), falls)

    made = rates(rules={J: rule})
    verdict = CLAIMS["fig3"]["c3"].judge(Evidence({RATES: made}))
    assert verdict.outcome == "holds"
    assert len(verdict.evidence) == 5 * 2  # each step of the rate once


def test_settings_are_fixed_and_seeds_alone_vary_by_chance() -> None:
    """A rank correlation over settings that differ, with little noise, has a narrow interval."""

    def noisy(c: Columns) -> np.ndarray:
        return small(c) + 3 * c["noise"] * np.cos(np.arange(len(c["lr"])))

    made = rates(rules={J: noisy})
    found = Evidence({RATES: made})[RATES].where(architecture="resnet").tau("lr", J)
    low, high = found.interval()
    assert high - low < 0.05
    resnets = made.sel(run=made["architecture"].values == "resnet")
    ends = resnets["lr"].values, resnets[J].values[:, 0, 0]
    pool = Ranks({"lr": ends[0], J: ends[1]}, settings=None)
    anyhow = pool.tau("lr", J).interval()
    assert anyhow[1] - anyhow[0] > 4 * (high - low)
    pairs = len(ends[0]) * (len(ends[0]) - 1) / 2
    signs = np.sign(np.subtract.outer(ends[0], ends[0]) * np.subtract.outer(ends[1], ends[1]))
    assert found.value == pytest.approx(signs.sum() / 2 / (pairs + 1))


@pytest.mark.parametrize("figure", ["fig13", "fig15", "fig17", "fig19"])
def test_digits_in_place_of_cifar100_decide_nothing(figure: str) -> None:
    stand_in = rates(RATES_100)
    stand_in.attrs["evidence"] = "stand-in"
    for key, claim in CLAIMS[figure].items():
        verdict = claim.judge(Evidence({RATES_100: stand_in}))
        assert verdict.outcome == "not run", key
        assert "the evidence is stand-in" in verdict.reason
        assert verdict.evidence  # its numbers are reported all the same


@pytest.mark.parametrize(("figure", "key"), [("fig3", "c1"), ("fig4", "c1"), ("fig12", "c1")])
def test_eigenvalues_that_did_not_converge_decide_nothing(figure: str, key: str) -> None:
    made = rates()
    assert outcome(figure, key, made) == "holds"
    made["hessian_converged"][::20] = 0
    assert outcome(figure, key, made) == "not run"
    assert outcome(figure, "c2", made) == "holds"


@pytest.mark.parametrize("figure", ["fig3", "fig12"])
def test_without_a_quantity_a_claim_is_not_run_and_says_which(figure: str) -> None:
    entry = CLAIMS[figure]["c1"].entry("name", Evidence({RATES: rates().drop_vars(GAP)}))
    assert entry["verdict"] == "not run"
    assert f"no {GAP}" in entry["reason"]
