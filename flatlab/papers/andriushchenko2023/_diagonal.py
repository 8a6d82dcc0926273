"""Claims about diagonal linear networks: which sharpness tells their test loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from flatlab.claims import Claim, Evidence
from flatlab.claims.missing import FEWEST_RANKED, NotThere, attempt
from flatlab.papers.andriushchenko2023._networks import (
    GRID,
    LARGEST,
    START,
    TEST_LOSS,
    TRACE,
    fitted,
    not_fitted,
    relative_error,
)
from flatlab.stats import Estimate, Verdict, some, undefined
from flatlab.stats.trends import median, tau

CLOSE = 0.1
NEAR = (0.7, 0.9)
PRINTED = 0.8
"""Of tau(test loss, trace) the paper says "around 0.8"; here between `NEAR`."""


def rank_correlations(
    networks: pd.DataFrame, *pairs: tuple[str, str], where: str = ""
) -> list[Estimate]:
    """Kendall's tau-a of each pair of columns, of the networks for which all are finite."""
    used = sorted({name for pair in pairs for name in pair})
    values = networks[used].to_numpy(dtype=float)
    kept = networks[np.isfinite(values).all(axis=1)]
    strata = np.zeros(len(kept), np.int64)
    names = [f"tau({x}, {y}){where}" for x, y in pairs]
    if len(kept) < FEWEST_RANKED:
        return [undefined(name, f"{name}: {len(kept)} networks have both") for name in names]
    return [
        tau(name, kept[x].to_numpy(dtype=float), kept[y].to_numpy(dtype=float), strata)
        for name, (x, y) in zip(names, pairs, strict=True)
    ]


def judged(judge: Callable[[pd.DataFrame], Verdict]) -> Callable[[Evidence], Verdict]:
    """A verdict on the networks that fit, with how many do not; `not run` without them."""

    def counted(e: Evidence) -> Verdict:
        networks = fitted(e.table(GRID))
        if len(networks) < FEWEST_RANKED:
            wanted = f"at least {FEWEST_RANKED} are wanted"
            raise NotThere(f"{GRID} has {len(networks)} networks that fit, {wanted}")
        count = {"quantity": "networks that did not reach the training loss", "n": len(networks)}
        return judge(networks).reporting({**count, "value": not_fitted(e.table(GRID))})

    return lambda e: attempt(lambda: counted(e), lambda reason: undefined("networks", reason) > 0)


def claims(scales: str, ending: str = "") -> list[Claim]:
    """Those of Figure 7, of the Hessian rescaled in one way."""
    trace, largest = f"{TRACE}_{scales}", f"{LARGEST}_{scales}"

    def is_the_norm(networks: pd.DataFrame) -> Verdict:
        errors = relative_error(networks, scales)
        return median("median of |Tr/2 - |u v|_1| / |u v|_1", errors[np.isfinite(errors)]) < CLOSE

    def adaptive_is_better(networks: pd.DataFrame) -> Verdict:
        rescaled, plain = rank_correlations(
            networks, (TEST_LOSS, trace), (TEST_LOSS, f"{TRACE}_none")
        )
        return (rescaled > plain).reporting(rescaled.report(), plain.report())

    def can_be_reverse(networks: pd.DataFrame) -> Verdict:
        groups = {"": networks}
        for column in ("lr", START):
            thirds = pd.qcut(networks[column].rank(method="first"), 3, labels=False)
            groups |= {f", {n + 1}. third by {column}": networks[thirds == n] for n in range(3)}
        return some(
            rank_correlations(group, (trace, largest), where=where)[0] < 0
            for where, group in groups.items()
        )

    def about_as_printed(networks: pd.DataFrame) -> Verdict:
        (found,) = rank_correlations(networks, (TEST_LOSS, trace))
        printed = {"quantity": "what the paper says it is, about", "value": PRINTED}
        return ((found > NEAR[0]) & (found < NEAR[1])).reporting(printed)

    name = "Tr" if not ending else "Tr as printed"
    return [
        Claim(
            f"c1{ending}",
            f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
            "Sec. 5.2 (1)",
            judged(is_the_norm),
        ),
        Claim(
            f"c2{ending}",
            f"tau(test loss, {name} of the rescaled Hessian) > tau(test loss, Tr of the Hessian)",
            "Sec. 5.2 (2)",
            judged(adaptive_is_better),
        ),
        Claim(
            f"c3{ending}",
            f"tau({name}, lambda_max of the rescaled Hessian) < 0, of all networks or of a third "
            "of them by learning rate or initialization",
            "Sec. 5.2 (3): can be even reverse",
            judged(can_be_reverse),
        ),
        Claim(
            f"c4{ending}",
            f"tau(test loss, {name} of the rescaled Hessian) between {NEAR[0]} and {NEAR[1]}; "
            f"the paper: around {PRINTED}",
            "Sec. 5.2",
            judged(about_as_printed),
        ),
    ]


DIAGONAL = [*claims("balanced"), *claims("printed", "-printed")]
