"""beyond: which layers' flatness compresses, decided by their learning rates.

Declared before any of the networks was trained. In 100 perceptrons MLS goes with the sharpness of
the first layer, and total sharpness is that of the last two; but MLS and S(W_1) share a factor, so
that their correlation says little. Here one rate is for the first two weight matrices and another
for the last two.

Simulated on this design, with the spread of seeds and the effect of both rates together that
`mlp-grid` has at scale short (per doubling -0.37 of log MLS, -4.0 of log volume, -0.07 of log NMLS,
-0.16 of the logarithm of root sharpness): if one half has 60 % of the effect, six seeds find its
modulus larger with a probability of 1.0, 1.0, 0.93 and 1.0; if 70 %, of 1.0 each. "As much" is a
difference that is not decided.

Left out are seeds of which one of the nine networks diverges or does not interpolate.
"""

from flatlab.lab.claims import Claims
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _depth as depth
from flatlab.papers.beyond._depth import GRID, LOGARITHMS, Half
from flatlab.papers.beyond.claims_joint import BEFORE
from flatlab.stats.verdict import Verdict, every

DEPTH = Claims("beyond")
FIGURE = "fig12"

LARGER: dict[str, tuple[Half, str]] = {
    "MLS": (
        "lower",
        "The rate of the first two layers decides how sensitive the network is: MLS falls with it, "
        "and by more than with the rate of the last two. Refuted if that moves MLS by more; not "
        "decided if by as much.",
    ),
    "log volume": ("lower", "The same of the log volume. Refuted likewise."),
    "NMLS": (
        "upper",
        "NMLS, which is mostly that of the last layers, falls by more with their rate. Refuted if "
        "the rate of the first two layers has the larger effect.",
    ),
    "sharpness": (
        "upper",
        "Total sharpness, most of which is that of the last layers, falls by more with their rate. "
        "Refuted if the rate of the first two layers has the larger effect.",
    ),
}
"""The half with the larger effect on each quantity, and what is stated."""


def has_the_larger_effect(word: str, half: Half, statement: str) -> None:
    """The effect of one half is negative, and larger in modulus than that of the other."""
    other = "upper" if half == "lower" else "lower"
    column = LOGARITHMS[word]

    @DEPTH(
        FIGURE,
        f"effect of a doubling of the {half} rate on {column} < 0, and |it| > |that of the {other} "
        "rate|",
        BEFORE,
        statement,
    )
    def _(e: ResultTables) -> Verdict:
        networks = e[GRID]
        # a < b and a < -b are |a| > |b| with a < 0
        verdict = every(
            [depth.difference(networks, column, half) < 0, depth.total(networks, column) < 0]
        )
        parts = [depth.effect(networks, column, each).report() for each in ("lower", "upper")]
        return verdict.reporting(*parts)


for _word, (_half, _statement) in LARGER.items():
    has_the_larger_effect(_word, _half, _statement)
