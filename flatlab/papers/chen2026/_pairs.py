"""The claims that chen2026 makes of each of its pair plots: Figures H.7, H.8 and H.9."""

from __future__ import annotations

from flatlab.claims import Claim, Evidence
from flatlab.claims.judges import exceed, positive
from flatlab.papers.chen2026._quantities import (
    DIMENSION,
    GAP,
    KAPPA,
    MLS,
    NMLS,
    NMLS_BOUND,
    VOLUME,
    S,
)
from flatlab.stats import Verdict, every

WEAK = 0.3


def pair_plot(grid: str) -> list[Claim]:
    """Of the networks of a grid."""

    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak, *strong = e.rhos(grid, (S, DIMENSION), (S, MLS), (S, VOLUME))
        return every(abs(weak) < rho for rho in strong)

    compression = [(S, MLS), (S, NMLS), (S, VOLUME)]
    return [
        Claim("c1", "rho(NMLS, NMLS bound) > 0", "App. H.2, 4", positive(grid, (NMLS, NMLS_BOUND))),
        Claim(
            "c2",
            "rho(sharpness, each of MLS, NMLS, log volume) > 0",
            "Sec. 4.2",
            positive(grid, *compression),
        ),
        Claim("c3", "rho(log volume, MLS) > 0", "App. H.2, 2", positive(grid, (VOLUME, MLS))),
        Claim(
            "c4",
            "rho(sharpness, MLS) > rho(sharpness, log volume)",
            "Sec. 3.2",
            exceed(grid, [(S, MLS)], [(S, VOLUME)]),
        ),
        Claim(
            "c5",
            "|rho(sharpness, dimension)| < rho(sharpness, each of MLS, log volume)",
            "Sec. 4.4",
            sharpness_does_not_tell_dimension,
        ),
        Claim("c6", "rho(sharpness, gap) > 0", "App. H.2, 3", positive(grid, (S, GAP))),
        Claim(
            "c7",
            "rho(gap, each of NMLS bound, MLS, NMLS) > 0",
            "App. H.2, 1",
            positive(grid, (NMLS_BOUND, GAP), (MLS, GAP), (NMLS, GAP)),
        ),
        Claim(
            "c8",
            "rho(sharpness, each of MLS, NMLS, log volume) > rho(sharpness, gap)",
            "Sec. 5",
            exceed(grid, compression, [(S, GAP)]),
        ),
        Claim(
            "c9",
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e: e.rho(grid, KAPPA, GAP) < WEAK,
        ),
    ]
