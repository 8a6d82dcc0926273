"""`flatlab.measure`: families of quantities of one network on some samples."""

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from flatlab.core.errors import MeasureError, is_device_failure
from flatlab.core.options import checked, options_of
from flatlab.core.progress import ProgressBar
from flatlab.core.registry import check_known, imported, keys_of, measures_samples
from flatlab.core.schema import PlanError, plain, refuse_unknown
from flatlab.core.store import as_strings
from flatlab.core.text import table
from flatlab.derivatives.checks.derivative_check import SAMPLES
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample.memory import available
from flatlab.derivatives.per_sample.probe import graph_of, run
from flatlab.inputs.arguments import Arguments, documented, separated
from flatlab.inputs.loss_forms import Function
from flatlab.inputs.losses import options_known, with_options
from flatlab.inputs.prepare import Ready, made_ready, only, unwrapped
from flatlab.losses._base import Loss
from flatlab.measuring.preflight import measure_family
from flatlab.measuring.quantity import Measured, Quantity, attributes, quantities_of, settings_of
from flatlab.version import __version__

ALL = "all"
CHECKED = "checked derivatives"
"""Their place among what families start from."""
MADE_OF = "made of"
"""The place there of what all of it was found of."""
WIDTH = 100
HEAD = ("title", "families", "loss", "precision", "flatlab_version")
"""Attributes of the first line of a printed report."""
EVERYWHERE = "sharpness", "adaptive_sharpness", "hessian_lambda_max", "largest_eigenvalue"
"""Quantities that exist wherever weights, outputs and derivatives are finite; a block of few
parameters has fewer eigenvalues than others."""


class Report(xr.Dataset):
    """The dataset that `flatlab.measure` returns; its text is that of a measurement."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(_lines(self))

    def to_netcdf(self, *given: Any, **named: Any) -> Any:
        """As of any dataset, but for lists in attributes, which are words there."""
        words = {k: _words(v) if isinstance(v, list) else v for k, v in self.attrs.items()}
        return xr.Dataset(self.data_vars, self.coords, words).to_netcdf(*given, **named)


@documented
def measure(
    model: nn.Module,
    inputs: Any,
    targets: Any = None,
    *,
    families: Sequence[str] = ("geometry",),
    loss: str | Function = "half-mse",
    progress: bool = False,
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    starts: dict[str, Any] | None = None,
    **arguments: Any,
) -> xr.Dataset:
    """Measure a network on some samples.

    model: maps (batch, ...) to (batch, N), each sample on its own: in evaluation mode where it
        has batch norm or dropout. It is left exactly as it was. Outputs may also be (batch,),
        (batch, positions, classes) or (batch, classes, height, width). f is then the vector of all
        outputs that count, and the loss the mean over these positions of all samples.
    inputs: (n, ...), numbers or tokens; a tuple or dictionary of several inputs; a dataset; or a
        loader. A loader is any iterable of batches: tuples with targets last, or dictionaries or
        objects with `labels` or `targets`.
    targets: (n,) classes or (n, N) values, for the families that need them. Classes are integers
        of any width, booleans, or (n, N) integers of which one is 1. Batches bring their own.
    families: files of flatlab/families, or "all" that these samples admit; the attribute `left_out`
        says why others are missing. Of a quantity in several families the first one counts; "all"
        takes exact ones before estimates. If units differ, the family's name stands in front.
    loss: a file of flatlab/losses, or a function of outputs and targets. A function is a mean or a
        sum over samples, and serves quantities that need no closed form.
    progress: show a bar.
    initial: the network before training, or its state dictionary, for distances from it.
    starts: a dictionary, empty at first. Families keep there what a later measurement can start
        from: eigenvectors, with warm_start=True, and that derivatives have been checked.
    arguments:
    options: options of the families and of the loss, for example costly=["operator-norm"] of
        `geometry`, rho=0.01 of `adaptive`, label_smoothing=0.1 or class_weights of the loss
        "cross-entropy". `flatlab measure --help` lists them.

    accuracy="auto", the default, is exact where the derivatives of a sample fit in `memory`.
    Otherwise it estimates, with a warning, to a relative standard error of 0.02, which stands next
    to each value as `<name>_error`. accuracy=0.02 always estimates; accuracy="exact" computes all
    outputs in blocks. representations_accuracy="auto" does the same for inner layers.

    Returns a dataset, which prints on a screen, with dimensions `sample` and `layer` (names as in
    `named_modules`); each variable has `long_name`, `units` and `source`. Raises `MeasureError`
    where nothing exact can be had; the message says what to do.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(3, 2, bias=False).double()
    >>> x = torch.tensor([[3.0, 4.0, 0.0]]).double()
    >>> report = flatlab.measure(network, x)
    >>> float(report["sharpness"])  # sum of |x|^2 over the two outputs
    50.0
    >>> report["mls"].attrs["units"]
    'output/input'
    """
    how, names, chosen, chosen_loss = _checked(families, loss, arguments)
    tokens = names == [ALL] or all(_takes_tokens(name, model) for name in names)
    with preserving_state(model, inputs):
        ready = made_ready(model, inputs, targets, chosen_loss, how, tokens)
        budget = how.memory or available(next(ready.model.parameters()).device) // 4
        fixed: dict[str, Any] = {"batch_size": how.batch_size, "seed": how.seed, "budget": budget}
        fixed |= {"initial": initial, "found": {}, "progress": progress}
        known = {} if starts is None else starts
        with only(ready.model, how.parameters):
            if starts is not None:
                _forget(starts, (loss, repr(sorted(arguments.items()))), unwrapped(model), ready)
            report = _report(ready, names, chosen, fixed, known)
    about: dict[str, Any] = {"held_fixed": ready.held} if ready.held else {}
    if ready.samples.kept is not None:
        about["positions_ignored"] = int((~ready.samples.kept).sum())
    named = isinstance(loss, str)
    about["loss"] = loss if named else getattr(loss, "__name__", type(loss).__name__)
    if ready.ignored:
        about["samples_ignored"] = ready.ignored
    return report.assign_attrs(about)


def _forget(starts: dict[str, Any], asked: tuple[Any, ...], model: nn.Module, ready: Ready) -> None:
    """Empty what is known if it was found of another thing than this: weights alone may differ.

    asked: the loss and the arguments.  model: the user's.
    """
    modules: list[Any] = []
    for name, module in model.named_modules():
        hooks = module._forward_hooks.values(), module._forward_pre_hooks.values()
        own = [v for v in vars(module).values() if callable(v) or isinstance(v, bool | str)]
        modules += [name, type(module), *own, *itertools.chain(*hooks)]
    of_tensors = [
        (name, t.shape, t.dtype, t.device, t.requires_grad)
        for name, t in (*model.named_parameters(), *model.named_buffers())
    ]
    samples = [t.detach() for t in (ready.samples.inputs, ready.samples.given) if t is not None]
    numbers = [(t.shape, t.dtype, float(t.nan_to_num().double().sum())) for t in samples]
    few = samples[0][:SAMPLES].cpu().numpy().tobytes()
    outputs = run(ready.model, ready.samples.inputs[:2])
    graph = graph_of(outputs)[1].items() if outputs.requires_grad else ()
    operations = [(type(node), name) for node, name in graph]
    made_of = [*asked, *modules, *operations, *of_tensors, *numbers, few]
    if starts.get(MADE_OF) != made_of:
        starts.clear()
        starts[MADE_OF] = made_of


def _takes_tokens(family: str, model: nn.Module) -> bool:
    """Whether a family takes integers, or, by an embedding, tokens."""
    how = getattr(imported("families", family), "TOKENS", False)
    if how != "embedded" or not isinstance(model, nn.Module):
        return bool(how)
    return any(isinstance(module, nn.Embedding) for module in model.modules())


def _report(
    ready: Ready,
    families: Sequence[str],
    chosen: Mapping[str, Mapping[str, Any]],
    how: Mapping[str, Any],
    starts: dict[str, Any],
) -> Report:
    """The report of `measure`.

    chosen: the options of each family.
    how: fields of `Settings`.
    starts: its `memory`, by family.
    """
    every = families == [ALL]
    model, samples = ready.model, ready.samples
    precision = next(p.dtype for p in model.parameters() if p.is_floating_point())
    report, left_out = Report(), {}
    for name, options in chosen.items():
        settings = settings_of(name, options, ready.loss, memory=starts.setdefault(name, {}), **how)
        try:
            if not samples.inputs.is_floating_point() and not _takes_tokens(name, model):
                raise MeasureError(f"{name} takes no tokens: its inputs are real numbers")
            with ProgressBar(f"measuring {name}", 1, settings.progress):
                known = starts.setdefault(CHECKED, {})
                result = measure_family(name, model, samples, settings, known)
            _check_finite(name, result)
        except MeasureError as error:
            if not every or is_device_failure(error):
                raise
            left_out[name] = str(error)
            continue
        report = _with_family(report, name, result, precision)
    if not report.data_vars:
        raise MeasureError("; ".join(dict.fromkeys(left_out.values())))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    about = {
        "title": f"{type(model).__name__} on {len(samples.inputs)} samples",
        "flatlab_version": __version__,
        "families": [name for name in chosen if name not in left_out],
        "precision": str(precision).removeprefix("torch."),
        **report.attrs,
        **({"left_out": reasons} if left_out else {}),
    }
    return report.assign_attrs(about)


def _check_finite(family: str, result: Measured) -> None:
    """Refuse what has no number in this precision alone: weights and outputs are finite."""
    lost = [n for n in EVERYWHERE if not np.isfinite(result.values.get(n, 0.0)).any()]
    if lost and result.finite:
        raise MeasureError(
            f"{family}: {lost[0]} is no number, and weights and outputs are: derivatives or the "
            "loss overflow; pass dtype='float64', or make inputs, weights or the loss smaller "
            "numbers"
        )


def _with_family(report: Report, family: str, result: Measured, precision: torch.dtype) -> Report:
    """A report with the quantities of one more family, but for those that it has already."""
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    quantities: Mapping[str, Quantity] = quantities_of(imported("families", family))
    for name, quantity in quantities.items():
        if name not in result.values or {name, name.removesuffix("_error")} & {*report.data_vars}:
            continue
        variables[name] = (quantity.dims, result.values[name], attributes(quantity, precision))
        named = [dim for dim in quantity.dims if dim in result.coordinates]
        coordinates |= {dim: as_strings(result.coordinates[dim]) for dim in named}
    return report.assign(variables).assign_coords(coordinates).assign_attrs(result.notes)


def _checked(
    families: str | Sequence[str], loss: str | Function, given: Mapping[str, Any]
) -> tuple[Arguments, list[str], dict[str, dict[str, Any]], Loss | Function]:
    """The arguments, the families as named, the options of each that is meant, and the loss.

    Raises `MeasureError` for what none of them knows.
    """
    names = [families] if isinstance(families, str) else list(families)
    meant = names
    if names == [ALL]:
        meant = [name for name in keys_of("families") if measures_samples(name)]
        meant.sort(key=lambda name: getattr(imported("families", name), "ESTIMATES", False))
    try:
        for name in meant:
            check_known("families", name, "families")
            if not measures_samples(name):
                raise MeasureError(
                    f"{name} needs a training and a test set; it exists in experiments only "
                    "(docs/studies.md)"
                )
        how, options = separated(given)
        kinds = {name: options_of("families", name) for name in meant}
        known = {key for kind in kinds.values() for key in kind.__struct_fields__}
        named = ", ".join([*names, *([loss] if isinstance(loss, str) else [])])
        refuse_unknown(options, known | options_known(loss), f"options of {named}")
        # Experiments are exact unless they say so.
        options = {"accuracy": "auto", "representations_accuracy": "auto", **options}
        chosen = {name: plain(checked(options, kind)) for name, kind in kinds.items()}
        return how, names, chosen, with_options(loss, options)
    except PlanError as error:
        raise MeasureError(str(error)) from None


def _lines(report: xr.Dataset) -> Iterator[str]:
    about = {key: _words(value) for key, value in report.attrs.items()}
    title = about.get("title", "Report")
    yield f"{title}: {', '.join(about[key] for key in HEAD[1:-1] if key in about)}"
    errors = {name for name in map(str, report.data_vars) if name.removesuffix("_error") in report}
    errors -= {name for name in errors if not name.endswith("_error")}
    rows, others = [], dict[str, list[str]]()
    for name in (name for name in map(str, report.data_vars) if name not in errors):
        array = report[name]
        if array.ndim:
            others.setdefault(", ".join(map(str, array.dims)), []).append(name)
            continue
        error = f" ± {float(report[f'{name}_error']):.2g}" if f"{name}_error" in errors else ""
        words = [array.attrs.get(key, "") for key in ("units", "long_name")]
        rows.append([name, f"{float(array):.6g}{error}", *words])
    if rows:
        left = WIDTH - 8 - sum(max(map(len, column)) for column in [*zip(*rows, strict=True)][:3])
        short = [textwrap.shorten(row[3], max(left, 24), placeholder=" ...") for row in rows]
        yield table("<<<<", *([*row[:3], each] for row, each in zip(rows, short, strict=True)))
    for dims, names in others.items():
        yield from _wrapped(f"by {dims}", ", ".join(names))
    for key, value in about.items():
        if key not in HEAD and value:
            yield from _wrapped(key, value)


def _words(value: object) -> str:
    """An attribute in words; "" where it is empty."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _wrapped(key: str, value: str) -> list[str]:
    text = textwrap.shorten(f"{key}: {value}", 2 * WIDTH, placeholder=" ...")
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
