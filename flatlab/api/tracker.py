"""`flatlab.Tracker`: families of quantities along a training run, which it does not disturb."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr
from torch import nn

from flatlab.api.measure import measure
from flatlab.core.errors import MeasureError, first_line, is_device_failure
from flatlab.core.store import check_ending, save_dataset
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.inputs.arguments import Arguments, documented, separated
from flatlab.inputs.batches import collected, of_each
from flatlab.inputs.losses import options_known
from flatlab.measuring.evaluate import ABOUT, BATCH, evaluate, ready_to_evaluate

CHEAP = {"largest": 1, "residual": 1e-2}
"""Options of `spectrum` where no families are named."""
SAMPLES = 64
"""That are measured then."""


@documented
class Tracker:
    """Measures a network every so many steps of its training, always on the same samples.

    The training ends with the same weights as without it, byte for byte: mode, gradients, buffers
    and random streams are left as they were. Iterations start from the eigenvectors of the
    measurement before; derivatives are checked at the first measurement, and where parts of the
    network have changed. What cannot be measured later on is a warning and a row without values.

    model: the network, in training; it is measured in evaluation mode.
    inputs, targets: as for `flatlab.measure`; a loader is read once, here.
    every: steps from one measurement to the next.
    families: files of flatlab/families; None: what is cheap, `CHEAP` of `spectrum`: the largest
        eigenvalue of the Hessian with a residual of 1 %, on 64 samples unless `samples` is given.
    path: of a `.zarr.zip` that holds all rows so far after each measurement; None: none.
    samples: how many to take, the first ones; None: all, or 64 where no families are named.
    arguments:
    options: further arguments of `flatlab.measure`, and options of the families and the loss.

    Raises `MeasureError` for what cannot be measured.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 1)
    >>> x, y = torch.randn(20, 2), torch.randn(20, 1)
    >>> tracker = flatlab.Tracker(network, x, y, every=10, families="hessian")
    >>> optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    >>> for step in range(21):
    ...     tracker(step)
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.mse_loss(network(x), y).backward()
    ...     optimizer.step()
    >>> tracker.table["hessian_lambda_max"].sizes["step"]
    3
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        targets: Any = None,
        *,
        every: int = 100,
        families: str | Sequence[str] | None = None,
        path: str | Path | None = None,
        samples: int | None = None,
        **arguments: Any,
    ) -> None:
        if every < 1:
            raise MeasureError(f"every={every} is not a positive number of steps")
        check_ending(path, "a table of what is tracked")
        self.model, self.every, self.path = model, every, None if path is None else Path(path)
        if families is None:
            families, arguments = "spectrum", CHEAP | arguments
            samples = SAMPLES if samples is None else samples
        with preserving_state(model, inputs):
            how, _ = separated({"samples": samples})
            inputs, targets = collected(inputs, targets, how.samples)
        # what later changes of the user's tensors do not reach
        self.inputs = of_each(lambda part: part.detach().clone(), inputs)
        self.targets = None if targets is None else targets.detach().clone()
        names = [families] if isinstance(families, str) else list(families)
        warm = {"warm_start": True} if {*names} & {"hessian", "spectrum"} else {}
        self.options = {"families": names, **warm, **arguments}
        self.rows: dict[int, xr.Dataset] = {}
        self.failures: dict[int, str] = {}
        self.seconds = 0.0
        self._starts: dict[str, dict[str, Any]] = {}
        self._start: float | None = None
        self._training = self._measuring = 0.0  # until the last step

    def __call__(self, step: int) -> None:
        """Measure if it is time to.  step: how many steps of training have been done."""
        now = time.perf_counter()
        self._start = now if self._start is None else self._start
        self._training, self._measuring = now - self._start - self.seconds, self.seconds
        if step % self.every or step in self.rows:
            return
        try:
            self.rows[step] = self._row()
        except Exception as error:
            if not self.rows or is_device_failure(error):  # at first it is the call that is wrong
                raise
            self.failures[step] = f"step {step}: {type(error).__name__}: {first_line(error)}"
            self.rows[step] = xr.Dataset()
            warnings.warn(f"not measured at {self.failures[step]}", stacklevel=2)
        if self.path is not None:
            save_dataset(self.path, self.table)
        self.seconds += time.perf_counter() - now

    def _row(self) -> xr.Dataset:
        """What is measured, the loss of the samples and, where there are classes, the accuracy."""
        with preserving_state(self.model):
            for module in self.model.modules():
                module.training = False
            how = {"starts": self._starts, **self.options}
            report = measure(self.model, self.inputs, self.targets, **how)
            return report.assign(self._loss())

    def _loss(self) -> dict[str, Any]:
        loss = self.options.get("loss", "half-mse")
        names = {*Arguments.__struct_fields__, *options_known(loss)} & self.options.keys()
        given = {name: self.options[name] for name in names}
        ready = ready_to_evaluate(self.model, self.inputs, self.targets, loss, given)
        values = evaluate(ready, given.get("batch_size") or BATCH, ready.model)
        return {name: ((), value, ABOUT[name]) for name, value in values.items()}

    @property
    def table(self) -> xr.Dataset:
        """All that has been measured: the quantities with a dimension `step`."""
        if not self.rows:
            raise MeasureError("nothing has been measured yet; call the tracker with step 0")
        table = xr.concat(
            list(self.rows.values()), dim="step", join="outer", combine_attrs="override"
        )
        steps = {"step": ("step", list(self.rows), {"long_name": "steps of training"})}
        failures = {"failures": [*self.failures.values()]} if self.failures else {}
        return table.assign_coords(steps).assign_attrs(every=self.every, **failures)

    @property
    def cost(self) -> float:
        """Time of measuring in percent of that of training, until the last step; NaN at first."""
        return 100 * self._measuring / self._training if self._training else float("nan")
