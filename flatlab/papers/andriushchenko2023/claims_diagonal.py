"""andriushchenko2023, Figure 7: diagonal linear networks.

Each claim is judged twice: with the scales for which the paper's formulas hold, and, with the
ending -printed, with the scales that it prints.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from flatlab.claims.registry import Claims
from flatlab.claims.result_tables import ResultTables
from flatlab.papers.andriushchenko2023._networks import (
    COLUMNS,
    GRID,
    initial_trace,
    not_fitted,
    that_fit,
)
from flatlab.plan.schema import OWN, REDUCED
from flatlab.stats.estimate import Estimate
from flatlab.stats.trends import median_below
from flatlab.stats.verdict import Verdict, some
from flatlab.tables.eligibility import FEWEST_FOR_RANKS, NotEligible, require, too_few
from flatlab.tables.networks import Networks

DIAGONAL = Claims("andriushchenko2023")

CLOSE = 0.1
"""The relative error of a good approximation."""

PRINTED, AROUND = 0.8, 0.1
"""The paper says that tau(test loss, trace) is "around 0.8"; here: no farther from it than this."""


def taus(networks: Networks, *pairs: tuple[str, str], where: str = "") -> list[Estimate]:
    """Kendall's tau of columns by the names that they have here, over the networks as a pool."""
    columns = ((COLUMNS[x], COLUMNS[y]) for x, y in pairs)
    return networks.taus(*columns, among="pool", where=where)


def thirds(networks: Networks) -> Iterator[tuple[str, Networks]]:
    """All networks, and thirds of them by learning rate and by initialization, by their names."""
    yield "", networks
    for name, values in (("lr", networks.column("lr")), ("initial_trace", initial_trace(networks))):
        parts = pd.qcut(pd.Series(values).rank(method="first"), 3, labels=False).to_numpy()
        for number in range(3):
            yield f", {number + 1}. third by {name}", networks.among(parts == number)


def diagonal(
    text: str, quote: str, scales: str, **about: Any
) -> Callable[[Callable[..., Verdict]], None]:
    """Register a claim about the networks that fit; its verdict tells how many do not.

    text, quote, about: see `Claims`.
    scales: with which the Hessian is rescaled.
    """

    def register(judge: Callable[..., Verdict]) -> None:
        def predicate(e: ResultTables, *threshold: float) -> Verdict:
            table = e.table(GRID)
            networks = that_fit(table)
            if networks.count < FEWEST_FOR_RANKS:
                what = "networks that fit", "a rank correlation"
                raise NotEligible(too_few(f"{GRID} has", networks.count, *what, FEWEST_FOR_RANKS))
            count = {"quantity": "networks that did not reach the training loss"}
            entry = {**count, "n": networks.count, "value": not_fitted(table)}
            return judge(networks, *threshold).reporting(entry)

        variant = "-printed" if scales == "printed" else ""
        DIAGONAL("fig7", text, "Sec. 5.2", quote, variant=variant, **about)(predicate)

    return register


def rescaled(scales: str, name: str) -> None:
    """The claims of Figure 7, with the Hessian rescaled in one way.

    scales: the way.
    name: what its trace is called.
    """
    trace, largest = f"trace_{scales}", f"lambda_max_{scales}"
    tau_with_loss = f"tau(test loss, {name} of the rescaled Hessian)"

    @diagonal(
        f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
        "(1) ||u ⊙ v||_1 is approximated well by 1/2 tr(∇̃²L(w))",
        scales,
        threshold=CLOSE,
    )
    def _(networks: Networks, error: float) -> Verdict:
        half, norm = networks.column(COLUMNS[trace]) / 2, networks.column(COLUMNS["norm_1"])
        errors = np.abs(half - norm) / norm
        finite = errors[np.isfinite(errors)]
        require(len(finite), GRID, "networks that fit and whose trace is finite")
        return median_below("median of |Tr/2 - |u v|_1| / |u v|_1", finite, error)

    @diagonal(
        f"{tau_with_loss} > tau(test loss, Tr of the Hessian)",
        "(2) tr(∇̃²L(w)) correlates better than tr(∇²L(w)) so the adaptive part is important",
        scales,
    )
    def _(networks: Networks) -> Verdict:
        ours, plain = taus(networks, ("test_loss", trace), ("test_loss", "trace_none"))
        return (ours > plain).reporting(ours.report(), plain.report())

    @diagonal(
        f"tau({name}, lambda_max of the rescaled Hessian) < 0, over all networks or over a third "
        "of them by learning rate or initialization, corrected for these 7 comparisons",
        "(3) the relationship between tr(∇̃²L(w)) and λ_max(∇̃²L(w)) can be even reverse showing "
        "that different sharpness definitions capture totally different trends.",
        scales,
    )
    def _(networks: Networks) -> Verdict:
        groups = thirds(networks)
        return some(taus(at, (trace, largest), where=where)[0] < 0 for where, at in groups)

    @diagonal(
        f"{tau_with_loss} is within {AROUND} of {PRINTED}",
        "We also note that even with the right definition of sharpness, the correlation is not "
        "perfect (around τ = 0.8) [...]",
        scales,
        threshold=AROUND,
        admits=(OWN, REDUCED),
    )
    def _(networks: Networks, distance: float) -> Verdict:
        (tau,) = taus(networks, ("test_loss", trace))
        near = (tau > PRINTED - distance) & (tau < PRINTED + distance)
        return near.reporting({"quantity": "what the paper says it is, about", "value": PRINTED})


rescaled("balanced", "Tr")
rescaled("printed", "Tr as printed")
