"""beyond: whether compression matters, given flatness.

Declared before any of the networks was trained. SAM makes networks flat, a penalty on the Jacobian
makes them insensitive, and each does some of the other. A network of SAM is compared with the
penalized one of the same seed that is as flat, or as sensitive: linear interpolation over the
logarithm of root sharpness, or of MLS, between two strengths of the penalty. Pairs count by how far
apart they are in the other of both. Effects are over seeds.

A pilot with seed 90 looked at training errors, root sharpness and MLS alone. With the cross-entropy
ranges overlap: perceptrons of SAM have a root of sharpness of 211 to 286 and an MLS of 10.1 to
14.2, penalized ones of 143 to 238 and 3.0 to 10.8, that with neither 288 and 14.3; LeNets of SAM
290 to 540 and 19.5 to 21.2, penalized ones 351 to 478 and 3.7 to 13.9, that with neither 612 and
20.9. With half-MSE those of perceptrons do not: SAM has 8.6 to 10.7 and at most 0.17 where all fit,
the penalty 12.2 to 13.5 and at least 0.19.

Simulated on this design, with 4 of 5 pairs in the range and errors that vary by 0.35 points between
perceptrons and by 1 point between LeNets: the first statement is found with a probability of 0.88
and 0.90 if the more compressed network makes 0.3 and 0.9 points fewer errors; each part of the
second with at least 0.95 if there is no effect.

Left out are networks that diverge or have a training error above 1 %.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from flatlab.lab.claims import Claims
from flatlab.lab.tables.eligibility import estimate, require
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.papers.beyond._joint import FITS
from flatlab.papers.beyond.claims_joint import BEFORE
from flatlab.stats.estimate import Array, Estimate, over_seeds
from flatlab.stats.trends import mean
from flatlab.stats.verdict import Verdict, every

MATCHED = Claims("beyond")
FIGURE = "fig17"
GRIDS = {"matched-mlp-grid": "perceptrons", "matched-lenet-grid": "LeNets"}
BOUND = {"matched-mlp-grid": 0.5, "matched-lenet-grid": 1.0}
"""The most fewer errors that flatness may be worth at equal MLS, in points."""
S, MLS = "root_sharpness", "mls"
CORRUPTED = "test_set_error[corrupted]"
ERRORS = {CORRUPTED: "errors on corrupted images", "test_error": "errors on clean images"}
OUTCOMES = {**ERRORS, "accuracy_gap": "accuracy gap", "loss_gap": "loss gap"}
BETTER = {
    S: "the more compressed of two equally flat",
    MLS: "the flatter of two equally compressed",
}


def that_fit(networks: Networks) -> dict[str, Array]:
    """Columns of the networks that fit, S and MLS as logarithms: (networks)."""
    fit = networks.values("train_error") <= FITS
    found = {name: networks.values(name)[fit] for name in (S, MLS, *OUTCOMES)}
    found |= {name: np.log(found[name]) for name in (S, MLS)}
    factors = ("seed", "sam_radius", "jacobian_penalty")
    return found | {name: networks.data[name].values[fit] for name in factors}


def differences(networks: Networks, same: str, outcome: str) -> Iterator[tuple[Array, Array]]:
    """Of each seed, of SAM less the penalized networks: the other of S and MLS, and the outcome.

    same: the one of S and MLS that is equal. A network of SAM outside of the range is in no pair.
    """
    columns, other = that_fit(networks), MLS if same == S else S
    for seed in np.unique(columns["seed"]):
        own = {name: values[columns["seed"] == seed] for name, values in columns.items()}
        sam = own["sam_radius"] > 0
        penalized = np.flatnonzero(~sam)[np.argsort(own[same][~sam])]
        if not len(penalized):
            continue
        known, at = own[same][penalized], own[same][sam]
        inside = (at >= known[0]) & (at <= known[-1])
        both = [
            (own[name][sam] - np.interp(at, known, own[name][penalized]))[inside]
            for name in (other, outcome)
        ]
        if inside.any():
            yield both[0], both[1]


def effect(networks: Networks, same: str, outcome: str) -> Estimate:
    """By how much less of an outcome the more compressed, or the flatter, network of a pair has."""
    name = f"{OUTCOMES[outcome]} less in {BETTER[same]}; {GRIDS[networks.key]}"

    def over_the_seeds() -> Estimate:
        found = list(differences(networks, same, outcome))
        require(len(found), networks.key, "seeds with a pair")
        by_seed = [(of * gap).sum() / np.abs(gap).sum() for gap, of in found]
        return over_seeds(name, mean, np.array(by_seed))

    return estimate(name, over_the_seeds)


def beside(e: ResultTables) -> list[dict[str, object]]:
    """What is reported with both verdicts: all effects."""
    chosen = product(GRIDS, BETTER, OUTCOMES)
    return [effect(e[grid], same, outcome).report() for grid, same, outcome in chosen]


@MATCHED(
    FIGURE,
    f"{OUTCOMES[CORRUPTED]} less in {BETTER[S]} > 0, in both grids",
    BEFORE,
    "Of two equally flat networks the more compressed one makes fewer errors on corrupted images. "
    "Refuted if in a grid it makes more.",
)
def _(e: ResultTables) -> Verdict:
    found = every(effect(e[grid], S, CORRUPTED) > 0 for grid in GRIDS)
    return found.reporting(*beside(e))


@MATCHED(
    FIGURE,
    f"errors, on clean and on corrupted images, less in {BETTER[MLS]} < 0.5 points in perceptrons "
    "and < 1 in LeNets",
    BEFORE,
    "Of two equally compressed networks the flatter one does not make decidedly fewer errors of "
    "any kind. Refuted if in a grid it makes more than so many fewer.",
)
def _(e: ResultTables) -> Verdict:
    chosen = product(GRIDS, ERRORS)
    found = every(effect(e[grid], MLS, outcome) < BOUND[grid] for grid, outcome in chosen)
    return found.reporting(*beside(e))
