"""Ask of a network, once, whether it can be measured, and call a family with what is found."""

import warnings
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError, first_line, is_device_failure, is_out_of_memory
from flatlab.core.registry import imported
from flatlab.derivatives.checks.derivative_check import DerivativeReport, Kind, check_derivatives
from flatlab.derivatives.checks.isolation import batch_norm, is_finite
from flatlab.derivatives.per_sample.memory import accuracy_of, fitting, held_by_one
from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.second_pass import recomposed
from flatlab.measuring.quantity import Measured, SampleSet, Settings

NOTES = ("derivatives", "derivatives_not_checked")
"""What a check says: see `check_derivatives`."""
AT_A_TIME = 100
"""Samples whose outputs are looked at."""

Known = dict[tuple[str | None, str | None], dict[Kind, DerivativeReport]]
"""What is known of derivatives, by the mode of batch norm and the loss that an option names."""


def measure_family(
    name: str, model: nn.Module, samples: SampleSet, settings: Settings, known: Known | None = None
) -> Measured:
    """A family on one sample set, with what the check of its derivatives says among its notes.

    name: the family's key; its `CHECKS` says which derivatives it takes.
    model: the network.
    samples: the sample set.
    settings: how the family measures.
    known: of derivatives, from checks for other families or of this network with other weights,
        and to which this adds; None: all is checked.

    Mode, randomness, mixing of samples and derivatives are asked here, once, before a family
    begins. After it nothing is a number where weights, or outputs of any sample, are not finite:
    derivatives may be, as those of a constant. Raises `MeasureError` where the network or its
    derivatives are refused.
    """
    family, options = imported("families", name), settings.options
    named = getattr(options, "relative_flatness_loss", None)
    loss = settings.loss_named(named)

    def targets(outputs: int) -> Tensor | None:
        try:
            return samples.targets_for(outputs, loss)
        except MeasureError:  # the family says so, if it needs them
            return None

    mode = getattr(options, "batch_norm", None)
    before = {} if known is None else known.setdefault((mode, named), {})
    asked = model, samples.inputs, targets, loss, family.CHECKS
    try:
        report = check_derivatives(*asked, mode, settings.progress, before)
        given = samples.targets
        wide = given if given is not None and given.ndim == 2 and given.shape[1] > 1 else None
        if wide is not None and (why := loss.unfit(wide)):
            raise MeasureError(why)
        how = replace(settings, difference_step=report.step)
        if getattr(options, "accuracy", None) == "auto":
            _say_if_estimated(name, model, samples.inputs, how)
        with recomposed(report.operations):
            result: Measured = family.measure(model, samples, how)
            seen = result.finite or _outputs_finite(model, samples.inputs, mode, how)
            result.finite = seen and is_finite(*model.parameters())
    except Exception as error:  # of whatever a network, or a loss, does
        known_of = isinstance(error, MeasureError | MemoryError) or is_device_failure(error)
        if known_of or is_out_of_memory(error):
            raise
        kind = "" if isinstance(error, NotImplementedError) else f"{type(error).__name__}: "
        raise MeasureError(f"{name}: {kind}{first_line(error)}") from error
    if not result.finite:
        result = result.without_numbers()
    return replace(result, notes=result.notes | report.notes)


def _say_if_estimated(name: str, model: nn.Module, inputs: Tensor, how: Settings) -> None:
    """Say that a family estimates what does not fit in memory."""
    findings = how.findings(model, inputs)
    if accuracy_of("auto", findings, inputs, how.budget) is not None:
        warnings.warn(
            f"{name} estimates, with standard errors beside the values: the derivatives of a "
            f"sample with {findings.outputs} outputs take "
            f"{held_by_one(findings, inputs) / 1e9:.3g} GB; accuracy='exact' computes them in "
            "blocks",
            stacklevel=5,
        )


def _outputs_finite(model: nn.Module, inputs: Tensor, mode: str | None, how: Settings) -> bool:
    """Whether the outputs of all samples are finite.  mode: of batch norm."""
    size = len(inputs) if mode == "train" else how.batch_size
    size = size or fitting(lambda: run(model, inputs[:1]), how.budget, AT_A_TIME)
    with torch.no_grad(), batch_norm(model, mode):
        return all(is_finite(run(model, x)) for x in inputs.split(size))


def notes_of_many(name: str, measured: Iterable[Measured]) -> dict[str, str]:
    """What the checks of many networks say: of how many of them, and in the words of the first.

    name: the family's key.
    measured: the results of each network.
    """
    results, notes = list(measured), {}
    for note in NOTES:
        texts = [result.notes[note] for result in results if note in result.notes]
        if texts:
            notes[f"{name}_{note}"] = f"{len(texts)} of {len(results)} networks: {texts[0]}"
    return notes
