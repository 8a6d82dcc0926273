"""The kind of evidence that an experiment gives on the paper's claims, and how it differs.

`flatlab.core.schema.EVIDENCE` says what the kinds are. The worst difference decides.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct, structs

from flatlab.core.registry import assignments, literal, path_of
from flatlab.core.schema import EVIDENCE, OWN, REDUCED, STAND_IN
from flatlab.lab.kinds._packs import ARCHITECTURE, Pack
from flatlab.lab.kinds._sections import Corrupted, Samples

NAMES = {"lr": "learning rate"}

Difference = tuple[str, str]
"""A kind of evidence, and what differs from the paper's experiment in words."""


def evidence(*differences: Difference) -> dict[str, Any]:
    """The attributes `evidence`, the worst kind, and `differs`, all differences in words."""
    worst = max((kind for kind, _ in differences), key=EVIDENCE.index, default=OWN)
    return {"evidence": worst, "differs": list(dict.fromkeys(words for _, words in differences))}


def of_values(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    """Settings that differ from the paper's: {repeats: 4} -> "repeats: 4 instead of 100"."""
    for key, wanted in theirs.items():
        here, name = ours.get(key), key.replace("_", " ")
        if here == wanted:
            continue
        if isinstance(here, Mapping) and isinstance(wanted, Mapping):
            for _, words in of_values(here, wanted):
                yield REDUCED, f"{name}, {words}"
        elif isinstance(here, list) and len(here) < len(wanted) and all(v in wanted for v in here):
            yield REDUCED, f"{len(here)} of {len(wanted)} {name}"
        else:
            yield REDUCED, f"{name}: {_words(here)} instead of {_words(wanted)}"


def of_packs(ours: Mapping[str, Pack], theirs: Mapping[str, Pack]) -> Iterator[Difference]:
    """How the networks of a grid differ from the paper's: what they are, and how many."""
    made, wanted = _by_setting(ours), _by_setting(theirs)
    changed: dict[str, tuple[list[Any], list[Any]]] = {}
    for setting, values in made.items():
        # A setting that the paper does not have may have the values of any of its settings.
        comparable = [wanted[setting]] if setting in wanted else list(wanted.values())
        for key, value in values.items():
            allowed = [each[key] for each in comparable if key in each]
            if allowed and value not in allowed:
                now, then = changed.setdefault(key, ([], []))
                now.append(value)
                then += allowed
    for key, (now, then) in changed.items():
        yield _difference(key, now, then)
    if lacking := wanted.keys() - made.keys():
        yield REDUCED, f"{len(wanted) - len(lacking)} of {len(wanted)} settings"
    networks, all_networks = (sum(len(p.seeds) for p in each.values()) for each in (ours, theirs))
    if networks < all_networks:
        yield REDUCED, f"{networks} of {all_networks} networks"


def of_starts(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    """How the grids whose networks are fine-tuned differ from the paper's."""
    for key in ours.keys() & theirs.keys():
        yield from (
            (kind, f"{key}: {words}")
            for kind, words in of_packs(ours[key].packs, theirs[key].packs)
        )
        yield from of_starts(ours[key].sources, theirs[key].sources)


def of_samples(ours: Mapping[str, Samples], theirs: Mapping[str, Samples]) -> Iterator[Difference]:
    """How the samples that a grid is measured on differ from the paper's."""
    for name, wanted in theirs.items():
        made = ours.get(name)
        if made is None:
            yield REDUCED, f"no {name} samples measured"
        elif structs.replace(made, size=wanted.size) != wanted:
            yield REDUCED, f"other {name} samples measured"
        elif made.size < wanted.size:
            yield REDUCED, f"{made.size:,} {name} samples measured instead of {wanted.size:,}"


def of_test_sets(
    ours: Mapping[str, Corrupted], theirs: Mapping[str, Corrupted]
) -> Iterator[Difference]:
    """How the further test sets of a grid differ from the paper's."""
    for name, wanted in theirs.items():
        if name not in ours:
            yield REDUCED, f"no {name} test set"
            continue
        for kind, words in of_values(structs.asdict(ours[name]), structs.asdict(wanted)):
            yield kind, f"{name} test set, {words}"


def _by_setting(packs: Mapping[str, Pack]) -> dict[str, dict[str, Any]]:
    """All that the networks of each setting depend on, by key, but mode and precision."""
    by_setting = {}
    for pack in packs.values():
        network, training = structs.asdict(pack.network), structs.asdict(pack.training)
        options, name = network.pop("options"), network.pop("name")
        data = structs.asdict(pack.data)
        for key in ("mode", "precision", "iterations", "epochs"):
            del training[key]
        by_setting[pack.setting] = {
            **data.pop("options"),
            **data,
            ARCHITECTURE: name,
            f"options of {name}": (pack.network.label, options),
            **network,
            "length": pack.training.length,
            **training.pop("options"),
            **training,
        }
    return by_setting


def _difference(key: str, now: list[Any], then: list[Any]) -> Difference:
    """One key of data, network or training.  now, then: its values in settings that differ."""
    if key == "set" and (formats := [_reencoded(name, then) for name in now]) and all(formats):
        return REDUCED, f"images of {_any(then)} re-encoded as {_any(formats)}"
    if key.startswith("options of "):
        now, then = ([label for label, _ in each] for each in (now, then))
        if {*now} & {*then}:  # a label has only options with a default
            return REDUCED, f"other {key}"
    ours, theirs = _any(now), _any(then)
    if key == "length":  # 60,000 iterations instead of 750,000
        theirs = theirs.removesuffix(f" {ours.split()[-1]}")
    if key == "samples":
        return REDUCED, f"{ours} training samples instead of {theirs}"
    if key in ("set", ARCHITECTURE):
        return STAND_IN, f"{ours} instead of {theirs}"
    name = "" if key == "length" or key.startswith("options of ") else f"{NAMES.get(key, key)}: "
    return REDUCED, f"{name.replace('_', ' ')}{ours} instead of {theirs}"


def _reencoded(name: str, originals: list[str]) -> str:
    """The format in which a data set has the images of one of `originals`; "" if it has others."""
    if "REENCODED" not in assignments(path_of("data", name)):
        return ""
    original, encoding = literal("data", name, "REENCODED")
    return encoding if original in originals else ""


def _any(values: list[Any]) -> str:
    return " or ".join(dict.fromkeys(map(_words, values)))


def _words(value: Any) -> str:
    if isinstance(value, Struct):
        fields = structs.asdict(value).items()
        value = {key: each for key, each in fields if each not in (None, UNSET)}
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    if value is UNSET:
        return "none"
    if type(value) is int:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
