"""What the claims of chen2026 and chen2024 are about: quantities, grids and settings."""

from __future__ import annotations

from flatlab.claims.curves import Setting

S, MLS, NMLS, VOLUME, G = "root_sharpness", "mls", "nmls", "log_volume", "g"
DIMENSION, GAP, KAPPA = "local_dimension", "generalization_gap", "relative_flatness"
MLS_BOUND, NMLS_BOUND, BOUND_C = "bound_d", "nmls_bound", "bound_c"
TEST_LOSS, TEST_ACCURACY = "test_loss", "test_accuracy"
WORDS = {S: "sharpness", MLS: "MLS", NMLS: "NMLS", VOLUME: "log volume", G: "G"}

MLP, VGG, LENET = "mlp-grid", "vgg-grid", "lenet-grid"
GRIDS = (MLP, VGG, LENET)

CENTRAL = Setting(lr=0.1, batch_size=20)
LEARNING_RATES = (Setting(lr=0.05, batch_size=20), CENTRAL, Setting(lr=0.2, batch_size=20))
BATCH_SIZES = (Setting(lr=0.1, batch_size=8), CENTRAL, Setting(lr=0.1, batch_size=32))


def listed(*names: str) -> str:
    """In words: "MLS", or "each of MLS, NMLS"."""
    words = [WORDS[name] for name in names]
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"
