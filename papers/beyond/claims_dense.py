"""beyond: what the perceptrons of chen2026 say of training where it is watched closely.

After interpolation six to eight log-spaced checkpoints of `mlp-grid` are left, each of which
counted alike. `mlp-dense-grid` has the same networks at every hundredth of the training. All of
this was declared before the first of them was trained.

Which lines have a sign is known from the six to eight checkpoints, weighted by iterations: those
whose 95 % interval over five networks excludes 0 by so much that as many networks again would find
it with a probability of 0.8 or more, if they vary by as much (noncentral t). For MLS they have
-0.85 (power 0.999), -0.72 (0.997) and, for batches of 32, -0.59 (1.0); for NMLS 0.78 (0.985), 0.95
(1.0), 0.87 (0.996) and 0.95 (1.0); for log volume -0.80 (0.991) and three of -0.95 and less
(0.999); for G -0.64 at a rate of 0.1 (0.80). The others are reported: MLS at 0.05, -0.28 [-0.58,
0.09]; G at 0.05, 0.2 and for batches of 32. Batches of 8 had too few networks with three
checkpoints after interpolation; over the whole training by iterations they have -0.45 [-0.57,
-0.30] for MLS and 0.94 [0.92, 0.96] for NMLS (power 0.99).

Left out are networks that diverge and, after interpolation, those that have fewer than three
checkpoints there. The checkpoints of one network are no independent data: intervals are over
networks.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from flatlab.lab.claims import Claim, Claims
from flatlab.lab.tables.curves import Curves, Window
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond.claims_joint import BEFORE
from flatlab.papers.chen2024.claims import CLAIMS as CHEN2024
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.papers.chen2026.claims import CLAIMS as CHEN2026
from flatlab.stats.estimate import Estimate
from flatlab.stats.time_weights import Weight
from flatlab.stats.verdict import Verdict, every

DENSE = Claims("beyond")
FIGURE, GRID, SPARSE = "fig10", "mlp-dense-grid", chen.MLP

Setting = Mapping[str, float]

SLOW, CENTRAL, FAST = chen.RATES
SMALL, LARGE = chen.BATCHES[0], chen.BATCHES[-1]
FOUR = (SLOW, CENTRAL, FAST, LARGE)
WEIGHTS: dict[Weight, tuple[str, str]] = {
    "iterations": ("", "each checkpoint weighted by its iterations"),
    "log": ("-log", "each checkpoint weighted by the logarithm of its iterations"),
}
"""Variants of the claims, and what they say. The axis of the paper's figures is linear."""
LINES = {"MLS": (CENTRAL, FAST, LARGE), "NMLS": FOUR, "log volume": FOUR, "G": (CENTRAL,)}
"""The lines whose sign is known over six to eight checkpoints."""
SIGNS = {"MLS": -1, "NMLS": 1, "log volume": -1, "G": -1}


def has_sign(word: str, rho: Estimate) -> Verdict:
    """The claim that a correlation has the sign that the quantity is said to have."""
    return rho > 0 if SIGNS[word] > 0 else rho < 0


def curves(e: ResultTables, setting: Setting) -> Curves:
    """The networks of one setting through training."""
    return e[GRID].where(**setting).curves


def named(setting: Setting) -> str:
    """ "0.1, 20" """
    return f"{setting['lr']:g}, {setting['batch_size']:g}"


def keeps_its_sign(word: str, by: Weight) -> None:
    """Sharpness and a quantity after interpolation: the sign of the sparse checkpoints."""
    variant, weighted = WEIGHTS[by]
    judged = LINES[word]
    reported = [setting for setting in chen.SETTINGS if setting not in judged]
    side = ">" if SIGNS[word] > 0 else "<"

    @DENSE(
        FIGURE,
        f"rho_t(sharpness, {word}) {side} 0 in I, {weighted}, in each of the lines (rate, batch "
        f"size) {'; '.join(map(named, judged))}",
        BEFORE,
        "After interpolation each line keeps the sign that it has over six to eight checkpoints. "
        "Refuted for a line whose interval excludes it.",
        variant=variant,
        admits=("own",),
    )
    def _(e: ResultTables) -> Verdict:
        def rho(setting: Setting) -> Estimate:
            return chen.rho_with_sharpness(curves(e, setting), word, "I", by)

        verdict = every(has_sign(word, rho(setting)) for setting in judged)
        return verdict.reporting(*(rho(setting).report() for setting in reported))


def small_batches(by: Weight) -> None:
    """Batches of 8, on which no claim about interpolation could be judged."""
    variant, weighted = WEIGHTS[by]
    words = ("MLS", "NMLS")

    @DENSE(
        FIGURE,
        "rho_t(sharpness, MLS) < 0 and rho_t(sharpness, NMLS) > 0 over the whole training, each "
        "checkpoint weighted by its iterations, for batches of 8"
        if by == "iterations"
        else f"the same in I, {weighted}",
        BEFORE,
        "Where batches are small, too, sensitivity falls while sharpness rises, and its normalized "
        "form goes with sharpness. Refuted if an interval excludes either sign.",
        variant=variant,
        admits=("own",),
    )
    def _(e: ResultTables) -> Verdict:
        line = curves(e, SMALL)
        window: Window = "training" if by == "iterations" else "I"
        rhos = {word: chen.rho_with_sharpness(line, word, window, by) for word in words}
        beside = [chen.rho_with_sharpness(line, word, "I", "iterations").report() for word in words]
        return every(has_sign(*each) for each in rhos.items()).reporting(*beside)


for _by in WEIGHTS:
    for _word in LINES:
        keeps_its_sign(_word, _by)
    small_batches(_by)


# ---- what the papers say of the same networks, judged on these checkpoints ----
def on_dense_checkpoints(claim: Claim) -> Callable[..., Verdict]:
    """The predicate of a claim about `mlp-grid`, on the table of this grid.

    After interpolation its checkpoints are equally far apart: each counts for its iterations.
    """

    def judge(e: ResultTables, *threshold: float) -> Verdict:
        verdict = claim.predicate(ResultTables({SPARSE: e.table(GRID)}), *threshold)
        said = [
            {**entry, "quantity": str(entry["quantity"]).replace(SPARSE, GRID)}
            for entry in verdict.evidence
        ]
        reasons = tuple(reason.replace(SPARSE, GRID) for reason in verdict.reasons)
        return replace(verdict, evidence=said, reasons=reasons)

    return judge


PAPERS = {
    "chen2026_figI10": (CHEN2026, ("c1", "c2", "c5")),
    "chen2026_figI11": (CHEN2026, ("c1", "c2", "c5")),
    "chen2026_figH6": (CHEN2026, ("c1", "c2")),
    "chen2024_figE7": (CHEN2024, ("c2",)),
    "chen2024_figE8": (CHEN2024, ("c2",)),
}
"""What is said of training; D.4 repeats H.6, and E.7 and E.8 the second claims of I.10 and I.11.
What is said of its end is judged on more networks there."""

for _figure, (_claims, _keys) in PAPERS.items():
    _place = _figure.partition("_")[2]
    for _name, _claim in _claims[_place].items():
        # checkpoints that count alike count for their iterations here, after interpolation
        if _name.partition("-")[0] in _keys and _claim.readings.get("weight") != "alike":
            _same = f"{_figure}/{_name.partition('-')[0]}"
            _judge = on_dense_checkpoints(_claim)
            DENSE.add(FIGURE, replace(_claim, predicate=_judge, repeats=_same), f"{_place}-{_name}")
