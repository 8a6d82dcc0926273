"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa the relative flatness of the last layer. "Weak" means below 0.3.
"""

from __future__ import annotations

from collections.abc import Callable

from flatlab.stats import Verdict, not_run, theorem
from flatlab.verify import Claim, Evidence

WEAK = 0.3
S, MLS, NMLS, VOLUME = "root_sharpness", "mls", "nmls", "log_volume"
DIMENSION, GAP, KAPPA = "local_dimension", "generalization_gap", "relative_flatness"
MLS_BOUND, NMLS_BOUND, BOUND_C = "bound_d", "nmls_bound", "bound_c"


def pair_plot(grid: str) -> list[Claim]:
    """The claims that the paper makes of each of its pair plots: H.7, H.8 and H.9."""

    def positive(*pairs: tuple[str, str]) -> Callable[[Evidence], Verdict]:
        def judge(e: Evidence) -> Verdict:
            verdict, *others = (e.rho(grid, x, y) > 0 for x, y in pairs)
            for other in others:
                verdict = verdict & other
            return verdict

        return judge

    def sharpness_tells_volume_less(e: Evidence) -> Verdict:
        return e.rho(grid, S, MLS) > e.rho(grid, S, VOLUME)

    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak = abs(e.rho(grid, S, DIMENSION))
        return (weak < e.rho(grid, S, MLS)) & (weak < e.rho(grid, S, VOLUME))

    def compression_before_generalization(e: Evidence) -> Verdict:
        gap = e.rho(grid, S, GAP)
        return (
            (e.rho(grid, S, MLS) > gap)
            & (e.rho(grid, S, NMLS) > gap)
            & (e.rho(grid, S, VOLUME) > gap)
        )

    return [
        Claim("c1", "rho(NMLS, NMLS bound) > 0", "App. H.2, 4", positive((NMLS, NMLS_BOUND))),
        Claim(
            "c2",
            "rho(sharpness, each of MLS, NMLS, log volume) > 0",
            "Sec. 4.2",
            positive((S, MLS), (S, NMLS), (S, VOLUME)),
        ),
        Claim("c3", "rho(log volume, MLS) > 0", "App. H.2, 2", positive((VOLUME, MLS))),
        Claim(
            "c4",
            "rho(sharpness, MLS) > rho(sharpness, log volume)",
            "Sec. 3.2",
            sharpness_tells_volume_less,
        ),
        Claim(
            "c5",
            "|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)",
            "Sec. 4.4",
            sharpness_does_not_tell_dimension,
        ),
        Claim("c6", "rho(sharpness, gap) > 0", "App. H.2, 3", positive((S, GAP))),
        Claim(
            "c7",
            "rho(gap, each of NMLS bound, MLS, NMLS) > 0",
            "App. H.2, 1",
            positive((NMLS_BOUND, GAP), (MLS, GAP), (NMLS, GAP)),
        ),
        Claim(
            "c8",
            "rho(sharpness, each of MLS, NMLS, log volume) > rho(sharpness, gap)",
            "Sec. 5",
            compression_before_generalization,
        ),
        Claim(
            "c9",
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e: e.rho(grid, KAPPA, GAP) < WEAK,
        ),
    ]


def bounds_hold(e: Evidence) -> Verdict:
    """Theorems for fully connected networks."""
    a, b, c, d = (e.values("mlp-grid", f"bound_{letter}") for letter in "abcd")
    nmls, bound = (e.values("mlp-grid", name) for name in (NMLS, NMLS_BOUND))
    return (
        theorem("A <= B", a, b)
        & theorem("B <= C", b, c)
        & theorem("C <= D", c, d)
        & theorem("NMLS <= NMLS bound", nmls, bound)
    )


def negative_somewhere(e: Evidence) -> Verdict:
    """Over the three grids of the paper, for either quantity and its counterpart."""

    def negative(grid: str) -> Verdict:
        if grid not in e:
            return not_run(f"{grid} is not among the tables")
        return (e.rho(grid, MLS, MLS_BOUND) < 0) | (e.rho(grid, KAPPA, GAP) < 0)

    return negative("mlp-grid") | negative("vgg-grid") | negative("lenet-grid")


CLAIMS = {
    "figH8": [
        *pair_plot("mlp-grid"),
        Claim(
            "c10",
            "rho(MLS, MLS bound D) < 0",
            "App. H.2, 5",
            lambda e: e.rho("mlp-grid", MLS, MLS_BOUND) < 0,
        ),
        Claim(
            "c11",
            "rho(MLS, bound C) > 0",
            "caption of Fig. H.6",
            lambda e: e.rho("mlp-grid", MLS, BOUND_C) > 0,
        ),
        Claim(
            "c12",
            "rho(sharpness, MLS) > 0",
            "Sec. 3.2",
            lambda e: e.rho("mlp-grid", S, MLS) > 0,
        ),
        Claim(
            "c13",
            "rho(MLS, MLS bound) or rho(kappa, gap) < 0 in at least one of the three grids",
            "Sec. 4.2",
            negative_somewhere,
        ),
        Claim(
            "theorem",
            "A <= B <= C <= D and NMLS <= NMLS bound, for every network",
            "Eq. 59, Prop. 3.10",
            bounds_hold,
        ),
    ],
}
