"""Whether autograd's derivatives of a network are those of the function that it computes.

Before anything is measured, on a few samples and in float64: two evaluations are equal, gradients
are differences of outputs, products with the Hessian differences of gradients, products with the
Gauss-Newton matrix those of its definition, the Hessian is symmetric, and derivatives with respect
to the inputs are differences of outputs, too. Autograd may be wrong where an operation has its own
backward pass, which is differentiated as if it were the function's.

The culprit is the innermost module that differs: each is tried alone on what it saw in a pass of
the network, by a random combination of its outputs, differentiated with respect to its input and
its parameters.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MIXES, MeasureError, first_line
from flatlab.core.progress import ProgressBar
from flatlab.derivatives.checks.differences import (
    CLOSE,
    STEPS,
    VALUE_STEPS,
    Comparison,
    Difference,
    Point,
    compared,
    double_copy,
    flat,
)
from flatlab.derivatives.checks.isolation import batch_norm, check_mode, is_finite
from flatlab.derivatives.jacobians.golub_kahan import Jacobian
from flatlab.derivatives.per_sample.probe import (
    NOT_CONNECTED,
    RANDOM,
    far_apart,
    graph_of,
    run,
    vectors,
)
from flatlab.derivatives.second_order.hessian_products import gauss_newton_product, hessian_product
from flatlab.derivatives.second_order.second_pass import recomposed
from flatlab.losses import half_mse
from flatlab.losses._base import Loss

SAMPLES = 4
"""On which it is checked."""
LARGE = 2_000_000
"""Parameters beyond which differences are taken on one sample: they cost as much as products do."""
PASSES = 3
"""Evaluations for each kind of derivative where the first step agrees."""
BATCH = 1000
"""Samples at a time where all are taken."""
VANISHING = 1e-12
"""A share of second derivatives that is rounding."""
SETTLED = 1e-3
"""The relative distance of two differences up to which they stand in for a second derivative."""

Kind = Literal["function", "gradient", "hessian", "gauss-newton", "inputs"]
"""What is checked: that it is a function; its gradient in the parameters; second derivatives in the
parameters; and products with df/dx, which need a second backward pass."""


@dataclass
class DerivativeReport:
    """What is known of one kind of derivatives of a network, or of several.

    step: the relative step at which differences of gradients, or of outputs, are taken in place of
        second backward passes, which are wrong or missing; None where these are right.
    operations: names of the nodes in the network's graph.
    notes: what a report should say, by derivative.
    """

    step: float | None = None
    operations: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Comparisons:
    """The comparisons of one network, each a method by the name of its kind.

    model: in float64.
    theta: its trainable parameters.
    x: samples.
    f: its outputs for them, before a parameter has moved.
    y: targets (samples, N).
    loss: of a sample.
    report: what is found of the kind at hand.
    step: of what stands in for second derivatives in the parameters; None: they are right.
    original: the network itself.
    whole: all samples and their targets.
    """

    model: nn.Module
    theta: Point
    x: Tensor
    f: Tensor
    y: Tensor
    loss: Loss
    report: DerivativeReport
    original: nn.Module
    whole: tuple[Tensor, Tensor]
    step: float | None = None

    def of(self, kind: Kind) -> DerivativeReport:
        """What is found of one kind; raises `MeasureError` where it cannot be had."""
        self.report = DerivativeReport(None, self.report.operations)
        if kind != "function":
            getattr(self, f"_{kind.replace('-', '_')}")()
        if kind == "hessian":
            self.step = self.report.step
        return self.report

    def _gradient(self) -> None:
        """The gradient of <f, r>, r random: by autograd, and by differences of <f, r>."""
        direction, drawn = self.theta.direction(0), torch.Generator().manual_seed(1)
        r = torch.randn(self.f.shape, generator=drawn).to(self.f)
        value = (self.f * r).sum()
        try:
            slope = self._pulled(value) @ flat(direction)
        except RuntimeError as error:  # the family may have another way
            self.report.notes["derivatives_not_checked"] = first_line(error)
            return
        quotient = self.theta.quotient(lambda: (self._f() * r).sum(), direction, value)
        result = compared(slope, quotient, VALUE_STEPS)
        if not result.agrees and result.step is not None:
            raise MeasureError(
                f"the gradients of the network are not those of its outputs{self._where(1)}: "
                "differences of outputs settle at another value; remove detach and no_grad, and "
                "replace what has a backward pass of its own by operations of torch"
            )
        self._note("gradients", result)

    def _hessian(self) -> None:
        """H v, and that H is symmetric: by a second backward pass, and by differences."""
        v, u = self.theta.direction(2), self.theta.direction(3)
        quotient = self.theta.quotient(lambda: self._pulled(self._total(self._f())), v)
        try:
            product = hessian_product(self.model, [(self.x, self.y)], self.loss)
            of_v, of_u = product(flat(v)), product(flat(u))
            size = CLOSE * max(float(of_v.norm()), float(of_u.norm())) + self._zero()
            symmetric = float((flat(u) @ of_v - flat(v) @ of_u).abs()) <= size
            why = "its second backward pass is wrong"
        except RuntimeError as error:  # there is none
            of_v, symmetric, why = None, True, first_line(error)
        result = compared(of_v, quotient)
        if not result.agrees and result.step is not None:
            spread = self._spread_on_all(result.step, flat(v))
            self._by_differences("the Hessian are differences of gradients", result, spread, why)
        elif of_v is None:
            raise MeasureError(
                f"second derivatives are missing{self._where(2)} ({why}) and cannot be replaced by "
                "differences of gradients, probably because of kinks or rounding; families without "
                "second derivatives, such as geometry, still work"
            )
        elif not symmetric:
            raise MeasureError(f"the Hessian of the network is not symmetric{self._where(2)}")
        self._note("second derivatives", result)

    def _gauss_newton(self) -> None:
        """G v, and its definition J^T (d^2 l / df^2) J v with J v from differences of outputs."""
        v = self.theta.direction(4)
        outputs = self.theta.quotient(self._f, v, self.f)

        def quotient(step: float) -> Difference:
            forward = outputs(step)
            f = self._f()
            free = f.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self._total(free), free, create_graph=True)
            curved = torch.zeros_like(free)  # of a loss that is linear in the outputs
            if slope.requires_grad:
                (curved,) = torch.autograd.grad(slope, free, forward.value, materialize_grads=True)
            back = self._pulled(f, curved)
            share = float(back.norm()) / (float(forward.value.norm()) or 1.0)
            return Difference(back, share * forward.rounding, share * forward.uneven)

        step = self.step
        try:
            product = gauss_newton_product(self.model, [(self.x, self.y)], self.loss, step)(flat(v))
        except NotImplementedError:  # the loss has no second derivative, as its family says
            return
        result = compared(product, quotient, VALUE_STEPS)
        if not result.agrees and result.step is not None and product.norm() > self._zero():
            name = type(self.loss).__module__.rpartition(".")[2].replace("_", "-")
            raise MeasureError(
                "products with the Gauss-Newton matrix are not those of its definition"
                f"{self._where(2)}: the loss {name} or the network has wrong derivatives"
            )
        self._note("Gauss-Newton products", result)

    def _inputs(self) -> None:
        """J v of each sample, J = df/dx: by a second backward pass, and by differences."""
        point = Point([self.x], self.theta.tick)
        (v,) = point.direction(5)
        quotient = point.quotient(self._f, [v], self.f)
        try:
            forward = Jacobian(lambda x: run(self.model, x), self.x).times(v.flatten(1))
            why = "its second backward pass is wrong"
        except RuntimeError as error:
            forward, why = None, first_line(error)
        result = compared(forward, quotient, VALUE_STEPS)
        if not result.agrees and result.step is not None:
            self._by_differences("df/dx are differences of outputs", result, result.spread, why)
        elif forward is None:
            raise MeasureError(f"the network has no products with df/dx{self._where(2)}: {why}")
        self._note("derivatives with respect to the inputs", result)

    def _spread_on_all(self, step: float, v: Tensor) -> float:
        """The relative distance of two steps from each other, on all samples.

        Raises `MeasureError` where they do not agree there.
        """
        batches = list(zip(*(part.split(BATCH) for part in self.whole), strict=True))
        first, second = (
            hessian_product(self.original, batches, self.loss, at)(v) for at in (step, step / 10)
        )
        spread = float((first - second).norm() / first.norm().clamp(min=1e-300))
        if spread > SETTLED:
            raise MeasureError(
                f"the network has no second derivatives that are right{self._where(2)}, and "
                f"differences of gradients at two steps differ by {spread:.0e}: it has kinks"
            )
        return spread

    def _zero(self) -> float:
        """Below what a product with a unit vector is 0 but for rounding, as of a loss that fits.

        Without a fit it is about d^2 l/df^2 at f = 0 times |f|^2 / |theta|^2.
        """
        f, curved = self.f.detach(), torch.ones_like(self.f)
        with suppress(NotImplementedError):
            curved = self.loss.curved(torch.zeros_like(f), curved, self.y)
        return VANISHING * float(curved.norm()) * (1 + float(f.norm()) / self.theta.norm) ** 2

    def _f(self) -> Tensor:
        return run(self.model, self.x)

    def _total(self, f: Tensor) -> Tensor:
        """The loss of the samples."""
        return self.loss.values(f, self.y).sum() * self.loss.share(1, len(self.x))

    def _pulled(self, value: Tensor, weights: Tensor | None = None) -> Tensor:
        """The gradient of <value, weights> in the parameters, as one vector."""
        parts = torch.autograd.grad(value, self.theta.tensors, weights, materialize_grads=True)
        return flat(parts)

    def _where(self, order: int) -> str:
        """Where the culprit is, in words; "" where no module is one on its own."""
        name = culprit_of(self.model, self.x, order)
        return f" at {name}" if name else ""

    def _by_differences(self, what: str, result: Comparison, error: float, why: str) -> None:
        """Let differences stand in for second backward passes, and say so."""
        self.report.step = result.step
        self.report.notes["derivatives"] = (
            f"products with {what} (relative error {error:.0e}), not "
            f"of second backward passes{self._where(2)}: {why}"
        )

    def _note(self, what: str, result: Comparison) -> None:
        if not result.agrees and result.step is None:
            self.report.notes["derivatives_not_checked"] = (
                f"{what}: kinks, or outputs that are rounded; differences at several steps do not "
                f"agree with each other, and the nearest differ by {result.spread:.0e}"
            )


def culprit_of(model: nn.Module, x: Tensor, order: int) -> str:
    """The innermost module whose derivatives are not differences, in words; "" if there is none.

    model: the network, in float64.
    x: samples.
    order: of the derivatives, 1 or 2.
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return ""  # these take no hooks
    seen: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if len(arguments) == 1 and isinstance(arguments[0], Tensor):
            seen.setdefault(name, arguments[0].detach().clone())

    with ExitStack() as handles:
        for name, module in model.named_modules():
            handles.enter_context(module.register_forward_pre_hook(partial(keep, name)))
        run(model, x)
    for name in sorted(seen, key=lambda name: -name.count(".") - bool(name)):
        module = model.get_submodule(name)
        if _differs(module, seen[name], order):
            return f"layer {name!r} ({type(module).__name__})" if name else "the network's forward"
    return ""


def _differs(module: nn.Module, x: Tensor, order: int) -> bool:
    """Whether differences of this order settle at another value than that of autograd."""
    free: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
    if x.is_floating_point():
        free = [x.requires_grad_(), *free]
    try:
        outputs = module(x.clone())
    except Exception:  # it may need more than a tensor, or a pass of another module before
        return False
    if not (free and isinstance(outputs, Tensor) and outputs.requires_grad):
        return False
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    point = Point(free)
    direction = point.direction(0)

    def value() -> Tensor:
        return (module(x.clone()) * weights).sum()

    def gradient(create_graph: bool = False) -> Tensor:
        rows = torch.autograd.grad(value(), free, create_graph=create_graph, materialize_grads=True)
        return flat(rows)

    if order == 1:
        along = gradient() @ flat(direction)
        result = compared(along, point.quotient(value, direction), VALUE_STEPS)
        return not result.agrees and result.step is not None
    try:
        slope = gradient(create_graph=True) @ flat(direction)
        product = torch.zeros_like(flat(free))
        if slope.requires_grad:
            product = flat(torch.autograd.grad(slope, free, materialize_grads=True))
    except RuntimeError:  # there is no second backward pass
        return True
    result = compared(product, point.quotient(gradient, direction), STEPS)
    return not result.agrees and result.step is not None


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

    targets: (samples, N) from N, of the loss; None: the loss is half the square of f.
    kinds: of derivatives.
    mode: of batch norm, `train` or `eval`; None: as the network is, which must not mix samples.
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
        with batch_norm(copied, mode), sdpa_kernel(SDPBackend.MATH), recomposed(report.operations):
            f = run(copied, x)
        loss.values(f.detach(), y[:few].double())
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
        data = x, f, y[:few].double(), loss, report, model, (inputs, y), step
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
    generators = [torch.default_generator]
    if x.is_cuda:
        generators.append(torch.cuda.default_generators[x.device.index or 0])
    before = [generator.get_state() for generator in generators]
    outputs = vectors(run(model, x), len(x))
    if not outputs.requires_grad:
        raise MeasureError(NOT_CONNECTED)
    after = [generator.get_state() for generator in generators]
    drew = any(not torch.equal(*pair) for pair in zip(before, after, strict=True))
    for _ in range(20 if drew else 1):
        if not torch.allclose(outputs, run(model, x), 1e-5, 1e-6, equal_nan=True):
            raise MeasureError(RANDOM)
    half = x[: max(len(x) // 2, 1)].clone()
    if mode != "train" and far_apart(run(model, half), outputs[: len(half)]):
        raise MeasureError(MIXES)
    _, operations = graph_of(outputs)
    finite = is_finite(outputs, *model.parameters())
    return outputs.detach() if finite else None, DerivativeReport(operations={*operations.values()})
