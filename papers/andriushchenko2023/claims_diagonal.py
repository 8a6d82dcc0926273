"""andriushchenko2023, Figure 7: diagonal linear networks.

Each claim is judged twice: with the scales for which the paper's formulas hold, and, with the
ending -printed, with the scales that it prints.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from flatlab.core.schema import OWN, REDUCED
from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS, require
from flatlab.lab.tables.networks import Networks
from flatlab.papers.andriushchenko2023._networks import COLUMNS, GRID, not_fitted, that_fit
from flatlab.stats.estimate import Estimate
from flatlab.stats.trends import median_below
from flatlab.stats.verdict import Verdict, some

DIAGONAL = Claims("andriushchenko2023")

CLOSE = 0.1
"""The relative error of a good approximation."""

PRINTED, AROUND = 0.8, 0.1
"""The paper says that tau(test loss, trace) is "around 0.8"; here: no farther from it than this."""


BY = ("lr", "end", "lr"), ("initial_trace", "start", COLUMNS["trace_none"])
"""By what thirds are formed: its name, time and column."""


def taus(networks: Networks, *pairs: tuple[str, str], where: str = "") -> list[Estimate]:
    """Kendall's tau of columns by the names that they have here, over the networks as a pool."""
    columns = ((COLUMNS[x], COLUMNS[y]) for x, y in pairs)
    return networks.taus(*columns, among="pool", where=where)


def thirds(networks: Networks) -> Iterator[tuple[str, Networks]]:
    """All networks, and thirds of them by learning rate and by initialization, by their names."""
    yield "", networks
    for name, time, column in BY:
        order = pd.Series(networks.at(time).column(column)).rank(method="first")
        parts = pd.qcut(order, 3, labels=False).to_numpy()
        for number in range(3):
            yield f", {number + 1}. third by {name}", networks.among(parts == number)


def fitted(e: ResultTables) -> Networks:
    """The networks that fit, as many as a rank correlation needs."""
    networks, statistic = that_fit(e.table(GRID)), "a rank correlation"
    require(networks.count, GRID, "networks that fit", "", statistic, FEWEST_FOR_RANKS)
    return networks


def left_out(e: ResultTables) -> dict[str, Any]:
    """How many do not, beside how many do, as an entry of the evidence."""
    what, table = "networks that did not reach the training loss", e.table(GRID)
    return {"quantity": what, "value": not_fitted(table), "n": that_fit(table).count}


def rescaled(scales: str, name: str, variant: str = "") -> None:
    """The claims of Figure 7, with the Hessian rescaled in one way.

    scales: the way.
    name: what its trace is called.
    variant: the ending of their keys.
    """
    trace, largest = f"trace_{scales}", f"lambda_max_{scales}"
    tau_with_loss = f"tau(test loss, {name} of the rescaled Hessian)"
    claim = partial(DIAGONAL, "fig7", source="Sec. 5.2", variant=variant)

    @claim(
        text=f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
        quote="(1) ||u ⊙ v||_1 is approximated well by 1/2 tr(∇̃²L(w))",
        threshold=CLOSE,
    )
    def _(e: ResultTables, error: float) -> Verdict:
        half, norm = fitted(e).column(COLUMNS[trace]) / 2, fitted(e).column(COLUMNS["norm_1"])
        errors = np.abs(half - norm) / norm
        finite = errors[np.isfinite(errors)]
        require(len(finite), GRID, "networks that fit and whose trace is finite")
        label = "median of |Tr/2 - |u v|_1| / |u v|_1"
        return median_below(label, finite, error).reporting(left_out(e))

    @claim(
        text=f"{tau_with_loss} > tau(test loss, Tr of the Hessian)",
        quote="(2) tr(∇̃²L(w)) correlates better than tr(∇²L(w)) so the adaptive part is important",
    )
    def _(e: ResultTables) -> Verdict:
        ours, plain = taus(fitted(e), ("test_loss", trace), ("test_loss", "trace_none"))
        return (ours > plain).reporting(ours.report(), plain.report(), left_out(e))

    @claim(
        text=f"tau({name}, lambda_max of the rescaled Hessian) < 0, over all networks or over a "
        "third of them by learning rate or initialization, corrected for these 7 comparisons",
        quote="(3) the relationship between tr(∇̃²L(w)) and λ_max(∇̃²L(w)) can be even reverse "
        "showing that different sharpness definitions capture totally different trends.",
    )
    def _(e: ResultTables) -> Verdict:
        groups = thirds(fitted(e))
        reverse = (taus(at, (trace, largest), where=where)[0] < 0 for where, at in groups)
        return some(reverse).reporting(left_out(e))

    @claim(
        text=f"{tau_with_loss} is within {AROUND} of {PRINTED}",
        quote="We also note that even with the right definition of sharpness, the correlation is "
        "not perfect (around τ = 0.8) [...]",
        threshold=AROUND,
        admits=(OWN, REDUCED),
    )
    def _(e: ResultTables, distance: float) -> Verdict:
        (tau,) = taus(fitted(e), ("test_loss", trace))
        near = (tau > PRINTED - distance) & (tau < PRINTED + distance)
        printed = {"quantity": "what the paper says it is, about", "value": PRINTED}
        return near.reporting(printed, left_out(e))


rescaled("balanced", "Tr")
rescaled("printed", "Tr as printed", "-printed")
