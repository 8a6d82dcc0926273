"""Correlations of curves on `mlp-dense-grid` and on `mlp-grid`, weighted by time."""

from functools import partial

from flatlab.lab.tables.curves import Curves, Window
from flatlab.papers.beyond._time_weights import Time, correlation, shares
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.stats.estimate import Array, Estimate, fisher

GRID, SPARSE = "mlp-dense-grid", chen.MLP
"""The grids of the same networks, with a hundred and more checkpoints and with sixty."""


def rho(line: Curves, word: str, window: Window, by: Time) -> Estimate:
    """The correlation of a curve with that of sharpness, over time.

    line: networks of one setting.  word: the quantity.  by: what each checkpoint is weighted by.
    """
    names = [chen.QUANTITIES["sharpness"], chen.QUANTITIES[word]]
    label = f"rho_t({names[0]}, {names[1]}, {window}, by {by})"
    return line.over_runs(label, partial(_of_runs, line, names, window, by), on_z=True)


def _of_runs(line: Curves, names: list[str], window: Window, by: Time) -> Array:
    seen = line.seen(names, window, "train")
    return fisher([correlation(x, y, shares(times, by)) for times, (x, y) in seen])
