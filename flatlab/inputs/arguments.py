"""The arguments of a measurement, spelled once: for calls, files and commands.

`measure`, `landscape`, `barriers` and `Tracker` take them and have their documentation from here;
`measure:` in the file of an experiment has them as keys, and `flatlab measure` and `flatlab table`
as options. The module is read without torch, so that planning and `--help` are quick.
"""

import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_type_hints

from msgspec import Meta, defstruct
from msgspec.structs import fields

from flatlab.core.options import options_of
from flatlab.core.schema import Strict, convert, means

Count = Annotated[int, Meta(ge=1)]
Precision = Literal["float64", "float32"]
Called = TypeVar("Called")
WEIGHTS = (
    "one for each class: the mean over samples or positions is weighted by them, and divided by "
    "the sum of the weights, as in torch"
)


class Arguments(Strict, frozen=True):
    """What a measurement is told of a network and its samples, and how it computes."""

    samples: Annotated[Count | None, means("samples to take, the first ones; null: all")] = None
    output: Annotated[
        str | int | None,
        means(
            "the key, attribute or place of the output that is meant, of a network that returns "
            "several; null: the only one, or `logits`"
        ),
    ] = None
    class_axis: Annotated[
        Literal[1, -1] | None,
        means(
            "the axis of classes in outputs at several positions: 1, as in torch's losses, or -1. "
            "null: what the shape of labels leaves; else the last of three axes, and 1 of more"
        ),
    ] = None
    parameters: Annotated[
        str | list[str] | None,
        means(
            "names of parameters or modules, or patterns of the shell: theta is what they name; "
            "null: all parameters that require gradients"
        ),
    ] = None
    ignore_index: Annotated[
        int,
        means(
            "the class of samples, or of single positions, that are left out; a report says how "
            "many. An input `attention_mask` (samples, positions) that is 0 leaves out a position"
        ),
    ] = -100
    batch_size: Annotated[Count | None, means("samples at a time; null: as many as fit")] = None
    dtype: Annotated[
        Precision | None,
        means(
            "of the arithmetic; null: that of the network. Gram matrices and logarithms are in "
            "float64 always"
        ),
    ] = None
    memory: Annotated[
        Count | None,
        means(
            "what derivatives may take: bytes in Python, GB in the shell; null: a quarter of what "
            "is free. What does not fit is computed in blocks"
        ),
    ] = None
    seed: Annotated[int, means("of what is drawn at random", ge=0)] = 0


def separated(given: Mapping[str, Any]) -> tuple[Arguments, dict[str, Any]]:
    """The arguments among what a call is given, and the options of families and of the loss.

    Raises `PlanError` for an argument that is not what it must be.
    """
    values = {name: _plain(value) for name, value in given.items()}
    names = Arguments.__struct_fields__
    options = {name: value for name, value in values.items() if name not in names}
    own = {name: value for name, value in values.items() if name in names}
    return convert(own, Arguments, ""), options


def _plain(value: Any) -> Any:
    """Numbers and lists in place of arrays and tensors, the name of a type of torch."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value).removeprefix("torch.") if type(value).__name__ == "dtype" else value


@functools.cache
def options_in_measurement(folder: str, key: str) -> type[Strict]:
    """The options of a family, or of a loss in a measurement: training weighs no classes."""
    kind = options_of(folder, key)
    if (folder, key) != ("losses", "cross-entropy"):
        return kind

    weights = Annotated[list[Annotated[float, Meta(ge=0)]] | None, means(WEIGHTS)]
    how: Any = {"bases": (kind,), "frozen": True, "kw_only": True}
    options = defstruct("Options", [("class_weights", weights, None)], **how)
    return cast(type[Strict], options)


class Measure(Arguments, frozen=True, kw_only=True):
    """The measurements on each network; options of the families and of the loss are keys too."""

    FOLDERS: ClassVar[dict[str, str]] = {"families": "families", "loss": "losses"}
    OPTIONS: ClassVar[Any] = staticmethod(options_in_measurement)

    families: Annotated[
        list[str], means("files of flatlab/families; those joined by + are measured by one job")
    ]
    loss: Annotated[str, means("that of the training, a file of flatlab/losses")] = "cross-entropy"
    samples: Annotated[
        Literal["all"] | Count,
        means("training samples that the families are measured on, drawn by the seed"),
    ] = 100  # type: ignore[assignment]

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `flatlab.measure`: so many samples are drawn, by the seed."""
        own = {name: getattr(self, name) for name in Arguments.__struct_fields__}
        samples = None if self.samples == "all" else self.samples
        return own | {"samples": samples}


def documented(function: Called) -> Called:
    """A function, or a class, with the arguments in its signature and its documentation.

    There they stand in place of `**arguments`, and of a line `arguments:`.
    """
    signature = inspect.signature(function)  # type: ignore[arg-type]
    *named, rest = signature.parameters.values()
    lines, parameters, types = [], [], get_type_hints(Arguments)
    for each in fields(Arguments):
        if each.name in signature.parameters:
            continue
        text = f"{each.name}: {each.type.__metadata__[0].description.replace('null', 'None')}."
        lines += textwrap.wrap(text, 96, initial_indent=" " * 4, subsequent_indent=" " * 8)
        how: Any = {"default": each.default, "annotation": types[each.name]}
        parameters.append(inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, **how))
    parameters = [*named, *parameters, rest.replace(name="options")]
    function.__doc__ = (function.__doc__ or "").replace("    arguments:", "\n".join(lines))
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function
