"""Claims about correlations over trained networks, and the claims of pair plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flatlab.claims import Claim, Evidence
from flatlab.claims.quantities import (
    BOUND_C,
    DIMENSION,
    GAP,
    KAPPA,
    MLS,
    MLS_BOUND,
    NMLS,
    NMLS_BOUND,
    TEST_LOSS,
    VOLUME,
    G,
    S,
)
from flatlab.stats import Verdict, every, some

WEAK = 0.3
NEARLY_ONE = 0.9
Pair = tuple[str, str]
Judge = Callable[[Evidence], Verdict]


def positive(grid: str, *pairs: Pair, seeds: int | None = None) -> Judge:
    """Each of these correlations is above zero."""
    return lambda e: every(e.rho(grid, x, y, seeds) > 0 for x, y in pairs)


def negative(grid: str, *pairs: Pair, seeds: int | None = None) -> Judge:
    """Each of these correlations is below zero."""
    return lambda e: every(e.rho(grid, x, y, seeds) < 0 for x, y in pairs)


def exceed(
    grid: str, larger: Sequence[Pair], smaller: Sequence[Pair], seeds: int | None = None
) -> Judge:
    """Each of some correlations is above each of others, on the same runs."""

    def judge(e: Evidence) -> Verdict:
        rhos = e.rhos(grid, *larger, *smaller, seeds=seeds)
        above, below = rhos[: len(larger)], rhos[len(larger) :]
        return every(a > b for a in above for b in below)

    return judge


def pair_plot(grid: str) -> list[Claim]:
    """The claims that chen2026 makes of each of its pair plots: H.7, H.8 and H.9."""

    def sharpness_does_not_tell_dimension(e: Evidence) -> Verdict:
        weak, *strong = e.rhos(grid, (S, DIMENSION), (S, MLS), (S, VOLUME))
        return every(abs(weak) < rho for rho in strong)

    return [
        Claim("c1", "rho(NMLS, NMLS bound) > 0", "App. H.2, 4", positive(grid, (NMLS, NMLS_BOUND))),
        Claim(
            "c2",
            "rho(sharpness, each of MLS, NMLS, log volume) > 0",
            "Sec. 4.2",
            positive(grid, (S, MLS), (S, NMLS), (S, VOLUME)),
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
            exceed(grid, [(S, MLS), (S, NMLS), (S, VOLUME)], [(S, GAP)]),
        ),
        Claim(
            "c9",
            f"rho(kappa, gap) < {WEAK}: weak or negative",
            "App. H.2, 6",
            lambda e: e.rho(grid, KAPPA, GAP) < WEAK,
        ),
    ]


def pair_plot_of_few(grid: str, seeds: int) -> list[Claim]:
    """The claims that chen2024 makes of both of its pair plots, of the first seeds: D.5 and D.6."""

    def nearly_one(e: Evidence) -> Verdict:
        rho, of_root = e.rhos(grid, (G, MLS), ("root_g", MLS), seeds=seeds)
        return (rho > NEARLY_ONE).reporting(of_root.report())

    return [
        Claim(
            "c1",
            f"rho(G, MLS) > {NEARLY_ONE} (that of the root of G is reported)",
            "App. D.2",
            nearly_one,
        ),
        Claim(
            "c2",
            "rho(log volume, each of sharpness, MLS) > 0",
            "App. D.2",
            positive(grid, (VOLUME, S), (VOLUME, MLS), seeds=seeds),
        ),
        Claim(
            "c3",
            "rho(sharpness, test loss) > 0",
            "App. D.2",
            positive(grid, (S, TEST_LOSS), seeds=seeds),
        ),
        Claim(
            "c4",
            "rho(MLS, test loss) > rho(each of log volume, dimension, test loss)",
            "App. D.2",
            exceed(grid, [(MLS, TEST_LOSS)], [(VOLUME, TEST_LOSS), (DIMENSION, TEST_LOSS)], seeds),
        ),
    ]


def bounds_split(grid: str, seeds: int) -> Judge:
    """C follows MLS, D goes against it and against the test loss."""
    upward = positive(grid, (BOUND_C, MLS), seeds=seeds)
    downward = negative(grid, (MLS_BOUND, MLS), (MLS_BOUND, TEST_LOSS), seeds=seeds)
    return lambda e: upward(e) & downward(e)


def negative_somewhere(grids: Sequence[str], *pairs: Pair) -> Judge:
    """At least one of these correlations is below zero in at least one grid."""
    return lambda e: some(e.rho(grid, x, y) < 0 for grid in grids for x, y in pairs)
