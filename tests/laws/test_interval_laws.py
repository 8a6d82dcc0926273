"""Intervals cover as often as they say, and verdicts do not depend on the last bits of numbers.

`python -m benchmarks.coverage` simulates many more designs.
"""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import designs
from benchmarks.coverage import simulate
from flatlab.core import store
from flatlab.lab import claims, plan

DECISIVE = (
    "pooled, 3 x 5: rho 0.9, spread 0, t4",
    "within, 3 x 5: rho 0.9, spread 1, t4",
    "pooled, 5 x 5: rho 0.5, spread 0, normal",
    "pooled, 5 x 5: rho 0.0, spread 0, t4",
    "pooled, 5 x 5: rho 0.9, spread 0, t4",
    "adjusted, 5 x 5: rho 0.5, spread 1, normal",
    "difference, pooled, 5 x 5: rho 0.9 - 0.5, t4",
    "mean of 5: normal",
    "difference of means of 5 and 5: deviations 1 and 5, normal",
    "rise over 3 settings of 5: unequal deviations, t4",
    "tau of 20 checkpoints, mean of 5 runs: slope 1, memory 0.9, normal",
    "tau of 25 networks: rho 0.5, normal",
    "zoo of 13 x 2: intraclass 0.5, rho 0.5, normal",
)
KNOWN = {str(design): design for design in designs.designs()}


@pytest.mark.first(2)
@pytest.mark.parametrize("name", DECISIVE)
def test_an_interval_covers_the_truth_as_often_as_it_says(name):
    found = simulate(replace(KNOWN[name], replicates=2_000))
    assert not found.missed, found


FIGURES = [
    figure for figure in plan.figures() if figure.target in ("chen2026_figH7", "chen2026_fig2")
]


def tables(figure):
    place = plan.published_at("demo")
    return {key: store.load_dataset(place.table(key)) for key in figure.experiments}


def shaken(table):
    """Every number changed by a relative error of about 1e-12."""
    generator = np.random.default_rng(0)
    numbers = {n: v for n, v in table.data_vars.items() if np.issubdtype(v.dtype, np.floating)}
    return table.assign(
        {n: v * (1 + 1e-12 * generator.normal(size=v.shape)) for n, v in numbers.items()}
    )


@pytest.mark.first(1)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.target)
def test_rounding_turns_no_verdict(figure):
    before = tables(figure)
    after = {key: shaken(table) for key, table in before.items()}
    one, other = (claims.verify(figure.target, each)["claims"] for each in (before, after))
    assert [claim["verdict"] for claim in one] == [claim["verdict"] for claim in other]
    ps = [[claim["p"] or 0 for claim in each] for each in (one, other)]
    assert ps[0] == pytest.approx(ps[1], rel=1e-6, abs=1e-12)
