"""What the claims of chen2026 and chen2024 are about: quantities, grids, settings, correlations."""

from collections.abc import Sequence

from flatlab.claims import Claim
from flatlab.claims.evidence import Pair
from flatlab.claims.judges import exceed, positive

QUANTITIES = {
    "sharpness": "root_sharpness",
    "MLS": "mls",
    "NMLS": "nmls",
    "log volume": "log_volume",
    "G": "g",
    "dimension": "local_dimension",
    "gap": "generalization_gap",
    "kappa": "relative_flatness",
    "MLS bound": "bound_d",
    "NMLS bound": "nmls_bound",
    "bound C": "bound_c",
    "test loss": "test_loss",
}
"""The papers' words for the quantities of the tables."""

COMPRESSION = ("MLS", "NMLS", "log volume")

MLP, VGG, LENET = "mlp-grid", "vgg-grid", "lenet-grid"
GRIDS = (MLP, VGG, LENET)

CENTRAL = {"lr": 0.1, "batch_size": 20}
LEARNING_RATES = ({**CENTRAL, "lr": 0.05}, CENTRAL, {**CENTRAL, "lr": 0.2})
BATCH_SIZES = ({**CENTRAL, "batch_size": 8}, CENTRAL, {**CENTRAL, "batch_size": 32})


def listed(words: Sequence[str]) -> str:
    """As a claim lists quantities: "MLS", or "each of MLS, NMLS"."""
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"


def pairs(x: str, others: Sequence[str]) -> list[Pair]:
    """Quantity x with each of others, all of them in words."""
    return [(QUANTITIES[x], QUANTITIES[word]) for word in others]


def rise_together(
    grid: str, x: str, others: Sequence[str], source: str, seeds: int | None = None
) -> Claim:
    """Quantity x correlates positively with each of others."""
    judge = positive(grid, *pairs(x, others), seeds=seeds)
    return Claim(f"rho({x}, {listed(others)}) > 0", source, judge)


def closer(
    grid: str,
    x: str,
    strong: Sequence[str],
    weak: Sequence[str],
    source: str,
    seeds: int | None = None,
) -> Claim:
    """Quantity x correlates more strongly with each of some quantities than with each of others."""
    judge = exceed(grid, pairs(x, strong), pairs(x, weak), seeds)
    return Claim(f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})", source, judge)
