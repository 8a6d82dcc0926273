"""The schema of a configuration, and how YAML is checked against a schema.

Classes are schemas: each field has a type, a range and a description. `convert` turns a mapping
into an instance, or raises a `PlanError` of one sentence that names the file and the key.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field


def means(description: str, **limits: Any) -> Meta:
    """The meaning of a key and the limits of its values: ge, gt, le, lt, min_length."""
    return Meta(description=description, **limits)


Scale = Literal["demo", "short", "paper"]
SCALES: tuple[str, ...] = get_args(Scale)

OWN, REDUCED, STAND_IN = EVIDENCE = ("own", "reduced", "stand-in")
"""The kinds of evidence, the best first: the networks and data of the paper; its data, with smaller
or fewer networks, fewer steps, or images encoded anew; others. The worst difference decides."""
Key = Annotated[str, means("lower case, digits, hyphens", pattern=r"^[a-z][a-z0-9-]*$")]


class Refusal(Exception):
    """What a command cannot do; the message names the culprit and the remedy in a sentence."""


class PlanError(Refusal, ValueError):
    """An invalid configuration or experiment; the message names the culprit and the remedy."""


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An immutable record that refuses unknown keys.

    FOLDERS: the fields that name files of the package, and their folders: {"loss": "losses"}.
    """

    FOLDERS: ClassVar[dict[str, str]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        """A key that contradicts others, and a sentence about it; None if there is none."""
        return None


class Config(Strict, frozen=True):
    """What to build; `config.yaml`."""

    scale: Annotated[Scale, means("how large the experiments are")] = "demo"
    papers: Annotated[
        str | Annotated[list[str], Meta(min_length=1)],
        means("whose figures `snakemake` builds, or all; any other is built by its name"),
    ] = field(default_factory=lambda: ["chen2026"])
    device: Annotated[Literal["cpu", "cuda"], means("where networks are trained and measured")] = (
        "cpu"
    )
    save_every_s: Annotated[float, means("training lost by a killed job, at most", gt=0)] = 60.0
    packs: Annotated[
        Literal["all", "measured"], means("measured: only packs with metric files, and no training")
    ] = "all"
    stand_ins: Annotated[
        dict[str, str], means("data sets to be replaced, and their replacements")
    ] = {}
    data_folder: Annotated[str | None, means("where data sets are kept")] = None
    studies: Annotated[
        list[str], means("folders of studies of your own, relative to the working folder")
    ] = []


def closest(name: str, known: Iterable[str]) -> str:
    """The remedy for a misspelt name: the closest known name, then all known names."""
    known = sorted(known)
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {match[0]!r}? " if match else ""
    return f"{hint}Known: {', '.join(known) or 'none'}"


def absent(key: str, keys: Iterable[Any], location: str) -> str:
    """The sentence that a key is missing, with a key that may be the same misspelt."""
    match = difflib.get_close_matches(key, map(str, keys), n=1, cutoff=0.5)
    return f"{location} is missing{f' (is it {match[0]!r}?)' if match else ''}"


def refuse_unknown(mapping: Mapping[Any, Any], known: Iterable[str], context: str) -> None:
    """Raise `PlanError` if `mapping` has a key that is not in `known`."""
    known = list(known)
    for key in mapping:
        if key not in known:
            raise PlanError(f"{context}: unknown key {key!r}; {closest(str(key), known)}")


def convert(mapping: object, kind: type[Strict], context: str | Callable[[str], str]) -> Any:
    """Check `mapping` against `kind` and return an instance of it.

    context: precedes the key in messages, such as "experiments/mlp-grid.yaml: training."; or a
        function from the key to its location, if keys come from several.
    """
    location = context if callable(context) else lambda key: f"{context}{key}"
    if not isinstance(mapping, Mapping):
        whole = location("").rstrip(": .")
        raise PlanError(f"{whole}: expected keys and values, found {mapping!r}")
    refuse_unknown(mapping, kind.__struct_fields__, location("").rstrip(": ."))
    for key, value in mapping.items():
        if not _finite(value):
            raise PlanError(f"{location(key)}: must be finite, found {value!r}")
    try:
        record = msgspec.convert(mapping, kind)
    except msgspec.ValidationError as error:
        raise PlanError(_sentence(str(error), mapping, kind, location)) from None
    if wrong := record.contradiction():
        raise PlanError(f"{location(wrong[0])}: {wrong[1]}")
    return record


def _finite(value: object) -> bool:
    """Whether all numbers in a value are finite; JSON, which jobs are given, has no others."""
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _sentence(
    error: str, mapping: Mapping[Any, Any], kind: type[Strict], location: Callable[[str], str]
) -> str:
    """What msgspec says of a mapping, with the key's location, its value and what is allowed."""
    sentence, _, path = error.partition(" - at `")
    if missing := re.search(r"missing required field `(\w+)`", sentence):
        inside = path.lstrip("$.").rstrip("`")
        return f"{location('.'.join([*inside.split(), missing[1]]))} is missing"
    if not path:
        return f"{location('').rstrip(': .')}: {sentence}"
    if path.startswith("key"):
        path = path.partition("$")[2]
        unknown = re.match("Invalid enum value '(.*)'", sentence)
        sentence = "a name here is lower case, digits and hyphens"
        sentence = f"unknown name {unknown[1]!r}" if unknown else sentence
    path = path.lstrip("$.").rstrip("`")
    key = re.split(r"[.\[]", path)[0]
    here = location(key) + path.removeprefix(key).replace("[...]", " (an entry)")
    allowed = {name: values for name, values, _ in describe(kind)}[key]
    if match := re.match("Invalid enum value '(.*)'", sentence):
        alternatives = allowed.split(" or ")
        entries = [each.removeprefix("list of ") for each in alternatives if "list of" in each]
        if "[" not in path and any(match[1] in each.split(" | ") for each in entries):
            return f"{here}: needs a list, [{match[1]}]"
        kept = entries if "[" in path else [each.removeprefix("list of ") for each in alternatives]
        known = [name for each in kept for name in each.split(" | ")]
        return f"{here}: unknown value {match[1]!r}; {closest(match[1], known)}"
    sentence = f"{sentence[0].lower()}{sentence[1:]}, found {mapping[key]!r}"
    return f"{here}: {sentence}; allowed: {allowed}"


def plain(record: object) -> Any:
    """A record as dictionaries, lists and numbers, as JSON has them: fit for a job's params."""
    return msgspec.json.decode(msgspec.json.encode(record))


def describe(kind: type[Strict]) -> list[tuple[str, str, str]]:
    """Each key of `kind` with its allowed values and its meaning, "" without a description."""
    schema = msgspec.json.schema(kind)["$defs"]

    def allowed(node: dict[str, Any]) -> str:
        if "$ref" in node:
            return f"keys {', '.join(schema[node['$ref'].rpartition('/')[2]]['properties'])}"
        if "anyOf" in node:
            return " or ".join(allowed(option) for option in node["anyOf"])
        if "enum" in node:
            return " | ".join(map(str, node["enum"]))
        if "prefixItems" in node:
            return "list of " + " and ".join(allowed(item) for item in node["prefixItems"])
        if node.get("type") == "array":
            return "list of " + allowed(node["items"])
        signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
        limits = [f"{sign} {node[key]:g}" for key, sign in signs.items() if key in node]
        return " ".join([node.get("type", "object"), *limits])

    def meaning(node: dict[str, Any]) -> str:
        default = node.get("default")
        if isinstance(default, tuple):
            default = f"[{', '.join(map(str, default))}]"
        ending = f" (default: {default})" if isinstance(default, str | int | float) else ""
        return f"{node['description']}{ending}" if "description" in node else ""

    fields = schema[kind.__name__]["properties"].items()
    return [(key, allowed(node), meaning(node)) for key, node in fields]
