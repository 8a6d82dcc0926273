"""The figures of andriushchenko2023 about networks that others released."""

from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan import RankTable, SharpnessGrid
from flatlab.lab.plan.declarations import Declaration
from flatlab.papers.andriushchenko2023._names import (
    AVERAGE_NORMALIZED,
    AVERAGE_PLAIN,
    BERT,
    CLIP,
    FOUR,
    IMAGES,
    MEASURED,
    NORMALIZED,
    PLAIN,
    SENTENCES,
    TABLE1,
    TABLE2,
    VIT,
    VIT21K,
)

ERRORS = "Errors on test sets against sharpness on training samples."
RATE = "The colour is the learning rate of the fine-tuning, grey that of the network before it."
DETAILS = (captions.BETWEEN_NETWORKS,)


def aliases(sets: dict[str, str], *quantities: str) -> dict[str, str]:
    """Errors on test sets, or gaps, by shorter names: "error test" and "error_gap test"."""
    return {f"{name} {key}": f"test_set_{name}[{key}]" for name in quantities for key in sets}


def columns(sets: dict[str, str], *quantities: str) -> dict[str, str]:
    """What `aliases` has, with labels."""
    words = {"error": "(%)", "error_gap": "gap"}
    return {f"{q} {key}": f"{sets[key]} {words[q]}" for q in quantities for key in sets}


def in_place(labels: dict[str, str]) -> dict[str, str]:
    """Labels of columns where other data stand in for the paper's test sets."""
    return {name: f"in place of\n{label}" for name, label in labels.items()}


def shown(sets: dict[str, str], *quantities: str) -> dict[str, Any]:
    labels = columns(sets, *quantities)
    return {
        "columns": tuple(labels),
        "labels": labels,
        "of_stand_ins": in_place(labels),
        "aliases": aliases(sets, *quantities),
        "at_most": MEASURED,
    }


RECIPES: dict[str, Any] = {
    "groups": ("dropout", "weight_decay"),
    "size": "augmentation",
    "values": {
        "augmentation": {
            "0": "no augmentation",
            "1": "light augmentation",
            "3": "strong augmentation",
        }
    },
}
BOTH = ((NORMALIZED, 1), (PLAIN, 1))
IN_FOUR = {key: IMAGES[key] for key in FOUR}


def by_radius(experiment: str, definition: str, title: str) -> SharpnessGrid:
    """One definition at three radii, on six test sets."""
    return SharpnessGrid(
        experiment,
        rows=tuple((definition, radius) for radius in range(3)),
        **shown(IMAGES, "error"),
        **RECIPES,
        across=3,
        size_inches=(7.1, 9.8),
        title=title,
        caption=(ERRORS, captions.TAU),
        details=DETAILS,
    )


def with_gaps(experiment: str, **looks: Any) -> SharpnessGrid:
    """Errors, and below them the gaps."""
    return SharpnessGrid(
        experiment,
        rows=BOTH,
        **{**shown(IN_FOUR, "error", "error_gap"), **looks},
        across=4,
        size_inches=(7.1, 8.0),
        title="sharpness, errors and generalization gaps",
        caption=(
            ERRORS,
            "The gap is the test error less the training error, as fractions.",
            captions.TAU,
        ),
        details=DETAILS,
    )


def ranks(
    experiments: tuple[str, ...], sets: dict[str, str], printed: Any, of: str, height: float
) -> RankTable:
    """Every definition at every radius, beside a table of the paper."""
    labels = {name: sets[name.partition(" ")[2]] for name in columns(sets, "error")}
    return RankTable(
        experiments,
        columns=tuple(labels),
        labels=labels,
        of_stand_ins=in_place(labels),
        aliases=aliases(sets, "error"),
        at_most=MEASURED,
        printed=printed,
        size_inches=(7.1, height),
        title=f"sharpness and errors of {of}, all definitions",
        caption=("Kendall's τ of sharpness and error, 95 % interval and the paper's value.",),
        details=("Bold from 0.5 on. Positive: flatter networks err less.", *DETAILS),
    )


WORST, AVERAGE = "worst-case sharpness and errors", "average-case sharpness and errors"
FIGURES: dict[str, Declaration] = {
    "fig2": SharpnessGrid(
        VIT,
        rows=BOTH,
        **shown(IN_FOUR, "error"),
        **RECIPES,
        title="sharpness and errors of vision transformers",
        caption=(ERRORS, captions.TAU),
        details=DETAILS,
    ),
    "fig3": SharpnessGrid(
        CLIP,
        rows=BOTH,
        **shown(IN_FOUR, "error"),
        shade="lr",
        title="sharpness and errors of one network fine-tuned many times",
        caption=(ERRORS, RATE, captions.TAU),
        details=DETAILS,
    ),
    "fig4": SharpnessGrid(
        BERT,
        rows=((NORMALIZED, 0), (PLAIN, 0)),
        **shown(SENTENCES, "error"),
        shade="error test",
        title="sharpness and errors of networks that differ in their seeds",
        caption=(ERRORS, "The colour is the error on the clean test set.", captions.TAU),
        details=DETAILS,
    ),
    "fig8": with_gaps(VIT, **RECIPES),
    "fig9": with_gaps(CLIP, shade="lr"),
    "fig10": by_radius(VIT, NORMALIZED, f"{WORST}, logits normalized"),
    "fig11": by_radius(VIT, PLAIN, WORST),
    "fig12": by_radius(VIT, AVERAGE_NORMALIZED, f"{AVERAGE}, logits normalized"),
    "fig13": by_radius(VIT, AVERAGE_PLAIN, AVERAGE),
    "fig14": by_radius(VIT21K, NORMALIZED, f"{WORST}, logits normalized, other pretraining"),
    "fig15": by_radius(VIT21K, PLAIN, f"{WORST}, other pretraining"),
    "table1": ranks((VIT, VIT21K, CLIP), IMAGES, TABLE1, "image classifiers", 8.2),
    "table2": ranks((BERT,), SENTENCES, TABLE2, "classifiers of sentences", 4.6),
}
