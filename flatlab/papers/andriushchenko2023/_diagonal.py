"""Claims about diagonal linear networks: which sharpness predicts their test loss."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from flatlab.claims import Claim, Claims, Evidence, Judge
from flatlab.claims.missing import FEWEST_RANKED, NotThere
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
"""The paper says that tau(test loss, trace) is "around 0.8"; here that is between `NEAR`."""


def rank_correlations(
    networks: pd.DataFrame, *pairs: tuple[str, str], where: str = ""
) -> list[Estimate]:
    """Kendall's tau-a of each pair of columns, over the networks for which all are finite."""
    values = networks[sorted({name for pair in pairs for name in pair})].astype(float)
    kept = values[np.isfinite(values).all(axis=1)]
    named = {f"tau({x}, {y}){where}": (x, y) for x, y in pairs}
    if len(kept) < FEWEST_RANKED:
        return [undefined(name, f"{name}: {len(kept)} networks have both") for name in named]
    strata = np.zeros(len(kept), np.int64)
    return [tau(n, kept[x].to_numpy(), kept[y].to_numpy(), strata) for n, (x, y) in named.items()]


def judged(judge: Callable[[pd.DataFrame], Verdict]) -> Judge:
    """A verdict on the networks that fit their data, with the number of those that do not."""

    def verdict(e: Evidence) -> Verdict:
        table = e.table(GRID)
        networks = fitted(table)
        if len(networks) < FEWEST_RANKED:
            wanted = f"at least {FEWEST_RANKED} are needed"
            raise NotThere(f"{GRID} has {len(networks)} networks that fit, {wanted}")
        count = {"quantity": "networks that did not reach the training loss", "n": len(networks)}
        return judge(networks).reporting({**count, "value": not_fitted(table)})

    return verdict


def claims(scales: str, ending: str = "") -> Claims:
    """The claims of Figure 7, with the Hessian rescaled in one way."""
    trace, largest = f"{TRACE}_{scales}", f"{LARGEST}_{scales}"

    def is_the_norm(networks: pd.DataFrame) -> Verdict:
        errors = relative_error(networks, scales)
        return median("median of |Tr/2 - |u v|_1| / |u v|_1", errors[np.isfinite(errors)]) < CLOSE

    def adaptive_is_better(networks: pd.DataFrame) -> Verdict:
        pairs = (TEST_LOSS, trace), (TEST_LOSS, f"{TRACE}_none")
        rescaled, plain = rank_correlations(networks, *pairs)
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
    return {
        f"c1{ending}": Claim(
            f"median relative error of |u v|_1 = {name}/2 of the rescaled Hessian < {CLOSE}",
            "Sec. 5.2 (1)",
            judged(is_the_norm),
        ),
        f"c2{ending}": Claim(
            f"tau(test loss, {name} of the rescaled Hessian) > tau(test loss, Tr of the Hessian)",
            "Sec. 5.2 (2)",
            judged(adaptive_is_better),
        ),
        f"c3{ending}": Claim(
            f"tau({name}, lambda_max of the rescaled Hessian) < 0, over all networks or over a "
            "third of them by learning rate or initialization",
            "Sec. 5.2 (3): can be even reverse",
            judged(can_be_reverse),
        ),
        f"c4{ending}": Claim(
            f"tau(test loss, {name} of the rescaled Hessian) between {NEAR[0]} and {NEAR[1]}; "
            f"the paper: around {PRINTED}",
            "Sec. 5.2",
            judged(about_as_printed),
        ),
    }
