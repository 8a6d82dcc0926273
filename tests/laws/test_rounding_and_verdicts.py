"""Verdicts do not depend on the last bits of the numbers that they are judged by."""

import numpy as np
import pytest

from flatlab.core import store
from flatlab.lab import claims, plan

FIGURES = [
    figure
    for figure in plan.figures()
    if figure.target in ("chen2026_figH7", "chen2026_figH8", "chen2026_fig2", "chen2026_figI11")
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


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.target)
def test_rounding_turns_no_verdict(figure):
    before = tables(figure)
    after = {key: shaken(table) for key, table in before.items()}
    one, other = (claims.verify(figure.target, each)["claims"] for each in (before, after))
    assert [claim["verdict"] for claim in one] == [claim["verdict"] for claim in other]
    ps = [[claim["p"] or 0 for claim in each] for each in (one, other)]
    assert ps[0] == pytest.approx(ps[1], rel=1e-6, abs=1e-12)
