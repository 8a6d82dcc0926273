"""Whether autograd's derivatives of a network are those of the function that it computes.

Before anything is measured, on a few samples and in float64: two evaluations are equal, gradients
are differences of outputs, products with the Hessian differences of gradients, products with the
Gauss-Newton matrix those of its definition, the Hessian is symmetric, and derivatives with respect
to the inputs are differences of outputs, too. Autograd may be wrong where an operation has its own
backward pass, which is differentiated as if it were the function's.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MIXES, MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.checks.comparisons import Comparisons, DerivativeReport, Kind
from flatlab.derivatives.checks.differences import Point, double_copy
from flatlab.derivatives.checks.isolation import batch_norm, check_mode, is_finite
from flatlab.derivatives.per_sample.probe import (
    NOT_CONNECTED,
    RANDOM,
    far_apart,
    graph_of,
    run,
    vectors,
)
from flatlab.derivatives.second_order.second_pass import recomposed
from flatlab.losses import half_mse
from flatlab.losses._base import Loss

SAMPLES = 4
"""On which it is checked."""
LARGE = 2_000_000
"""Parameters beyond which differences are taken on one sample: they cost as much as products do."""
PASSES = 3
"""Evaluations for each kind of derivative where the first step agrees."""


def check_derivatives(
    model: nn.Module,
    inputs: Tensor,
    targets: Callable[[int], Tensor | None],
    loss: Loss,
    kinds: Sequence[Kind],
    mode: str | None = None,
    progress: bool = False,
    known: dict[Kind, DerivativeReport] | None = None,
) -> DerivativeReport:
    """Compare the derivatives of a network with differences, on its first samples.

    model: the network.
    inputs: (samples, ...).
    targets: (samples, N) from N, of the loss; None: the loss is half the square of f.
    loss: of a sample.
    kinds: of derivatives.
    mode: of batch norm, `train` or `eval`; None: as the network is, which must not mix samples.
    progress: show a bar.
    known: what complete checks have found before, which is not asked again, and to which this adds.

    Nothing is checked where weights or outputs are not finite. Raises `MeasureError` where the
    network is no function or its gradients are wrong, and names the module that is the culprit.
    """
    known = {} if known is None else known
    missing = [kind for kind in kinds if kind not in known]
    if not missing:
        return _joined([known[kind] for kind in kinds])
    if not len(inputs):
        return DerivativeReport()
    x = inputs[:SAMPLES].detach()
    with batch_norm(model, mode and "eval"):
        check_mode(model)
    with batch_norm(model, mode):
        outputs, report = _outputs(model, x, mode)
    if outputs is None:
        return report
    if missing == ["function"]:
        known["function"] = report
        return _joined([known[kind] for kind in kinds])
    count = sum(parameter.numel() for parameter in model.parameters())
    few = 1 if count > LARGE and mode != "train" else SAMPLES
    x, outputs = x[:few], outputs[:few]
    x = x.double() if x.is_floating_point() else x
    if (y := targets(outputs.shape[1])) is None:
        y, loss = torch.zeros_like(outputs), half_mse.Loss()
    try:
        copied = double_copy(model)
        with batch_norm(copied, mode):
            run(copied, x.clone())
        loss.values(outputs.double(), y[:few].double())
    except (MeasureError, NotImplementedError) as error:  # the latter of a user's function
        report.notes["derivatives_not_checked"] = str(error)
        return report
    theta = [p for p in copied.parameters() if p.requires_grad]
    with (
        batch_norm(copied, mode),
        sdpa_kernel(SDPBackend.MATH),
        recomposed(report.operations),
        ProgressBar("check of derivatives", PASSES * len(missing), progress) as forecast,
    ):
        point = Point(theta, forecast.tick)
        step = known["hessian"].step if "hessian" in known else None
        data = x, y[:few].double(), loss, report, model, (inputs, y), step
        check = Comparisons(copied, point, *data)
        known |= {kind: check.of(kind) for kind in missing}
    return _joined([known[kind] for kind in kinds])


def _joined(reports: Sequence[DerivativeReport]) -> DerivativeReport:
    """What is known of several kinds of derivatives."""
    whole = DerivativeReport()
    for each in reports:
        whole.step = whole.step if each.step is None else each.step
        whole.operations |= each.operations
        whole.notes |= each.notes
    return whole


def _outputs(
    model: nn.Module, x: Tensor, mode: str | None
) -> tuple[Tensor | None, DerivativeReport]:
    """The outputs f, None where they are not finite; and the operations that make them.

    Raises `MeasureError` where they are no vectors, or drawn at random: two passes differ. Draws
    that are rare may hit neither; a pass that has moved a random generator is looked at more often.
    """
    generators = _generators(x.device)
    before = [generator.get_state() for generator in generators]
    outputs = vectors(run(model, x.clone()), len(x))
    if not outputs.requires_grad:
        raise MeasureError(NOT_CONNECTED)
    after = [generator.get_state() for generator in generators]
    drew = any(not torch.equal(*pair) for pair in zip(before, after, strict=True))
    for _ in range(20 if drew else 1):
        if not torch.allclose(outputs, run(model, x.clone()), 1e-5, 1e-6, equal_nan=True):
            raise MeasureError(RANDOM)
    half = x[: max(len(x) // 2, 1)].clone()
    if mode != "train" and far_apart(run(model, half), outputs[: len(half)]):
        raise MeasureError(MIXES)
    _, operations = graph_of(outputs)
    finite = all(map(is_finite, (outputs, *model.parameters())))
    return outputs.detach() if finite else None, DerivativeReport(operations=operations)


def _generators(device: torch.device) -> list[torch.Generator]:
    """The default generators that a network on this device may draw from."""
    graphics = [torch.cuda.default_generators[device.index or 0]] if device.type == "cuda" else []
    return [torch.default_generator, *graphics]
