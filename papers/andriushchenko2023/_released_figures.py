"""The figures of andriushchenko2023 about networks that others released."""

from typing import Any

from flatlab.lab.figures import captions
from flatlab.lab.plan.declarations import Declaration
from flatlab.papers.andriushchenko2023 import _names as names
from flatlab.papers.andriushchenko2023._names import (
    BERT,
    CLIP,
    IMAGES,
    NORMALIZED,
    PLAIN,
    SENTENCES,
    VIT,
    VIT21K,
)
from flatlab.papers.andriushchenko2023.templates import RankTable, SharpnessGrid

DETAILS = (captions.BETWEEN_NETWORKS,)
WORDS = {"error": "(%)", "error_gap": "gap"}
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
IN_FOUR = {key: IMAGES[key] for key in names.FOUR}


def shown(sets: dict[str, str], words: dict[str, str]) -> dict[str, Any]:
    """Errors on test sets, or gaps, by shorter names, and as other data stand in for the sets.

    words: behind the name of a set, by quantity.
    """
    pairs = [(quantity, key) for quantity in words for key in sets]
    labels = {f"{name} {key}": f"{sets[key]} {words[name]}".strip() for name, key in pairs}
    return {
        "columns": tuple(labels),
        "labels": labels,
        "of_stand_ins": {name: f"in place of\n{label}" for name, label in labels.items()},
        "aliases": {f"{name} {key}": f"test_set_{name}[{key}]" for name, key in pairs},
        "at_most": names.MEASURED,
    }


def grid(
    experiment: str, sets: dict[str, str], title: str, *said: str, gaps: bool = False, **about: Any
) -> SharpnessGrid:
    """Errors on test sets against sharpness and, with gaps, these below them.

    said: more sentences of the caption.
    """
    caption = ("Errors on test sets against sharpness on training samples.", *said, captions.TAU)
    columns = shown(sets, WORDS if gaps else {"error": WORDS["error"]})
    about = {"rows": BOTH, **columns, **about, "title": title, "caption": caption}
    return SharpnessGrid(experiment, details=DETAILS, **about)


def by_radius(experiment: str, definition: str, title: str) -> SharpnessGrid:
    """One definition at three radii, on six test sets."""
    rows = tuple((definition, radius) for radius in range(3))
    size = (7.1, 9.8)
    return grid(experiment, IMAGES, title, rows=rows, across=3, size_inches=size, **RECIPES)


def with_gaps(experiment: str, **looks: Any) -> SharpnessGrid:
    """Errors, and below them the gaps."""
    said = "The gap is the test error less the training error, as fractions."
    title = "sharpness, errors and generalization gaps"
    size = (7.1, 8.0)
    return grid(experiment, IN_FOUR, title, said, gaps=True, across=4, size_inches=size, **looks)


def ranks(
    experiments: tuple[str, ...], sets: dict[str, str], printed: Any, of: str, height: float
) -> RankTable:
    """Every definition at every radius, beside a table of the paper."""
    return RankTable(
        experiments,
        **shown(sets, {"error": ""}),
        printed=printed,
        size_inches=(7.1, height),
        title=f"sharpness and errors of {of}, all definitions",
        caption=("Kendall's τ of sharpness and error, 95 % interval and the paper's value.",),
        details=("Bold from 0.5 on. Positive: flatter networks err less.", *DETAILS),
    )


WORST, AVERAGE = "worst-case sharpness and errors", "average-case sharpness and errors"
FIGURES: dict[str, Declaration] = {
    "fig2": grid(VIT, IN_FOUR, "sharpness and errors of vision transformers", **RECIPES),
    "fig3": grid(
        CLIP,
        IN_FOUR,
        "sharpness and errors of one network fine-tuned many times",
        "The colour is the learning rate of the fine-tuning, grey that of the network before it.",
        shade="lr",
    ),
    "fig4": grid(
        BERT,
        SENTENCES,
        "sharpness and errors of networks that differ in their seeds",
        "The colour is the error on the clean test set.",
        rows=((NORMALIZED, 0), (PLAIN, 0)),
        shade="error test",
    ),
    "fig8": with_gaps(VIT, **RECIPES),
    "fig9": with_gaps(CLIP, shade="lr"),
    "fig10": by_radius(VIT, NORMALIZED, f"{WORST}, logits normalized"),
    "fig11": by_radius(VIT, PLAIN, WORST),
    "fig12": by_radius(VIT, names.AVERAGE_NORMALIZED, f"{AVERAGE}, logits normalized"),
    "fig13": by_radius(VIT, names.AVERAGE_PLAIN, AVERAGE),
    "fig14": by_radius(VIT21K, NORMALIZED, f"{WORST}, logits normalized, other pretraining"),
    "fig15": by_radius(VIT21K, PLAIN, f"{WORST}, other pretraining"),
    "table1": ranks((VIT, VIT21K, CLIP), IMAGES, names.TABLE1, "image classifiers", 8.2),
    "table2": ranks((BERT,), SENTENCES, names.TABLE2, "classifiers of sentences", 4.6),
}
