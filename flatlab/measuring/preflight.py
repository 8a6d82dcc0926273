"""The one way to call a family: after its derivatives have been checked."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.registry import imported
from flatlab.derivatives.checks.comparisons import Verdict
from flatlab.derivatives.checks.derivative_check import check_derivatives
from flatlab.derivatives.second_order.second_pass import recomposed
from flatlab.inputs.loss_forms import OfFunction
from flatlab.losses._base import NoClosedForm
from flatlab.measuring.quantity import Measured, Samples, Settings

NOTES = ("derivatives", "derivatives_not_checked")
"""What a check says: see `check_derivatives`."""


def measured(
    name: str,
    model: nn.Module,
    samples: Samples,
    settings: Settings,
    verdicts: dict[str, Verdict] | None = None,
) -> Measured:
    """A family on one sample set, with what the check of its derivatives says among its notes.

    name: the family's key; its `CHECKS` says which derivatives it takes.
    model: the network.
    samples: the sample set.
    settings: how the family measures.
    verdicts: of complete checks of this network with other weights, by family, which are taken and
        kept here; None: it is checked.

    Raises `MeasureError` where the network or its derivatives are refused.
    """
    family, options = imported("metrics", name), settings.options
    loss = settings.loss_named(getattr(options, "relative_flatness_loss", None))

    def targets(outputs: int) -> Tensor | None:
        try:
            return samples.targets_for(outputs, loss)
        except MeasureError:  # the family says so, if it needs them
            return None

    mode = getattr(options, "batch_norm", None)
    verdicts = {} if verdicts is None else verdicts
    verdict = verdicts.get(name)
    if verdict is None:
        verdict = check_derivatives(
            model, samples.inputs, targets, loss, family.CHECKS, mode, settings.progress
        )
        verdicts |= {name: verdict} if verdict.complete else {}
    given = samples.targets
    if given is not None and given.ndim == 2 and given.shape[1] > 1 and (why := loss.unfit(given)):
        raise MeasureError(why)
    try:
        with recomposed(verdict.operations):
            how = replace(settings, step=verdict.step)
            result: Measured = family.measure(model, samples, how)
    except NotImplementedError as error:
        if isinstance(loss, OfFunction) or isinstance(error, NoClosedForm):
            raise MeasureError(f"{name}: {error}") from None
        raise
    return replace(result, notes=result.notes | verdict.notes)


def notes_of_many(name: str, measured: Iterable[Measured]) -> dict[str, str]:
    """What the checks of many networks say: of how many of them, and in the words of the first.

    name: the family's key.
    measured: the results of each network.
    """
    results = list(measured)
    said: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        for note in NOTES:
            said[note] += [result.notes[note]] if note in result.notes else []
    return {
        f"{name}_{note}": f"{len(texts)} of {len(results)} networks: {texts[0]}"
        for note, texts in said.items()
        if texts
    }
