"""Families of quantities: a file each, or a folder where one has parts, measured together.

A family has a dictionary `QUANTITIES` (what each is, its dimensions, units and source), a class
`Options` where it has options, and a function

    measure(model, samples, settings) -> Measured

of one sample set. `CHECKS` names the derivatives that it takes of a network, which are compared
with differences before it is called (`flatlab/derivatives/checks/derivative_check.py`): some of
`function`, `gradient`, `hessian`, `gauss-newton`, `inputs`, or none for a closed form. A family
that compares training with test samples has instead

    measure_splits(model, splits, settings) -> Measured

and is measured by the workflow alone. Where calls cost more than numbers, a family may also have

    measure_several(model, states, samples, settings, norms) -> list[Measured]

which is what `measure` returns for each of several networks, or empty where it cannot do so.

`TOKENS = True` says that inputs may be integers: a family whose quantities need no derivatives with
respect to them; `TOKENS = "embedded"` that it takes those with respect to the output of the first
embedding. `ERRORS` are quantities beside others, such as standard errors of estimates.
`ESTIMATES = True` says that its quantities are estimates of what other families compute exactly.
"""

from flatlab.core.errors import MeasureError
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

__all__ = ["MeasureError", "Measured", "Quantity", "SampleSet", "Settings"]
