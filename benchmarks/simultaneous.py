"""How often intervals of rank correlations cover, one by one and all pairs of quantities at once.

    python -m benchmarks.simultaneous         two tables for docs/coverage.md

Every replicate draws new seeds of fixed settings: quantities are mixtures of five independent ones,
which differ between settings and within them, and own noise. The truth is the mean of the estimate
over the replicates; tau-a is unbiased. A band is right if none of its intervals misses.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from benchmarks.designs import TAILS, Generator, noise
from flatlab.stats import Estimate
from flatlab.stats.ranks import Ranks, granulated, pairs_of, simultaneous
from flatlab.stats.verdict import TAIL

QUANTITIES, SOURCES, REPLICATES = 45, 5, 400
FACTORS = (3, 2, 4, 2)
"""Levels of rate, batch size, regularizer and loss: 48 settings."""

SIZES = ((48, 4), (12, 4))
SPREAD = 1.0
"""Deviation of the settings' means in units of the deviation within settings."""

Drawn = dict[str, np.ndarray]
Draw = Callable[[Generator], Drawn]


def drawing(quantities: int, settings: int, seeds: int, tails: str) -> tuple[Draw, np.ndarray]:
    """A function that draws the quantities of all networks, and the setting of each network."""
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((quantities, SOURCES)) / np.sqrt(SOURCES)
    means = SPREAD * mix @ rng.standard_normal((SOURCES, settings))
    labels = np.repeat(np.arange(settings), seeds)

    def draw(rng: Generator) -> Drawn:
        sources = noise(rng, tails, SOURCES, len(labels))
        own = noise(rng, tails, quantities, len(labels)) / 2
        values = mix @ sources + np.repeat(means, seeds, axis=1) + own
        return {str(name): column for name, column in enumerate(values)}

    return draw, labels


def bands(settings: int, seeds: int, within: bool, tails: str) -> tuple[float, float, float]:
    """Share of bands that are right, of 95 % intervals that cover, and the median half-width of the
    band where tau is below a half.
    """
    draw, labels = drawing(QUANTITIES, settings, seeds, tails)
    rng, found = np.random.default_rng(1), []
    upper = np.triu_indices(QUANTITIES, 1)
    tail = simultaneous(len(upper[0]))
    for _ in range(REPLICATES):
        ranks = Ranks(draw(rng), list(labels), pairs_of(labels) if within else None)
        value, *ends = ranks.matrix(tail)
        found.append([matrix[upper] for matrix in (value, *ends, *ranks.matrix(TAIL)[1:])])
    values = np.array(found).transpose(1, 0, 2)  # (5, replicates, pairs)
    truth = values[0].mean(axis=0)
    inside = (values[1] <= truth) & (truth <= values[2])
    alone = (values[3] <= truth) & (truth <= values[4])
    width = np.median(((values[2] - values[1]) / 2)[:, np.abs(truth) < 0.5])
    return float(inside.all(axis=1).mean()), float(alone.mean()), float(width)


def single(estimate: Callable[[Drawn, np.ndarray], Estimate], tails: str) -> tuple[float, float]:
    """Shares of 95 % intervals of 48 x 4 networks that lie wholly above and below the truth."""
    draw, labels = drawing(12, 48, 4, tails)
    rng = np.random.default_rng(1)
    found = [estimate(draw(rng), labels) for _ in range(REPLICATES)]
    low, high = np.array([each.interval() for each in found]).T
    truth = np.mean([each.value for each in found])
    return float((low > truth).mean()), float((high < truth).mean())


def psi(columns: Drawn, labels: np.ndarray) -> Estimate:
    """The mean over four factors."""
    levels = np.array(list(product(*map(range, FACTORS))))[labels]
    taus = []
    for factor in range(len(FACTORS)):
        others = np.delete(levels, factor, axis=1) @ np.array([1, 10, 100])
        pairs = pairs_of(others, levels[:, factor])
        taus.append(Ranks(columns, list(labels), pairs).tau("0", "1"))
    return granulated("Psi", taus)


ESTIMATES: dict[str, Callable[[Drawn, np.ndarray], Estimate]] = {
    "partial tau, two given, all": lambda c, s: Ranks(c, list(s)).partial("0", "1", "2", "3"),
    "partial tau, two given, within settings": lambda c, s: Ranks(c, list(s), pairs_of(s)).partial(
        "0", "1", "2", "3"
    ),
    "mean over factors": psi,
    "effective rank, within settings": lambda c, s: Ranks(c, list(s), pairs_of(s)).effective_rank(),
}


def rows() -> Iterator[str]:
    """Markdown."""
    yield "| networks | pairs of networks | noise | bands, % | 95 % alone, % | ± |"
    yield "|---|---|---|---|---|---|"
    for (settings, seeds), within, tails in product(SIZES, (False, True), TAILS):
        band, alone, width = bands(settings, seeds, within, tails)
        where = "within settings" if within else "all"
        shares = f"{100 * band:.1f} | {100 * alone:.1f}"
        yield f"| {settings} x {seeds} | {where} | {tails} | {shares} | {width:.2f} |"
    yield ""
    yield "| estimate, 48 x 4 | noise | coverage, % | above, % | below, % |"
    yield "|---|---|---|---|---|"
    for (name, estimate), tails in product(ESTIMATES.items(), TAILS):
        above, below = single(estimate, tails)
        shares = f"{100 * (1 - above - below):.1f} | {100 * above:.1f} | {100 * below:.1f}"
        yield f"| {name} | {tails} | {shares} |"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
