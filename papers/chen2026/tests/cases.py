"""Claims of chen2024 and chen2026: changes of tables for which each holds, fails, is undecided."""

from flatlab.papers.chen2024.claims import CLAIMS as OF_2024
from flatlab.papers.chen2026.claims import CLAIMS as OF_2026
from tests.synthetic.claim_tables import (
    ACCURACY,
    BOUND,
    DIMENSION,
    DOWN,
    GAP,
    KAPPA,
    MEAN_VOLUME,
    MLS,
    NMLS,
    NONE,
    TEST_LOSS,
    UP,
    VOLUME,
    WEAK,
    WEIGHTS,
    B,
    C,
    D,
    G,
    S,
)

FLATTENED = {S: UP, MLS: UP, VOLUME: UP}
COMPRESSED = {**FLATTENED, NMLS: UP}
OF_PLOTS = {
    "c1": ({NMLS: UP, BOUND: UP}, {NMLS: UP, BOUND: DOWN}, {NMLS: UP}),
    "c2": (COMPRESSED, {**COMPRESSED, NMLS: DOWN}, {**COMPRESSED, NMLS: NONE}),
    "c3": tuple({VOLUME: UP, S: UP, MLS: rho} for rho in (UP, DOWN, 0.5 / UP)),
    "c4": ({S: UP, MLS: UP}, {S: UP, VOLUME: UP}, {S: UP, MLS: UP, VOLUME: UP}),
    "c5": (FLATTENED, {S: UP, DIMENSION: DOWN, VOLUME: UP}, {**FLATTENED, DIMENSION: UP}),
    "c6": ({S: UP, GAP: UP}, {S: UP, GAP: DOWN}, {S: UP}),
    "c7": tuple({GAP: UP, BOUND: UP, MLS: rho, NMLS: UP} for rho in (UP, DOWN, NONE)),
    "c8": (COMPRESSED, {**COMPRESSED, NMLS: WEAK, GAP: UP}, {**COMPRESSED, GAP: UP}),
    "c9": ({KAPPA: UP, GAP: DOWN}, {KAPPA: UP, GAP: UP}, {KAPPA: UP, GAP: 0.3 / UP}),
    "c10": ({MLS: UP, D: DOWN}, {MLS: UP, D: UP}, {MLS: UP}),
    "c11": ({MLS: UP, C: UP}, {MLS: UP, C: DOWN}, {MLS: UP}),
    "c12": ({S: UP, MLS: UP}, {S: UP, MLS: DOWN}, {S: UP}),
    "c14": ({KAPPA: UP}, {KAPPA: UP, NMLS: DOWN}, {KAPPA: UP, VOLUME: -0.3 / UP}),
    "c14-gap": ({KAPPA: UP}, {KAPPA: UP, GAP: DOWN}, {KAPPA: UP, GAP: -0.3 / UP}),
    "c15": (COMPRESSED, {**COMPRESSED, MLS: NONE}, {**COMPRESSED, MLS: 0.5 / UP}),
}
"""Claim of a pair plot of chen2026 -> loadings: it holds, fails, is undecided."""


def read(key, case):
    """The loadings of a case under the readings in a key: the gap is one of losses, or not."""
    meant = {} if "accuracies" in key else {GAP: TEST_LOSS}
    meant |= {VOLUME: MEAN_VOLUME} if "mean" in key else {}
    return {meant.get(name, name): loading for name, loading in case.items()}


def of_plot(claims, cases):
    """The cases of each claim and of its variants, by the keys of these."""
    stem = {key: key if key in cases else key.removesuffix("-losses") for key in claims}
    stem = {key: name if name in cases else name.partition("-")[0] for key, name in stem.items()}
    stem |= {key: "c14-gap" for key in claims if key.startswith("c14-gap")}
    return {
        key: tuple(read(key, case) for case in cases[name])
        for key, name in stem.items()
        if name in cases
    }


OF_PREPRINT = {
    "c1": ({G: 0.995, MLS: 0.995}, {MLS: UP}, {G: UP, MLS: UP}),
    "c2": OF_PLOTS["c3"],
    "c3": ({S: UP, TEST_LOSS: UP}, {S: UP, TEST_LOSS: DOWN}, {S: UP}),
    "c4": (
        {MLS: UP, TEST_LOSS: UP},
        {VOLUME: UP, DIMENSION: UP, TEST_LOSS: UP},
        {MLS: UP, TEST_LOSS: WEAK},
    ),
    "c6": tuple({**FLATTENED, TEST_LOSS: rho} for rho in (0.5, DOWN, UP)),
    "c5": tuple({C: UP, MLS: UP, D: DOWN, TEST_LOSS: rho} for rho in (UP, DOWN, NONE)),
}
PLOTS = [
    (figure, grid, key, case)
    for figures, claims, cases in (
        (("figH8", "figH7", "figH9"), OF_2026, OF_PLOTS),
        (("figD6", "figD5"), OF_2024, OF_PREPRINT),
    )
    for figure, grid in zip(figures, ("mlp-grid", "vgg-grid", "lenet-grid"), strict=False)
    for key, case in of_plot(claims[figure], cases).items()
]

CLAIMS = {
    f"{paper}_{figure}": claims
    for paper, of_paper in (("chen2024", OF_2024), ("chen2026", OF_2026))
    for figure, claims in of_paper.items()
}
SPREAD_OUT, TURNED, MIXED = {"offset": 10}, {"lr": 1, "batch": -1}, {"ramp": 0.1, "mixed": 5}
BLURRED, OPPOSITE = {"wave": 0.3, "blurred": 2}, {"decay": -3, "wave": -0.6}
STEADY = {
    ("2026_figI10", "c2"): ({VOLUME: {"ramp": 2}}, {VOLUME: MIXED}),
    ("2026_figI10", "c4"): ({ACCURACY: TURNED}, {ACCURACY: SPREAD_OUT}),
    ("2026_fig2", "c8"): ({D: {"ramp": 9}}, {D: {"mixed": 40}}),
    ("2026_fig2", "c5"): ({DIMENSION: {"first": -5}}, {DIMENSION: {"first": 0, "first_mixed": 5}}),
    ("2026_figH6", "c2"): ({C: {"level": 59.5}}, {D: {"offset": 90}}),
    ("2026_figH6", "c1"): ({C: {"level": 1.5}}, None),
    ("2026_figI10", "c5"): ({D: {"ramp": 30, "wave": 4}}, {D: {"mixed": 40}}),
    ("2026_figH7", "c16"): ({WEIGHTS: {"ramp": 4}}, {WEIGHTS: {"ramp": 1, "mixed": 2}}),
    ("2026_fig3", "c4"): ({S: {"level": 5}}, {VOLUME: MIXED}),
}
"""(figure, claim) -> changes for which it fails, and is undecided (None: it cannot be)."""


def on(samples, name, against, open_):
    return {(name, samples): against}, {(name, samples): open_}


def misclassified(figure, sensitivity):
    """The cases of the figures of test samples."""
    lower = {"level": 15}
    return {
        (figure, "c1"): on("test", S, {"ramp": -2}, MIXED),
        (figure, "c2"): on("misclassified", S, lower, SPREAD_OUT),
        (figure, "c3"): on("test", sensitivity, {"ramp": -2}, MIXED),
        (figure, "c4"): on("test", VOLUME, {"ramp": 2}, MIXED),
        (figure, "c5"): on("misclassified", VOLUME, lower, SPREAD_OUT),
    }


OF_CURVES = {
    **STEADY,
    ("2026_fig2", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("2026_fig2", "c2"): ({VOLUME: TURNED}, {NMLS: SPREAD_OUT}),
    ("2026_fig2", "c3"): ({VOLUME: {"ramp": 2}}, {MLS: MIXED}),
    ("2026_fig2", "c4"): ({MLS: {"wave": 3}, VOLUME: {"wave": 0}}, {MLS: BLURRED}),
    ("2026_fig2", "c6"): (
        {DIMENSION: {"ramp": -2, "wave": 0}, MLS: {"wave": 3}},
        {DIMENSION: {"ramp": -2, "wave": 0.3}, MLS: BLURRED},
    ),
    ("2026_fig3", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("2026_fig3", "c2"): ({MLS: TURNED}, {VOLUME: SPREAD_OUT}),
    ("2026_fig3", "c3"): ({S: {"ramp": 2}}, {NMLS: MIXED}),
    ("2026_fig3", "c8"): STEADY["2026_fig2", "c8"],
    ("2026_figH8", "c16"): STEADY["2026_figH7", "c16"],
    ("2026_figH9", "c16"): STEADY["2026_figH7", "c16"],
    ("2026_figI10", "c1"): ({MLS: OPPOSITE}, {NMLS: MIXED}),
    ("2026_figI11", "c1"): ({NMLS: OPPOSITE}, {MLS: MIXED}),
    ("2026_figI11", "c2"): STEADY["2026_figI10", "c2"],
    ("2026_figI11", "c4"): STEADY["2026_figI10", "c4"],
    ("2026_figI11", "c5"): STEADY["2026_figI10", "c5"],
    **misclassified("2026_figJ12", MLS),
    ("2024_fig1", "c1"): ({G: {"ramp": 2}}, {G: MIXED}),
    ("2024_fig1", "c2"): ({VOLUME: TURNED}, {S: SPREAD_OUT}),
    ("2024_fig1", "c3"): STEADY["2026_fig2", "c5"],
    ("2024_fig2", "c1"): ({G: TURNED}, {G: SPREAD_OUT}),
    ("2024_fig2", "c2"): ({VOLUME: {"ramp": 2}}, {VOLUME: MIXED}),
    **misclassified("2024_fig3", G),
    ("2024_figD4", "c1"): ({B: {"level": 0.5}}, None),
    ("2024_figD4", "c2"): STEADY["2026_figH6", "c2"],
    ("2024_figE7", "c1"): ({VOLUME: TURNED}, {VOLUME: SPREAD_OUT}),
    ("2024_figE7", "c2"): ({G: OPPOSITE}, {G: MIXED}),
    ("2024_figE7", "c3"): STEADY["2026_figI10", "c2"],
    ("2024_figE8", "c1"): ({S: TURNED}, {S: SPREAD_OUT}),
    ("2024_figE8", "c2"): ({G: OPPOSITE}, {G: MIXED}),
    ("2024_figE8", "c3"): STEADY["2026_figI10", "c2"],
}

OF_CURVES |= {
    (figure, key): cases
    for (figure, stem), cases in OF_CURVES.items()
    for key in CLAIMS[f"chen{figure}"]
    if key.startswith(f"{stem}-")
}
"""With the variants of each claim."""
