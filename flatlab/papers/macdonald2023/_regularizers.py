"""macdonald2023, Figures 2, 5 and 20 to 27: weight decay and other regularizers.

Those on CIFAR-100 repeat the others on other data, so that data which stand in for CIFAR-100 decide
nothing about them. Claims about sharpness need eigenvalues that converged.
"""

import numpy as np

from flatlab.claims import Claims, Evidence, numbered, states
from flatlab.claims.eligibility import enough
from flatlab.claims.evidence import Setting
from flatlab.papers.macdonald2023._ends import (
    GAP,
    JACOBIAN,
    SHARPNESS,
    WEAK,
    column,
    ends,
    more,
    seeds,
    tau_of,
    taus,
    values_of,
)
from flatlab.papers.macdonald2023._steps import check_convergence
from flatlab.plan.schema import EVIDENCE, OWN, REDUCED
from flatlab.stats import Estimate, Verdict, every, over_seeds, some
from flatlab.stats.trends import mean
from flatlab.tables.selection import INTERPOLATES

DECAYS, TEN, HUNDRED = "weight-decay-grid", "regularizers-grid", "regularizers-many-classes-grid"
GAUSS_NEWTON = "gauss_newton_lambda_max"
DECAY, SAM = "weight_decay", "sam_radius"
STRATEGIES = ("label_smoothing", "mixup_alpha", "augmentation_probability", SAM)
"""The strengths of the regularizers; without one it is zero."""

SIMILAR, ALMOST_ALWAYS = 0.1, 0.9
"""By how much of the Hessian's largest eigenvalue that of Gauss-Newton differs, at most, and in
which share of the networks, at least."""

NETWORKS: dict[str, tuple[str, Setting]] = {
    f"fig{first + number}": (grid, {"architecture": architecture, "normalization": norm})
    for first, grid in ((20, TEN), (24, HUNDRED))
    for number, (architecture, norm) in enumerate(
        (a, n) for a in ("vgg", "resnet") for n in ("none", "batch")
    )
}
"""The grid and the networks of each of the figures 20 to 27."""

RESNET = NETWORKS["fig23"][1]

LARGE_WITHOUT = (
    "Without weight decay, SGD finds a solution with near-zero loss and vanishing sharpness, but "
    "for which Jacobian norm and generalisation gap are relatively large."
)
BETTER = (
    "It was observed in [23] that when training with the cross-entropy cost, networks trained with "
    "weight decay generalised better than those trained without, despite converging to sharper "
    "minima. We confirm this observation in Figure 2."
)
MUCH_BETTER = (
    "The norm of the input-output Jacobian is much better correlated with the generalisation gap "
    "than that of the Hessian"
)
EFFECTIVE = (
    "[...] all regularisation strategies were effective in controlling the Jacobian norm without "
    "necessarily controlling the sharpness."
)
ONLY_SAM = (
    "We find that while Jacobian norm is regularised across all techniques, only in SAM is "
    "sharpness regularised."
)
OFTEN_NOT = (
    "In all cases, the model Jacobian is correlated with the generalisation gap, whereas the "
    "Hessian is often uncorrelated."
)
ALIKE = (
    "Moreover, the norm of the Gauss-Newton matrix is (almost) always very similar to that of "
    "Hessian, in line with previous empirical observation"
)
SMALLER = (
    "[...] forcing the Hessian to be sufficiently small likewise appears to force the Jacobian to "
    "be smaller (see the SAM plots)"
)
LARGE_WITH = (
    "[...] the Hessian is also influenced by other factors and can be large even without the "
    "Jacobian being large (see other plots)."
)


def with_decay(e: Evidence, lr: float) -> list[Setting]:
    """The settings with weight decay, at one learning rate."""
    decays = values_of(e, DECAYS, {"lr": lr}, DECAY)
    return [{"lr": lr, DECAY: decay} for decay in decays if decay > 0]


def best(e: Evidence, lr: float) -> Setting:
    """The one with the smallest mean gap among them."""
    return min(with_decay(e, lr), key=lambda setting: float(seeds(e, DECAYS, setting, GAP).mean()))


def excess(e: Evidence, name: str, setting: Setting) -> Estimate:
    """How much larger a quantity is without weight decay than in a setting with it."""
    return more(e, DECAYS, name, {**setting, DECAY: 0.0}, setting)


def rates(e: Evidence) -> list[float]:
    """The learning rates of the networks with weight decay."""
    return values_of(e, DECAYS, {}, "lr")


@states(
    "at each learning rate some weight decay gives a smaller gap than none",
    "Sec. 6.1",
    quote=BETTER,
)
def some_decay(e: Evidence) -> Verdict:
    return every(
        some(excess(e, GAP, setting) > 0 for setting in with_decay(e, lr)) for lr in rates(e)
    )


@states(
    "lambda_max(0) < lambda_max(wd*), wd* the weight decay with the smallest gap",
    "Sec. 6.1",
    quote=BETTER,
)
def sharper(e: Evidence) -> Verdict:
    check_convergence(e, DECAYS, "hessian")
    return every(excess(e, SHARPNESS, best(e, lr)) < 0 for lr in rates(e))


@states("J(0) > J(wd*)", "caption of Fig. 2", quote=LARGE_WITHOUT)
def larger_jacobian(e: Evidence) -> Verdict:
    return every(excess(e, JACOBIAN, best(e, lr)) > 0 for lr in rates(e))


@states(
    "gap(0) > gap(wd*)", "caption of Fig. 2", quote=LARGE_WITHOUT, repeats="macdonald2023_fig2/c1"
)
def larger_gap(e: Evidence) -> Verdict:
    return every(excess(e, GAP, best(e, lr)) > 0 for lr in rates(e))


@states(
    f"without weight decay the training loss is below {INTERPOLATES}, and sharpness the smallest",
    "caption of Fig. 2",
    quote=LARGE_WITHOUT,
)
def vanishing(e: Evidence) -> Verdict:
    check_convergence(e, DECAYS, "hessian")

    def at(lr: float) -> Verdict:
        label = f"training loss; {DECAYS}, lr {lr:g}, weight decay 0"
        losses = seeds(e, DECAYS, {"lr": lr, DECAY: 0.0}, "train_loss")
        smallest = every(excess(e, SHARPNESS, setting) < 0 for setting in with_decay(e, lr))
        return (over_seeds(label, mean, losses) < INTERPOLATES) & smallest

    return every(at(lr) for lr in rates(e))


def alone(strategy: str) -> Setting:
    """What the networks that have this regularizer alone, or none, have in common."""
    return {other: 0.0 for other in STRATEGIES if other != strategy}


def by_strength(e: Evidence, grid: str, network: Setting, strategy: str, name: str) -> Estimate:
    """tau(strength, quantity) over the networks with one regularizer."""
    return tau_of(e, grid, {**network, **alone(strategy)}, strategy, name)


@states(
    "rho(J, gap) > rho(lambda_max, gap) over the networks", "caption of Fig. 5", quote=MUCH_BETTER
)
def much_better(e: Evidence) -> Verdict:
    check_convergence(e, TEN, "hessian")
    pairs = (JACOBIAN, GAP), (SHARPNESS, GAP)
    ours, other = e.rhos(TEN, *pairs, interpolating=False, where=RESNET)
    return ours > other


@states("tau(strength, J) < 0 of each regularizer", "caption of Fig. 5", quote=EFFECTIVE)
def effective(e: Evidence) -> Verdict:
    return every(by_strength(e, TEN, RESNET, each, JACOBIAN) < 0 for each in STRATEGIES)


@states("tau(SAM's radius, lambda_max) < 0", "Sec. 6.3", quote=ONLY_SAM)
def sam_flattens(e: Evidence) -> Verdict:
    check_convergence(e, TEN, "hessian")
    return by_strength(e, TEN, RESNET, SAM, SHARPNESS) < 0


@states(
    f"tau(strength, lambda_max) > -{WEAK} of each other regularizer",
    "Sec. 6.3",
    quote=ONLY_SAM,
    threshold=WEAK,
)
def others_do_not(e: Evidence, weak: float) -> Verdict:
    check_convergence(e, TEN, "hessian")
    others = (each for each in STRATEGIES if each != SAM)
    return every(by_strength(e, TEN, RESNET, each, SHARPNESS) > -weak for each in others)


def extended(grid: str, network: Setting) -> Claims:
    """The claims of one of the figures 20 to 27."""
    admits = EVIDENCE if grid == TEN else (OWN, REDUCED)

    @states("tau(J, gap) > 0 over the networks", "App. B.3", quote=OFTEN_NOT, admits=admits)
    def correlated(e: Evidence) -> Verdict:
        return tau_of(e, grid, network, JACOBIAN, GAP) > 0

    @states("tau(J, gap) > tau(lambda_max, gap)", "App. B.3", quote=OFTEN_NOT, admits=admits)
    def better(e: Evidence) -> Verdict:
        check_convergence(e, grid, "hessian")
        jacobian, sharpness = taus(e, grid, network, (JACOBIAN, GAP), (SHARPNESS, GAP))
        return jacobian > sharpness

    @states(
        f"|lambda_max(G) - lambda_max(H)| < {SIMILAR} lambda_max(H) in {ALMOST_ALWAYS:.0%} of the "
        "networks",
        "App. B.3",
        quote=ALIKE,
        threshold=SIMILAR,
        admits=admits,
    )
    def alike(e: Evidence, share: float) -> Verdict:
        check_convergence(e, grid, "hessian", "gauss_newton")
        networks = ends(e, grid, network)
        hessian, gauss = (column(networks, grid, name) for name in (SHARPNESS, GAUSS_NEWTON))
        there = np.isfinite(hessian + gauss)
        enough(there.sum(), grid, "networks with both eigenvalues")
        near = (np.abs(gauss - hessian) < share * np.abs(hessian))[there].astype(float)
        name = f"share of networks whose eigenvalues differ by less than {share:g}; {grid}"
        return over_seeds(name, mean, near) > ALMOST_ALWAYS

    @states(
        "tau(SAM's radius, .) < 0 of lambda_max and of J", "App. B.3", quote=SMALLER, admits=admits
    )
    def sam(e: Evidence) -> Verdict:
        check_convergence(e, grid, "hessian")
        return every(by_strength(e, grid, network, SAM, q) < 0 for q in (SHARPNESS, JACOBIAN))

    @states(
        f"of some regularizer tau(strength, J) < 0, but tau(strength, lambda_max) > -{WEAK}",
        "App. B.3",
        quote=LARGE_WITH,
        threshold=WEAK,
        admits=admits,
    )
    def without(e: Evidence, weak: float) -> Verdict:
        check_convergence(e, grid, "hessian")

        def of(strategy: str) -> Verdict:
            jacobian, sharpness = (
                by_strength(e, grid, network, strategy, name) for name in (JACOBIAN, SHARPNESS)
            )
            return (jacobian < 0) & (sharpness > -weak)

        return some(of(strategy) for strategy in STRATEGIES)

    return numbered(correlated, better, alike, sam, without)


REGULARIZERS: dict[str, Claims] = {
    "fig2": numbered(some_decay, sharper, larger_jacobian, larger_gap, vanishing),
    "fig5": numbered(much_better, effective, sam_flattens, others_do_not),
    **{figure: extended(grid, network) for figure, (grid, network) in NETWORKS.items()},
}
