"""How often a simultaneous 95 % band of Kendall's tau covers all pairs of quantities at once.

    python -m benchmarks.simultaneous         the table for docs/statistics.md

Every replicate draws new seeds of fixed settings: quantities are mixtures of five independent ones,
which differ between settings and within them, and own noise. The truth is the mean of tau over the
replicates, of which tau-a is an unbiased estimate. A band is right if none of its intervals misses.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from benchmarks.designs import TAILS, noise
from flatlab.stats.ranks import Ranks, pairs_of, simultaneous
from flatlab.stats.verdict import TAIL

QUANTITIES, SOURCES, REPLICATES = 45, 5, 60
SIZES = ((48, 4), (12, 4), (12, 2))
SPREAD = 1.0
"""Deviation of the settings' means in units of the deviation within settings."""


def bands(settings: int, seeds: int, within: bool, tails: str) -> tuple[float, float, float, float]:
    """Share of bands that are right, of single intervals of the band and of 95 % that cover, and
    the median half-width of the band where tau is below a half.
    """
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((QUANTITIES, SOURCES)) / np.sqrt(SOURCES)
    means = SPREAD * mix @ rng.standard_normal((SOURCES, settings))
    labels = np.repeat(np.arange(settings), seeds)
    upper = np.triu_indices(QUANTITIES, 1)
    tail = simultaneous(len(upper[0]))
    found = []
    for _ in range(REPLICATES):
        sources = noise(rng, tails, SOURCES, len(labels))
        own = noise(rng, tails, QUANTITIES, len(labels)) / 2
        values = mix @ sources + np.repeat(means, seeds, axis=1) + own
        columns = {str(name): column for name, column in enumerate(values)}
        ranks = Ranks(columns, list(labels.astype(str)), pairs_of(labels) if within else None)
        value, *ends = ranks.matrix(tail)
        found.append([matrix[upper] for matrix in (value, *ends, *ranks.matrix(TAIL)[1:])])
    values = np.array(found).transpose(1, 0, 2)  # (5, replicates, pairs)
    truth = values[0].mean(axis=0)
    inside = (values[1] <= truth) & (truth <= values[2])
    alone = (values[3] <= truth) & (truth <= values[4])
    width = np.median(((values[2] - values[1]) / 2)[:, np.abs(truth) < 0.5])
    return float(inside.all(axis=1).mean()), float(inside.mean()), float(alone.mean()), float(width)


def rows() -> Iterator[str]:
    """Markdown."""
    yield "| networks | pairs of networks | noise | bands, % | single, % | 95 % alone, % | ± |"
    yield "|---|---|---|---|---|---|---|"
    for (settings, seeds), within, tails in product(SIZES, (False, True), TAILS):
        band, single, alone, width = bands(settings, seeds, within, tails)
        where = "within settings" if within else "all"
        shares = f"{100 * band:.1f} | {100 * single:.3f} | {100 * alone:.1f}"
        yield f"| {settings} x {seeds} | {where} | {tails} | {shares} | {width:.2f} |"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
