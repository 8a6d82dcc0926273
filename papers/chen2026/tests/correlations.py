"""Claims of chen2024 and chen2026 about pair plots, and loadings that decide them."""

from tests.synthetic.claim_tables import (
    BOUND,
    DIMENSION,
    DOWN,
    GAP,
    KAPPA,
    MLS,
    NMLS,
    NONE,
    TEST_LOSS,
    UP,
    VOLUME,
    WEAK,
    C,
    D,
    G,
    S,
)

Loadings = dict[str, float]
COMPRESSED = {S: UP, MLS: UP, NMLS: UP, VOLUME: UP}
CASES: dict[str, tuple[Loadings, Loadings, Loadings]] = {
    "c1": ({NMLS: UP, BOUND: UP}, {NMLS: UP, BOUND: DOWN}, {NMLS: UP}),
    "c2": (COMPRESSED, {**COMPRESSED, NMLS: DOWN}, {**COMPRESSED, NMLS: NONE}),
    "c3": ({VOLUME: UP, MLS: UP}, {VOLUME: UP, MLS: DOWN}, {VOLUME: UP}),
    "c4": ({S: UP, MLS: UP}, {S: UP, VOLUME: UP}, {S: UP, MLS: UP, VOLUME: UP}),
    "c5": (
        {S: UP, MLS: UP, VOLUME: UP},
        {S: UP, DIMENSION: DOWN, VOLUME: UP},
        {S: UP, MLS: UP, VOLUME: UP, DIMENSION: UP},
    ),
    "c6": ({S: UP, GAP: UP}, {S: UP, GAP: DOWN}, {S: UP}),
    "c7": (
        {GAP: UP, BOUND: UP, MLS: UP, NMLS: UP},
        {GAP: UP, BOUND: UP, MLS: DOWN, NMLS: UP},
        {GAP: UP, BOUND: UP, NMLS: UP},
    ),
    "c8": (COMPRESSED, {**COMPRESSED, NMLS: WEAK, GAP: UP}, {**COMPRESSED, GAP: UP}),
    "c9": ({KAPPA: UP, GAP: DOWN}, {KAPPA: UP, GAP: UP}, {KAPPA: UP, GAP: 0.3 / UP}),
    "c10": ({MLS: UP, D: DOWN}, {MLS: UP, D: UP}, {MLS: UP}),
    "c11": ({MLS: UP, C: UP}, {MLS: UP, C: DOWN}, {MLS: UP}),
    "c12": ({S: UP, MLS: UP}, {S: UP, MLS: DOWN}, {S: UP}),
    "c14": ({KAPPA: UP}, {KAPPA: UP, GAP: DOWN}, {KAPPA: UP, GAP: -0.3 / UP}),
    "c15": (COMPRESSED, {**COMPRESSED, MLS: NONE}, {**COMPRESSED, MLS: 0.5 / UP}),
}
"""Claim of a pair plot of chen2026 -> loadings: it holds, fails, is undecided."""

OF_PREPRINT: dict[str, tuple[Loadings, Loadings, Loadings]] = {
    "c1": ({G: 0.995, MLS: 0.995}, {MLS: UP}, {G: UP, MLS: UP}),
    "c2": ({VOLUME: UP, S: UP, MLS: UP}, {VOLUME: UP, S: UP, MLS: DOWN}, {VOLUME: UP, S: UP}),
    "c3": ({S: UP, TEST_LOSS: UP}, {S: UP, TEST_LOSS: DOWN}, {S: UP}),
    "c4": (
        {MLS: UP, TEST_LOSS: UP},
        {VOLUME: UP, DIMENSION: UP, TEST_LOSS: UP},
        {MLS: UP, TEST_LOSS: WEAK},
    ),
    "c5": (
        {C: UP, MLS: UP, D: DOWN, TEST_LOSS: UP},
        {C: UP, MLS: UP, D: DOWN, TEST_LOSS: DOWN},
        {C: UP, MLS: UP, D: DOWN, TEST_LOSS: NONE},
    ),
}
SHARED = [key for key in CASES if key not in ("c10", "c11", "c12")]
PLOTS = [("2026_figH8", "mlp-grid", key) for key in CASES]
PLOTS += [("2026_figH7", "vgg-grid", key) for key in SHARED]
PLOTS += [("2026_figH9", "lenet-grid", key) for key in SHARED]
PLOTS += [("2024_figD5", "vgg-grid", key) for key in list(OF_PREPRINT)[:4]]
PLOTS += [("2024_figD6", "mlp-grid", key) for key in OF_PREPRINT]
