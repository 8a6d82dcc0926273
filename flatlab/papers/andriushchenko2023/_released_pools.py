"""What the claims about released networks compare: their taus, and two groups of them."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from flatlab.claims.claim import Claim
from flatlab.claims.eligibility import NotThere
from flatlab.claims.evidence import Evidence
from flatlab.claims.numbering import states
from flatlab.claims.ranks import Pool, ranked
from flatlab.papers.andriushchenko2023._released import MEASURED
from flatlab.plan.schema import OWN
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict

Predicate = Callable[..., Verdict]
TRAIN = "train_error"


def said(text: str, source: str, quote: str, **about: float | str) -> Callable[[Predicate], Claim]:
    """A claim about the released networks themselves: no others can decide it."""
    return states(text, source, quote=quote, admits=(OWN,), **about)


def pool(e: Evidence, key: str, *by: str) -> Pool:
    """The networks that were measured and do not fail the test.  by: hyper-parameters."""
    return Pool.of(e, key, {**MEASURED, TRAIN: 100.0}, by)


def taus(
    e: Evidence, key: str, definitions: Iterable[str], radii: Iterable[int], sets: Iterable[str]
) -> list[Estimate]:
    """Kendall's tau of sharpness and errors."""
    networks = pool(e, key)
    which = itertools.product(definitions, radii, sets)
    return [networks.tau((definition, radius), name) for definition, radius, name in which]


def of_gaps(e: Evidence, key: str, definition: str, radius: int, test_set: str) -> Estimate:
    """Kendall's tau of sharpness and the test error less the training error."""
    networks = pool(e, key)
    sharpness, error = networks.column((definition, radius))[0], networks.column(test_set)[0]
    frame = networks.columns((definition, radius), test_set, TRAIN)
    frame[f"{error} - {TRAIN}"] = frame[error] - frame[TRAIN]
    return ranked(frame, (sharpness, f"{error} - {TRAIN}"), where=f"; {key}")[0]


def has_the_larger(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Whether each network has the larger of two values of a hyper-parameter."""
    levels = frame[name].dropna().unique()
    if len(levels) != 2:
        raise NotThere(f"there are {len(levels)} values of {name}, two are needed")
    return (frame[name] == max(levels)).to_numpy()


def separation(name: str, values: pd.Series, larger: np.ndarray) -> tuple[Estimate, float]:
    """Kendall's tau of a value and a group, and its largest value, for groups that are apart.

    tau-a = (2 AUC - 1) 2 n_0 n_1 / (n (n - 1)), with AUC the area under the ROC curve, so that a
    claim about this area is one about tau, and has its interval.
    """
    (tau,) = ranked(pd.DataFrame({name: values, "group": larger.astype(float)}), (name, "group"))
    n, ones = len(larger), int(larger.sum())
    return tau, 2 * ones * (n - ones) / max(n * (n - 1), 1)
