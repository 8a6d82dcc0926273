"""The option `accuracy` of families that are exact, or estimate with a standard error."""

from torch import Tensor, nn

from flatlab.derivatives.checks.evaluation_mode import check_samples
from flatlab.derivatives.per_sample.memory import fits
from flatlab.derivatives.per_sample.probe import Findings, probe

AFFORDABLE = 0.02
"""The relative standard error of `auto` where it estimates."""
RESIDUAL = 1e-2
"""Relative residual of the largest singular values: their error is about its square."""


def accuracy_of(
    accuracy: str | float, model: nn.Module, inputs: Tensor, budget: int | None
) -> tuple[float | None, Findings | None]:
    """The relative standard error wanted, and what rules cover; None: exact.

    accuracy: the option.  The others are those of a family.
    """
    if accuracy == "exact":
        return None, None
    check_samples(model, inputs)
    findings = probe(model, inputs)
    if accuracy == "auto":
        return (None if fits(findings, inputs, budget) else AFFORDABLE), findings
    return float(accuracy), findings
