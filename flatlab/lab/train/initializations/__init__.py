"""Initializations: one file each, whose stem is the value of `network.initialization`.

Each file has `draw(model)`, which draws the weights from torch's global generator; the generator is
seeded by the run, and the network was built with the same seed. An initialization that then fits
the weights to something also has a class `Fit(model, steps)`, with `step()`, which takes one step,
and `tensors()`, everything that the remaining steps depend on, by name: the fit is saved and
resumed by these. One of them is `left`, the number of steps that remain, which is an attribute too.
"""

from flatlab.lab.train.initializations._draw import draw, reset

__all__ = ["draw", "reset"]
