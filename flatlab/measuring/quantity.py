"""What a family of quantities is given, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.registry import imported
from flatlab.data._tensors import Split
from flatlab.derivatives.checks.isolation import check_samples
from flatlab.derivatives.jacobians.norms import Norms
from flatlab.derivatives.per_sample.probe import Findings, probe
from flatlab.inputs.batches import of_samples, tensors_of
from flatlab.inputs.loss_forms import OfFunction
from flatlab.losses._base import Loss, loss_of

FACTS = (
    *("samples_measured", "shared", "layers_left_out", "features", "sharpness_radius"),
    *("products", "iterations", "not_converged", "dropped"),
)
"""How names end of what is known of a network whose weights or outputs are not finite."""


@dataclass(frozen=True)
class Quantity:
    """The definition of a quantity.

    long_name: its definition, in a phrase.
    units: its units; "1" for numbers without any.
    source: where a paper defines it, if one does.
    dims: the dimensions of its values for one network and one sample set: `sample`, `layer`, or
        others that its family names.
    label: what figures call it, without units; its key in words if empty.
    """

    long_name: str
    units: str = "1"
    source: str = ""
    dims: tuple[str, ...] = ()
    label: str = ""


def chen2026(
    long_name: str, units: str, where: str, dims: tuple[str, ...] = (), *, label: str = ""
) -> Quantity:
    """A quantity that chen2026 defines."""
    return Quantity(long_name, units, f"chen2026 {where}", dims, label=label)


def error_of(name: str, quantity: Quantity) -> Quantity:
    """The standard error of an estimate of a quantity by random directions."""
    what = f"standard error of {name}, of the random directions"
    return Quantity(what, quantity.units, "", quantity.dims)


def quantities_of(family: ModuleType) -> dict[str, Quantity]:
    """Those of a family, and what is beside them where they are estimated."""
    return {**family.QUANTITIES, **getattr(family, "ERRORS", {})}


@dataclass(frozen=True)
class SampleSet:
    """Inputs with their targets.

    inputs: (samples, ...); of samples as users have them, perhaps several by place or by name.
    targets: (samples, N), or None; NaN at positions that do not count.
    labels: classes, (samples,), or None.
    position_labels: classes of positions, (samples, positions), -1 where there is none, or None.
    kept: the positions that count, (samples, positions), whose outputs the network returns, and 0
        elsewhere; None: all.
    masks: numbers of each sample, the last ones, that are masks and no inputs.
    padded: whether some positions are padding, which the network does not see.
    as_given: targets in the form that a user's loss takes.
    """

    inputs: Any
    targets: Tensor | None = None
    labels: Tensor | None = None
    position_labels: Tensor | None = None
    kept: Tensor | None = None
    masks: int = 0
    padded: bool = False
    as_given: Tensor | None = None

    @classmethod
    def of(cls, split: Split) -> "SampleSet":
        """Those of a part of a data set."""
        return cls(split.inputs, split.targets, split.labels)

    def __len__(self) -> int:
        return len(tensors_of(self.inputs)[0])

    def subset(self, size: int, seed: int) -> "SampleSet":
        """A fixed random subset of `size` distinct samples, as users have them."""
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(self))[:size])
        targets, labels = (None if y is None else y[order] for y in (self.targets, self.labels))
        return SampleSet(of_samples(self.inputs, order), targets, labels)

    @property
    def given(self) -> Tensor | None:
        """Targets as a user has them, or the classes, or the values where there are none."""
        if self.as_given is not None:
            return self.as_given
        return self.targets if self.labels is None else self.labels

    @property
    def numbers(self) -> Tensor:
        """Inputs that are no masks, (samples, M)."""
        flat = self.inputs.flatten(1)
        return flat[:, : flat.shape[1] - self.masks]

    def targets_for(self, outputs: int, loss: Loss | None = None) -> Tensor:
        """Targets (samples, outputs): as given, or one-hot vectors of the labels.

        Raises `MeasureError` where there are none, or they do not fit the outputs or the loss.
        """
        if isinstance(loss, OfFunction) and self.targets is not None:
            return self.targets
        if self.targets is not None and (self.labels is None or self.targets.ndim > 1):
            targets = self.targets
        elif self.labels is None:
            raise MeasureError("the sharpness of a loss needs targets: classes, or output values")
        elif (largest := int(self.labels.max())) >= outputs:
            raise MeasureError(
                f"label {largest} is out of range: the network has {outputs} outputs "
                f"(labels 0 to {outputs - 1})"
            )
        else:
            real = self.inputs.dtype if self.inputs.is_floating_point() else torch.float32
            targets = nn.functional.one_hot(self.labels, outputs).to(real)
        if targets.ndim == 1 and outputs == 1:
            targets = targets[:, None]
        if tuple(targets.shape) != (len(self.inputs), outputs):
            hint = "; classes are integers (samples,)" if targets.ndim == 1 else ""
            raise MeasureError(
                f"targets are {tuple(targets.shape)}, outputs {outputs} per sample{hint}"
            )
        if loss is not None and (problem := loss.unfit(targets)):
            raise MeasureError(problem)
        return targets


@dataclass(frozen=True)
class Settings:
    """How a family measures.

    options: an instance of its class `Options`.
    loss: the loss that the network was trained with.
    batch_size: samples at a time; None: as many as fit.
    seed: of families that draw at random.
    progress: show a bar.
    initial: the network before training or its state dictionary, if known.
    memory: what a family keeps from one checkpoint of a run to the next, for the same samples; it
        may save time, but must not be needed.
    budget: bytes that derivatives may take; None: fixed block sizes, the same on every machine.
    norms: cache of weight norms, which all sample sets of one network share.
    found: what rules cover in the network, once it has been asked; all families on it share it,
        and in an experiment all weights and sample sets of a pack.
    difference_step: of what stands in for second backward passes where these are wrong, as
        `check_derivatives` has found; None: they are right.
    split: all samples of the split that those measured are drawn from, in an experiment.
    held_out: test samples, in an experiment, where those measured are training samples.
    """

    options: Any
    loss: Loss
    batch_size: int | None = None
    seed: int = 0
    progress: bool = False
    initial: nn.Module | Mapping[str, Tensor] | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    norms: Norms = field(default_factory=dict)
    found: dict[str, Findings] = field(default_factory=dict)
    budget: int | None = None
    difference_step: float | None = None
    split: SampleSet | None = None
    held_out: SampleSet | None = None

    def findings(self, model: nn.Module, inputs: Tensor, checked: bool = False) -> Findings:
        """What rules cover; `MeasureError` for a network or samples that cannot be measured.

        checked: without what differs from plain autograd, if `keep` has been told of it.
        """
        if checked and "checked" in self.found:
            return self.found["checked"]
        if "network" not in self.found:
            check_samples(model, inputs)
            if not (found := probe(model, inputs)).finite:  # other weights may be
                return found
            self.found["network"] = found
        return self.found["network"]

    def keep(self, findings: Findings) -> None:
        """Let families, and later weights of the same network, know what was compared."""
        if findings.checked:
            self.found["checked"] = findings

    def loss_named(self, name: str | None) -> Loss:
        """The loss that an option names, for the outputs of this network; None: `loss`."""
        if not name:
            return self.loss
        return self.loss.like(loss_of({"loss": name}))


@dataclass
class Measured:
    """The results of a family.

    values: an array, tensor or number per quantity; they are stored as arrays of float64.
    coordinates: the names along their dimensions.
    notes: what a report says of the measurement.
    finite: whether weights and the outputs of all samples are finite; of a family, whether it has
        seen that outputs are.
    """

    values: dict[str, Any]
    coordinates: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    finite: bool = False

    def __post_init__(self) -> None:
        self.values = {
            name: np.asarray(value.cpu() if isinstance(value, Tensor) else value, np.float64)
            for name, value in self.values.items()
        }

    def without_numbers(self) -> "Measured":
        """With NaN instead of values, but for counts; nothing has converged, or is finite."""
        values = self.values.copy()
        for name, value in values.items():
            if not name.endswith(FACTS):
                nothing = name == "finite" or name.endswith("converged")
                values[name] = value * (0.0 if nothing else np.nan)
        return replace(self, values=values)


def only_layer(model: nn.Module) -> nn.Module | None:
    """The only module of a network that computes anything; None if there are several."""
    passing = (nn.Sequential, nn.Flatten, nn.Identity)
    layers = [module for module in model.modules() if type(module) not in passing]
    return layers[0] if len(layers) == 1 else None


def settings_of(name: str, options: Mapping[str, Any], loss: Loss, **how: Any) -> Settings:
    """The settings of a family by its key.  how: further fields of `Settings`."""
    kind = getattr(imported("families", name), "Options", None)
    return Settings(kind(**options) if kind else None, loss, **how)


def attributes(quantity: Quantity, precision: torch.dtype) -> dict[str, str]:
    """What a variable of a dataset says about itself."""
    return {
        "long_name": quantity.long_name,
        "units": quantity.units,
        "source": quantity.source,
        "precision": str(precision).removeprefix("torch."),
    }
