"""The perceptrons of chen2026, with a hundred and more checkpoints and with sixty."""

from flatlab.lab.tables.curves import Curves, Window
from flatlab.papers.chen2026 import claims_trends as chen
from flatlab.stats.estimate import Estimate
from flatlab.stats.time_weights import Weight

GRID, SPARSE = "mlp-dense-grid", chen.MLP


def rho(line: Curves, word: str, window: Window, by: Weight) -> Estimate:
    """The correlation of the curve of a quantity with that of sharpness.

    line: networks of one setting.  word: the quantity.  by: what each checkpoint is weighted by.
    """
    return line.rhos(*chen.pairs("sharpness", [word]), window=window, by=by)[0]
