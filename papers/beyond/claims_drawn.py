"""beyond: whether correlations over all perceptrons are those of five settings, on drawn ones.

Declared before any of the networks was trained. `mlp-grid` has five settings; at scale short their
networks give, over all of them at equal iterations (at equal epochs), for the root of sharpness
0.98 (0.98) with MLS, 0.50 (0.45) with the gap of accuracies, -0.28 (-0.65) with that of losses,
-0.49 (-0.65) with the test accuracy and -0.25 (+0.36) with the test loss; for MLS 0.48 (0.40),
-0.37 (-0.73), -0.47 (-0.59) and -0.36 (+0.23).

Simulated on this design: means of logarithms quadratic in those of rate and batch size, through
the five settings, with the spread of their seeds; ten batch sizes and a hundred rates drawn anew
400 times, and the interval that leaves out whole batch sizes. For root sharpness and MLS it is 0.06
wide (0.08), lies above 0.8 and reaches 0.9 in all of them. The probability that it excludes 0, on
the side of the five settings, is for root sharpness 0.98 (0.87) with the gap of accuracies, 0.98
(1.0) with the test accuracy, 0.30 (1.0) with the gap of losses and 0.22 (0.70) with the test loss;
for MLS 0.94 (0.72) and 0.56 (1.0) with the two gaps. Where that is below 0.8 an open sign, which is
`undecided`, is what the statement expects as well.

Left out are networks that diverge or do not interpolate at the time of comparison.
"""

from dataclasses import replace
from itertools import product

from flatlab.lab.claims import Claims
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _drawn as drawn
from flatlab.papers.beyond._drawn import EQUAL, GRID
from flatlab.papers.beyond.claims_joint import BEFORE
from flatlab.papers.chen2026.claims_trends import QUANTITIES
from flatlab.papers.chen2026.readings import READINGS
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict

DRAWN = Claims("beyond", READINGS)
FIGURE = "fig11"

LEAST, REACHED = 0.8, 0.9
WORDS = {**QUANTITIES, "gap": "generalization_gap", "gap of losses": "loss_gap"}
WORDS["test accuracy"] = "test_accuracy"
SIGNS = {
    "iterations": {"gap": 1, "gap of losses": -1, "test accuracy": -1, "test loss": -1},
    "epochs": {"gap": 1, "gap of losses": -1, "test accuracy": -1, "test loss": 1},
}
"""Of sharpness and of MLS with each of these, over the five settings of `mlp-grid`."""
VARIANTS = {"iterations": "", "epochs": "-epochs"}


def reaches(rho: Estimate) -> Verdict:
    """The claim that a correlation is above 0.8; and not decided if its interval ends below 0.9."""
    verdict = rho > LEAST
    if verdict.outcome == "holds" and rho.interval()[1] < REACHED:
        reason = f"the interval of {rho.name} ends below {REACHED}"
        return replace(verdict, outcome="undecided", reasons=(reason,))
    return verdict


def goes_with_mls(equal: str) -> None:
    """Sharpness and MLS over settings that are drawn."""

    @DRAWN(
        FIGURE,
        f"rho(sharpness, MLS) > {LEAST}, with an interval that reaches {REACHED}, at "
        f"{EQUAL[equal]}",
        BEFORE,
        "Over settings drawn at random sharpness goes with MLS as closely as over five. Refuted if "
        f"the interval ends below {LEAST}.",
        variant=VARIANTS[equal],
        readings={"settings": "drawn"},
    )
    def _(e: ResultTables) -> Verdict:
        return reaches(drawn.rhos(e[GRID], equal, (WORDS["sharpness"], WORDS["MLS"]))[0])


def has_the_sign(equal: str, x: str, y: str, sign: int) -> None:
    """Sharpness or MLS, and what is said of generalization."""

    @DRAWN(
        FIGURE,
        f"rho({x}, {y}) {'>' if sign > 0 else '<'} 0 at {EQUAL[equal]}",
        BEFORE,
        "Over settings drawn at random the sign is open, or that over five settings. Refuted if it "
        "is decided otherwise.",
        variant=VARIANTS[equal],
        readings={"settings": "drawn"},
    )
    def _(e: ResultTables) -> Verdict:
        (rho,) = drawn.rhos(e[GRID], equal, (WORDS[x], WORDS[y]))
        return rho > 0 if sign > 0 else rho < 0


for _equal in VARIANTS:
    goes_with_mls(_equal)
for _equal, _x in product(SIGNS, ("sharpness", "MLS")):
    for _y, _sign in SIGNS[_equal].items():
        has_the_sign(_equal, _x, _y, _sign)
