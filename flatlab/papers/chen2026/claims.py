"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa is the relative flatness of the last layer. I is interpolation: from
the first checkpoint with a training loss below 1e-2 to the end.
"""

from itertools import permutations

from flatlab.claims import Claim, Evidence, FigureClaims, Judge
from flatlab.claims.curves import Curves, difference_of_ends
from flatlab.claims.evidence import Pair
from flatlab.papers.chen2026 import _bounds
from flatlab.papers.chen2026 import _shared as shared
from flatlab.papers.chen2026._pairs import COMPRESSION, KAPPA_AND_GAP, pair_plot
from flatlab.papers.chen2026._shared import MLP, VGG, S, pairs
from flatlab.papers.chen2026._zoo import PRETRAINED
from flatlab.stats import Verdict, every, some

LENET = "lenet-grid"
GRIDS = (MLP, VGG, LENET)
PAIR_PLOTS = ("figH7", "figH8", "figH9")

RATES, BATCHES = shared.Lines(VGG, shared.LEARNING_RATES), shared.Lines(VGG, shared.BATCH_SIZES)
PERCEPTRONS = shared.Lines(MLP, shared.LEARNING_RATES)
(MLS_AND_BOUND,) = pairs("MLS", ["MLS bound"])

NEGATIVE = "can exhibit a negative correlation between both sides of the bound in some cases"
FOLLOWS = "MLS/NMLS closely follows the trend of sharpness during the training"


def volume_is_followed_less(c: Curves) -> Verdict:
    """Sharpness and sensitivity go together more closely than sharpness and volume."""
    *more, less = c.rhos(*pairs("sharpness", COMPRESSION), window="I")
    return every(rho > less for rho in more)


def dimension_is_followed_less(c: Curves) -> Verdict:
    """Sharpness says less about the dimension than about the sensitivity."""
    weak, strong = c.rhos(*pairs("sharpness", ["dimension", "MLS"]), window="I")
    return (strong > weak) & (strong > -weak)


def flatter_but_worse(*figures: shared.Lines) -> Claim:
    """In at least one of some figures a lower sharpness comes with a lower test accuracy."""

    def judge(e: Evidence) -> Verdict:
        return some(
            (difference_of_ends(a, b, S) < 0) & (difference_of_ends(a, b, "test_accuracy") < 0)
            for grid, sweep in figures
            for a, b in permutations([Curves(e, grid, setting) for setting in sweep], 2)
        )

    return Claim(
        "for some two settings the one of lower sharpness has the lower test accuracy, on "
        + " or ".join(grid for grid, _ in figures),
        "Sec. 5",
        judge,
        quote="lower sharpness does not always imply better test accuracy",
    )


def negative_somewhere(*quantities: Pair) -> Judge:
    """At least one of these correlations is below zero in at least one grid."""
    return lambda e: some(e.rho(grid, x, y) < 0 for grid in GRIDS for x, y in quantities)


def perceptron(lines: shared.Lines, caption: str) -> FigureClaims:
    """The claims about both trend figures of the multilayer perceptron, I.10 and I.11."""
    return {
        "c1": lines.follows(("MLS", "NMLS"), caption, FOLLOWS),
        "c2": lines.volume_falls_slower(
            "The volume continues to decrease after the sharpness plateaus, albeit at a much "
            "slower rate"
        ),
        "c3": lines.at_the_end(
            ("sharpness",),
            "Sec. 4.1",
            "We repeated the experiments with an MLP trained on the FashionMNIST dataset",
        ),
        "c4": flatter_but_worse(lines),
        "c5": lines.prefactor_is_stable(),
    }


CLAIMS: dict[str, FigureClaims] = {
    "fig2": {
        "c1": RATES.at_the_end(
            ("sharpness",),
            "caption of Fig. 2, Sec. 4.1",
            "Higher learning rates lead to lower sharpness and hence stronger compression",
        ),
        "c2": RATES.at_the_end(
            COMPRESSION,
            "caption of Fig. 2",
            "Higher learning rates lead to lower sharpness and hence stronger compression",
        ),
        "c3": RATES.falls(
            ("sharpness", *COMPRESSION),
            "Sec. 4.1",
            "when the network reaches the interpolation regime [...] the sharpness decreases with "
            "compression metrics, including MLS, NMLS, and volume",
        ),
        "c4": RATES.each(
            "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I, in each line",
            "Sec. 4.1",
            volume_is_followed_less,
            quote="MLS and NMLS match better with the trend of sharpness",
        ),
        "c5": RATES.dimension_falls(
            "Sec. 4.4",
            "the local dimensionality of the representation decreases as the loss decreases to "
            "near 0",
        ),
        "c6": RATES.each(
            "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I, in each line",
            "Sec. 4.4",
            dimension_is_followed_less,
            quote="the local dimensionality exhibits unpredictable behavior that cannot be "
            "explained by the sharpness once the network finds an approximate interpolation "
            "solution",
        ),
        "c8": RATES.prefactor_is_stable(),
    },
    "fig3": {
        "c1": BATCHES.at_the_end(
            ("sharpness",),
            "caption of Fig. 3",
            "Smaller batch sizes lead to lower sharpness and hence stronger compression",
        ),
        "c2": BATCHES.at_the_end(
            COMPRESSION,
            "caption of Fig. 3",
            "Smaller batch sizes lead to lower sharpness and hence stronger compression",
        ),
        "c3": BATCHES.falls(
            ("sharpness", *COMPRESSION),
            "Sec. 4.1",
            "The same broadly consistent trends emerged, linking a decrease in the sharpness to a "
            "compression in the neural representation",
        ),
        "c4": shared.volume_falls_on_a_plateau(
            "while sharpness stops decreasing after about 5 10^4 iterations for a batch size of "
            "32, the volume continues to decrease"
        ),
        "c8": BATCHES.prefactor_is_stable(),
    },
    "fig4": {
        "c1": Claim(
            "rho(NMLS, NMLS bound) > 0 in each of the three grids",
            "Sec. 3.2, App. H.2, 4",
            lambda e: every(e.rho(grid, "nmls", "nmls_bound") > 0 for grid in GRIDS),
            quote="The bound derived in Equation (12) correlates positively with NMLS in all "
            "experiments",
            repeats=", ".join(f"chen2026_{figure}/c1" for figure in PAIR_PLOTS),
        ),
        "c2": Claim(
            "rho(MLS, MLS bound) < 0 in at least one of the three grids",
            "Sec. 4.2, App. H.2, 5",
            negative_somewhere(MLS_AND_BOUND),
            quote=f"the bound on the MLS [...] {NEGATIVE}",
            repeats="chen2026_figH8/c10",
        ),
        "c3": _bounds.of_all_networks,
        # Said of figures 2 and I.11, and of H.7 to H.9: here their tables are together.
        "c7": flatter_but_worse(RATES, PERCEPTRONS),
        "c13": Claim(
            "rho(MLS, MLS bound) or rho(kappa, gap) < 0 in at least one of the three grids",
            "Sec. 4.2",
            negative_somewhere(MLS_AND_BOUND, KAPPA_AND_GAP),
            quote=f"the relative flatness [...] and the bound on the MLS [...] {NEGATIVE}",
        ),
    },
    "fig5": PRETRAINED,
    "figH6": _bounds.in_training("caption of Fig. H.6"),
    "figH7": pair_plot(VGG),
    "figH8": {
        **pair_plot(MLP),
        "c10": Claim(
            "rho(MLS, MLS bound) < 0",
            "App. H.2, 5",
            lambda e: e.rho(MLP, *MLS_AND_BOUND) < 0,
            quote="MLS that only consider the first layer weights can sometimes negatively "
            "correlate with the bound derived in Equation (11)",
        ),
        "c11": shared.rise_together(
            MLP,
            "MLS",
            ["bound C"],
            "caption of Fig. H.6",
            quote="bound C is positively correlated with MLS",
        ),
        "c12": shared.rise_together(
            MLP,
            "sharpness",
            ["MLS"],
            "Sec. 3.2",
            quote="MLS is still positively correlated with sharpness (Figure H.8)",
            repeats="chen2026_figH8/c2",
        ),
        "theorem": _bounds.of_perceptrons,
    },
    "figH9": pair_plot(LENET),
    "figI10": perceptron(shared.Lines(MLP, shared.BATCH_SIZES), "caption of Fig. I.10"),
    "figI11": perceptron(PERCEPTRONS, "caption of Fig. I.11"),
    "figJ12": shared.misclassified("MLS", "App. J"),
}
