"""Training: many small networks at once, each from its own seed.

The unit is a pack: its members, their order, the mode and the precision are declared, never chosen
by what fits, because batched arithmetic rounds differently at different widths. On one type of
machine and with one thread a pack repeats bit for bit, whichever packs are trained beside it.
"""

from flatlab.lab.train.errors import Interrupted, TrainError
from flatlab.lab.train.pack import Trained
from flatlab.lab.train.run import train_packs

__all__ = ["Interrupted", "TrainError", "Trained", "train_packs"]
