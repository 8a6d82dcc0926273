"""Experiments, each of which yields one table: what all kinds of them have in common.

`experiments/<key>.yaml` declares an experiment. Its `kind` is a file of `flatlab/lab/kinds` with
a subclass of `Experiment` of the same name.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from msgspec import field
from msgspec.structs import replace

from flatlab.core import schema
from flatlab.core.paths import built_at
from flatlab.core.registry import check_known, imported, keys_of
from flatlab.core.schema import SCALES, PlanError, Strict, closest

LoadExperiment = Callable[[str, str], "Experiment"]
"""Callable (key, prefix of errors) -> the experiment at the same scale."""


class PlannedJob(Strict, frozen=True):
    """The inputs and params of one job.

    inputs: files by name.
    settings, code: the params; the result depends on nothing else.
    reads: names, and patterns, of what it reads in the data folder, whose content is a part of
        the code.
    gpu: whether it computes on the configured device.
    kind, network, work: for forecasts: the time of jobs of one kind and network is proportional to
        `work`; without a network it is that of jobs at the same scale.
    """

    inputs: dict[str, str | list[str]]
    settings: dict[str, Any]
    code: str
    reads: tuple[str, ...] = ()
    gpu: bool = False
    kind: str = ""
    network: str = ""
    work: float = 1.0


class Experiment(Strict, frozen=True, kw_only=True):
    """An experiment at one scale; it yields one table.

    packs: the units of computation, by key; one job trains one.
    families: the measures of each pack; those joined by + are computed by one job.
    optional: families that a measured pack may lack, since its weights are gone.
    missing_networks: how many that its file declares are not measured.
    missing_files: the metric files that measured packs lack.
    """

    key: str
    scale: str
    title: str
    packs: dict[str, Any]
    families: list[str]
    optional: list[str] = field(default_factory=list)
    missing_networks: int = 0
    missing_files: frozenset[Path] = frozenset()

    kind: ClassVar[str]

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        """The schema of each section of its file, for `flatlab experiments`."""
        raise NotImplementedError

    @classmethod
    def load(cls, source: "Source", find: LoadExperiment) -> "Experiment":
        """Read and check a file; raise `PlanError` with the file and the key.

        find: returns others that it names.
        """
        raise NotImplementedError

    def with_stand_ins(self, stand_ins: Mapping[str, str]) -> "Experiment":
        """The same with some data sets replaced."""
        return self

    @property
    def data_sets(self) -> list[str]:
        """Its data sets, each once."""
        return []

    @property
    def by_function(self) -> bool:
        """Whether a function of a study trains its networks."""
        return False

    def training(self, pack: str) -> PlannedJob | None:
        """The job that trains a pack, or None if nothing is trained."""
        return None

    def measuring(self, pack: str, family: str) -> PlannedJob:
        """The job that computes a family of quantities of a pack."""
        raise NotImplementedError

    def check_table(self) -> None:
        """Raise `PlanError` if its results cannot stand in one table."""

    def tabulating(self, published: "Experiment") -> PlannedJob:
        """The job that joins metric files to a table.  published: the same at scale paper."""
        raise NotImplementedError

    @property
    def identity(self) -> dict[str, str]:
        """The first attributes of its table."""
        return {"experiment": self.key, "name": self.key, "scale": self.scale, "title": self.title}

    @property
    def about(self) -> list[str]:
        """A description of its contents at this scale, in lines."""
        raise NotImplementedError

    @property
    def disk_use(self) -> str:
        """The approximate size of its weights, in words; "" if it has none."""
        return ""

    @property
    def keeps_dense_checkpoints(self) -> bool:
        """Whether they are kept after the measurement."""
        return True

    def needs(self) -> list[str]:
        """The experiments whose weights it uses, each behind those that it needs itself."""
        return []

    def pack(self, key: str) -> Any:
        """One of its packs; raises `PlanError` with the closest name for an unknown key."""
        if key not in self.packs:
            raise PlanError(f"unknown pack {key!r} of {self.key}; {closest(key, self.packs)}")
        return self.packs[key]

    def metrics(self, pack: str, family: str) -> Path:
        """The metric file of a pack and a family."""
        return built_at(self.scale).metrics(self.key, family, pack)

    def weights(self, pack: str) -> dict[str, str]:
        """The files that the training of a pack writes, by name."""
        return built_at(self.scale).models(self.key, pack)

    @property
    def metric_files(self) -> list[Path]:
        """All metric files, pack by pack."""
        files = (self.metrics(pack, family) for pack in self.packs for family in self.families)
        return [path for path in files if path not in self.missing_files]

    def size(self, pack: str) -> int:
        """The number of networks of a pack."""
        return 0

    def only_measured_packs(self) -> "Experiment":
        """The same with only those packs whose metric files all exist, but for optional ones."""
        missing = {
            key: {family for family in self.families if not self.metrics(key, family).is_file()}
            for key in self.packs
        }
        packs = {k: pack for k, pack in self.packs.items() if missing[k] <= {*self.optional}}
        networks = sum(self.size(key) for key in self.packs if key not in packs)
        files = frozenset(self.metrics(key, family) for key in packs for family in missing[key])
        return replace(self, packs=packs, missing_networks=networks, missing_files=files)

    def code(self) -> dict[str, list[str]]:
        """The fingerprints of its code: of the training and of each family."""
        stages: dict[str, set[str]] = {}
        for pack in self.packs:
            if training := self.training(pack):
                stages.setdefault("train", set()).add(training.code)
            for family in self.families:
                stages.setdefault(family, set()).add(self.measuring(pack, family).code)
        return {name: sorted(codes) for name, codes in stages.items()}


class Source:
    """The content of an experiment's file at one scale, and the location of each key in it.

    folder: of the study.
    """

    def __init__(self, path: Path, scale: str) -> None:
        self.key, self.scale = path.stem, scale
        self.folder = path.parent.parent
        self.name = "/".join(path.parts[-3:])
        text = path.read_bytes()
        self._identity = (self.name, scale, text)
        self.content = dict(_parsed(text, self.name))
        if "scales" not in self.content:
            raise PlanError(schema.absent("scales", self.content, f"{self.name}: scales"))
        self.scales = self.content.pop("scales")
        schema.refuse_unknown(self.scales, SCALES, f"{self.name}: scales")
        if missing := [each for each in SCALES if each not in self.scales]:
            raise PlanError(f"{self.name}: scales: {missing[0]!r} is missing")
        self.kind = self.content.pop("kind", None)
        if self.kind is None:
            sentence = schema.absent("kind", self.content, f"{self.name}: kind")
            raise PlanError(f"{sentence}; known: {', '.join(keys_of('lab/kinds'))}")
        check_known("lab/kinds", self.kind, f"{self.name}: kind")
        self.override: dict[str, Any] = self.scales[scale] or {}

    def __eq__(self, other: object) -> bool:
        """What is made of the same text at one scale is made once in a process."""
        return isinstance(other, Source) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def check_keys(self, known: list[str], fixed: tuple[str, ...] = ("title",)) -> None:
        """Refuse unknown keys, and `fixed` keys in a scale."""
        schema.refuse_unknown(self.content, known, self.name)
        varying = [key for key in known if key not in fixed]
        for scale, changes in self.scales.items():
            if not isinstance(changes, Mapping):
                location = f"{self.name}: scales.{scale}"
                raise PlanError(f"{location}: expected keys and values, found {changes!r}")
            schema.refuse_unknown(changes, varying, f"{self.name}: scales.{scale}")

    def location(self, section: str, key: str = "") -> str:
        """The location of a key, which may be in the scale's override, for messages."""
        inside = self.override.get(section)
        stated = key in inside if key and isinstance(inside, Mapping) else section in self.override
        where = f"scales.{self.scale}.{section}" if stated else section
        return f"{self.name}: {where}{f'.{key}' if key else ''}"

    def value(self, key: str, default: Any = None) -> Any:
        """The value of a key at this scale."""
        return self.override.get(key, self.content.get(key, default))

    def record(self, kind: type[Strict], leaving: tuple[str, ...]) -> Any:
        """All keys at this scale but some, as a record of `kind`; `PlanError` for a wrong one."""
        keys = [key for key in {**self.content, **self.override} if key not in leaving]
        return schema.convert({key: self.value(key) for key in keys}, kind, self.location)

    def parts(self, key: str) -> list[tuple[str, Mapping[str, Any]]]:
        """A section as it stands above `scales:` and in the scale, each with its location."""
        above = self.content.get(key, {} if key in self.override else None)
        parts = [(key, above), (f"scales.{self.scale}.{key}", self.override.get(key, {}))]
        for location, part in parts:
            if not isinstance(part, Mapping):
                raise PlanError(
                    f"{self.name}: {location}: expected keys and values, found {part!r}"
                )
        return [(f"{self.name}: {location}", part) for location, part in parts]


def keys_of_kinds() -> dict[str, dict[str, list[tuple[str, str, str]]]]:
    """Every key of an experiment's file by kind and section: key, allowed values, meaning."""
    return {
        kind: {
            name: [key for key in schema.describe(section) if key[2]]  # others are no keys
            for name, section in imported("lab/kinds", kind).EXPERIMENT.sections().items()
        }
        for kind in keys_of("lab/kinds")
    }


def read_experiment(path: Path, scale: str, find: LoadExperiment) -> Experiment:
    """Read and check one file; raises `PlanError` with the file and the key."""
    source = Source(path, scale)
    experiment: Experiment = imported("lab/kinds", source.kind).EXPERIMENT.load(source, find)
    return experiment


@functools.cache
def _parsed(text: bytes, name: str) -> Mapping[str, Any]:
    """Parsed once, although a file is read at several scales; the result must not be changed."""
    try:
        content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise PlanError(f"{name}: not valid YAML{line}") from None
    if not isinstance(content, Mapping):
        raise PlanError(f"{name}: expected keys and values, found {content!r}")
    return content
