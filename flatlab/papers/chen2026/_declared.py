"""What the figures of chen2026 and those of its preprint, chen2024, have in common. Plain data."""

from typing import Any

from flatlab.plotting import captions

BOUNDS: dict[str, Any] = {
    "quantities": ("bound_d", "bound_c", "bound_b", "bound_a"),
    "where": {"lr": 0.1, "batch_size": 20},
    "line": "quantity",
    "axes": {"MLS and its bounds (output/input)": "linear", "the same, log axis": "logarithmic"},
    "title": "MLS and its bounds A to D, multilayer perceptrons",
    "caption": (captions.ONE_SETTING, captions.CHAIN_OF_BOUNDS, captions.ONE_MARK),
    "size_inches": (11.0, 5.0),
}
"""The chain of bounds in one setting: figH6, and figD4 of the preprint."""

MISCLASSIFIED: dict[str, Any] = {
    "where": {"lr": 0.1, "batch_size": 20},
    "samples": ("test", "misclassified"),
    "line": "samples",
    "title": "sharpness and compression on test samples and on misclassified ones, VGG",
    "caption": (captions.ONE_SETTING, captions.MISCLASSIFIED, captions.ONE_MARK),
}
"""Test samples and those that are misclassified: figJ12, and fig3 of the preprint."""
