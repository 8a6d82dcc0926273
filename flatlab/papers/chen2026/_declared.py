"""What the figures of chen2026 and those of its preprint, chen2024, have in common."""

from typing import Any

from flatlab.plan import Curves
from flatlab.plotting import captions

CENTRAL: dict[str, Any] = {"lr": 0.1, "batch_size": 20}
SWEEPS: dict[str, tuple[dict[str, Any], str]] = {
    "learning rates": ({"batch_size": 20}, captions.LEARNING_RATES),
    "batch sizes": ({"lr": 0.1}, captions.BATCH_SIZES),
}
"""What varies along the lines of a trend figure: what is fixed, and the sentence that says so."""


def trends(
    grid: str, sweep: str, networks: str, quantities: tuple[str, ...], *definitions: str
) -> Curves:
    """Sharpness and compression through training, at three learning rates or batch sizes.

    definitions: sentences of the caption about the quantities.
    """
    where, fixed = SWEEPS[sweep]
    return Curves(
        grid,
        quantities=quantities,
        where=where,
        title=f"sharpness and compression at three {sweep}, {networks}",
        caption=(
            *(fixed, captions.TRAINING_SAMPLES, *definitions),
            *(captions.OVER_SEEDS, captions.MARKS),
        ),
    )


BOUNDS = Curves(
    "mlp-grid",
    quantities=("bound_d", "bound_c", "bound_b", "bound_a"),
    where=CENTRAL,
    line="quantity",
    axes={"MLS and its bounds (output/input)": "linear", "the same, log axis": "logarithmic"},
    title="MLS and its bounds A to D, multilayer perceptrons",
    caption=(captions.ONE_SETTING, captions.CHAIN_OF_BOUNDS, captions.ONE_MARK),
    size_inches=(11.0, 5.0),
)
"""The chain of bounds in one setting: figH6, and figD4 of the preprint."""


def misclassified(*quantities: str) -> Curves:
    """Test samples and the misclassified ones among them: figJ12, and fig3 of the preprint."""
    return Curves(
        "vgg-grid",
        quantities=quantities,
        where=CENTRAL,
        samples=("test", "misclassified"),
        line="samples",
        title="sharpness and compression on test samples and on misclassified ones, VGG",
        caption=(captions.ONE_SETTING, captions.MISCLASSIFIED, captions.ONE_MARK),
    )
