"""The claims about the pair plots of chen2026, Figures H.7 to H.9: correlations between networks.

"Weak" means below 0.3, "well" within 0.5 of 1, "too much" more than half; these numbers are ours.
"""

from flatlab.claims import Claim, Evidence, FigureClaims, states
from flatlab.claims.curves import Curves
from flatlab.claims.evidence import Array
from flatlab.papers.chen2026 import _shared as shared
from flatlab.papers.chen2026._shared import pairs
from flatlab.stats import Verdict, every

COMPRESSION = ("MLS", "NMLS", "log volume")
WEAK, WELL, MUCH = 0.3, 0.5, 0.5
(KAPPA_AND_GAP,) = pairs("kappa", ["gap"])


def weights_stay(grid: str) -> Claim:
    """The norm of the first layer, which the MLS bound contains, hardly changes in training."""

    def of_setting(c: Curves, limit: float) -> Verdict:
        def change() -> Array:
            norms = c.values("weight_norm")[:, :, 0]
            return norms[:, -1] / c.from_the_start(norms) - 1

        return c.over_runs("|W_1| at the end / at the start - 1", change).within(limit)

    return shared.Lines(grid, shared.SETTINGS).each(
        f"|W_1| at the end differs from that before training by less than {MUCH:.0%}, in each "
        "setting",
        "App. H.2, 3",
        of_setting,
        quote="the network weights do not change too much during training",
        threshold=MUCH,
    )


def of_compression(grid: str) -> FigureClaims:
    """What goes together with sharpness, and how closely."""

    @states(
        "|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)",
        "Sec. 4.4",
        quote="a weaker correlation of sharpness and local dimensionality compared to other "
        "metrics such as MLS and volume",
    )
    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak, *strong = e.rhos(grid, *pairs("sharpness", ["dimension", "MLS", "log volume"]))
        return every((rho > weak) & (rho > -weak) for rho in strong)

    @states(
        f"rho(sharpness, {shared.listed(COMPRESSION)}) > 1 - {WELL}",
        "Sec. 4.2",
        quote="all compression metrics, such as MLS, NMLS, and LVR [...] correlate well with "
        "sharpness in all of our experiments",
        threshold=WELL,
    )
    def well(e: Evidence, distance: float) -> Verdict:
        return every(rho > 1 - distance for rho in e.rhos(grid, *pairs("sharpness", COMPRESSION)))

    return {
        "c1": shared.rise_together(
            grid,
            "NMLS",
            ["NMLS bound"],
            "App. H.2, 4",
            quote="The bound derived in Equation (12) correlates positively with NMLS in all "
            "experiments",
        ),
        "c2": shared.rise_together(
            grid,
            "sharpness",
            COMPRESSION,
            "abstract, Sec. 4.2",
            quote="demonstrating consistent positive correlation between sharpness and "
            "compression metrics",
        ),
        "c3": shared.rise_together(
            grid,
            "log volume",
            ["MLS"],
            "App. H.2, 2",
            quote="Although the bound in Equation (9) is loose, log volume correlates well with "
            "sharpness and MLS",
        ),
        "c4": shared.closer(
            grid,
            "sharpness",
            ["MLS"],
            ["log volume"],
            "Sec. 3.2",
            quote="MLS has a higher correlation with sharpness than the local volumetric ratio",
        ),
        "c5": sharpness_does_not_tell_dimension,
        "c15": well,
    }


def of_generalization(grid: str) -> FigureClaims:
    """What goes together with the generalization gap, and how closely."""
    return {
        "c6": shared.rise_together(
            grid,
            "sharpness",
            ["gap"],
            "App. H.2, 3",
            quote="Sharpness is positively correlated with the generalization gap",
        ),
        "c7": shared.rise_together(
            grid,
            "gap",
            ["NMLS bound", "MLS", "NMLS"],
            "App. H.2, 1",
            quote="The bound over NMLS, MLS, and NMLS [...] consistently correlates positively "
            "with the generalization gap",
        ),
        "c8": shared.closer(
            grid,
            "sharpness",
            COMPRESSION,
            ["gap"],
            "Sec. 5",
            quote="sharpness consistently has a higher correlation with compression metrics than "
            "with the generalization gap",
        ),
        "c9": Claim(
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e, weak: e.rho(grid, *KAPPA_AND_GAP) < weak,
            quote="Relative flatness [...] shows weak (even negative) correlation with the "
            "generalization gap",
            threshold=WEAK,
        ),
        "c14": Claim(
            f"|rho(kappa, gap)| < {WEAK}: neither positive nor negative",
            "Sec. 3.4",
            lambda e, weak: e.rho(grid, *KAPPA_AND_GAP).within(weak),
            quote="We also empirically evaluate the relative flatness [...], but no significant "
            "correlation is observed",
            threshold=WEAK,
        ),
    }


def pair_plot(grid: str) -> FigureClaims:
    """The claims about each pair plot: H.7, H.8 and H.9."""
    return {**of_compression(grid), **of_generalization(grid), "c16": weights_stay(grid)}
