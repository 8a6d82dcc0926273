"""Experiments of networks that a study builds itself: what the kinds `files` and `loop` share.

A study names its functions `module:function`; they are found without importing them. Each network
is a pack, measured by a job of its own; behind their tables they are like any other experiment.
"""

import ast
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from flatlab.core.options import documented, section
from flatlab.core.paths import built_at
from flatlab.core.registry import file_of, joined, keys_of, measures_samples, module_of, syntax
from flatlab.core.schema import REDUCED, PlanError, Strict, closest, convert, means, plain
from flatlab.core.studies import module_of_study, studies
from flatlab.inputs.arguments import Arguments, options_in_measurement
from flatlab.lab.kinds._evidence import Difference, evidence
from flatlab.lab.kinds._sections import Count, Precision, Scaling
from flatlab.lab.plan.experiments import Experiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

Function = Annotated[
    str, means("module:function of the study's folder", pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
]
Value = bool | int | float | str


class Measure(Arguments, frozen=True, kw_only=True):
    """The measurements on each network; options of the families and of the loss are keys too."""

    FOLDERS: ClassVar[dict[str, str]] = {"families": "metrics", "loss": "losses"}
    OPTIONS: ClassVar[Any] = staticmethod(options_in_measurement)

    families: Annotated[
        list[str], means("files of flatlab/families; those joined by + are measured by one job")
    ]
    loss: Annotated[str, means("that of the training, a file of flatlab/losses")] = "cross-entropy"
    samples: Annotated[
        Literal["all"] | Count, means("training samples that the families are measured on")
    ] = 100
    precision: Annotated[Precision | None, means("former name of `dtype`")] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `flatlab.measure`; samples are drawn before."""
        own = {name: getattr(self, name) for name in Arguments.__struct_fields__}
        samples = None if self.samples == "all" else self.samples
        return own | {"samples": samples, "dtype": self.dtype or self.precision}


class Declared(Strict, frozen=True, kw_only=True):
    """The keys that the files of both kinds have."""

    title: Annotated[str, means("what it is")]
    model: Annotated[Function, means("builds a network from those hyper-parameters that it takes")]
    data: Annotated[
        str,
        means(
            "a file of arrays, a folder of images, module:function that returns arrays or loaders, "
            "or a file of flatlab/data"
        ),
    ]
    scaling: Annotated[Scaling, means("of images as published; arrays are taken as they are")] = (
        "unit"
    )
    resize: Annotated[
        Count | None, means("pixels to which images of a folder are resized and cut")
    ] = None


class Network(Strict, frozen=True, kw_only=True):
    """A network, which is a pack of its own.

    file: its weights, relative to the study's folder; "" if they are trained here.
    outcomes: numbers that are known of it.
    """

    hyperparameters: dict[str, Value]
    seed: int
    file: str = ""
    outcomes: dict[str, float] = field(default_factory=dict)


class NetworksExperiment(Experiment, frozen=True, kw_only=True):
    """Networks of a study at one scale.

    study: its key.
    file: the content of the experiment's file.
    options: those of each family, and of the loss.
    """

    study: str
    file: Any
    measure: Measure
    options: dict[str, dict[str, Any]]

    schema: ClassVar[type[Declared]]
    trained: ClassVar[str]
    """How its networks were trained, in words."""

    @classmethod
    def load_own(cls, source: Source) -> dict[str, Any]:
        """The fields that both kinds have, checked; `PlanError` with the file and the key."""
        keys = [*cls.schema.__struct_fields__]
        source.check_keys([*keys, "measure"])
        study = study_of(source.folder, source.name)
        measure, options = section(source.parts("measure"), Measure)
        for family in joined(measure.families):
            if not measures_samples(family):
                raise PlanError(
                    f"{source.location('measure', 'families')}: losses and errors on training and "
                    f"test sets are measured anyway; leave out {family}"
                )
        if measure.precision:
            where = source.location("measure", "precision")
            warnings.warn(f"{where} is now called dtype", FutureWarning, stacklevel=2)
        content = {**source.content, **source.override}
        content = {key: source.value(key) for key in keys if key in content}
        file = convert(content, cls.schema, source.location)
        module_of_function(file.model, study, source.location("model"))
        networks = cls(
            key=source.key,
            scale=source.scale,
            title=file.title,
            packs={},
            families=measure.families,
            study=study,
            file=file,
            measure=measure,
            options={name: plain(chosen) for (_, name), chosen in options.items()},
        )
        networks.check_data(source.location("data"))
        return {name: getattr(networks, name) for name in networks.__struct_fields__}

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        return {cls.kind: cls.schema, **dict(documented("measure", Measure))}

    def check_data(self, place: str) -> None:
        """Raise `PlanError` if there are no such data."""
        name, path = self.file.data, self.path(self.file.data)
        if path.exists():
            return
        if ":" in name:
            module_of_function(name, self.study, place)
        elif name not in keys_of("data"):
            raise PlanError(
                f"{place}: {name} is neither a file or folder of the study nor module:function nor "
                f"a data set; {closest(name, keys_of('data'))}"
            )

    def path(self, name: str) -> Path:
        """A file of the study, from the working folder."""
        return Path(os.path.relpath(studies()[self.study] / name))

    @property
    def data_sets(self) -> list[str]:
        known = self.file.data in keys_of("data") and not self.path(self.file.data).exists()
        return [self.file.data] if known else []

    def size(self, pack: str) -> int:
        return 1

    def weights_of(self, pack: str) -> str:
        """The file with the weights of a network."""
        raise NotImplementedError

    def measuring(self, pack: str, family: str) -> PlannedJob:
        network: Network = self.pack(pack)
        chosen, families = self.measure, joined(family)
        data, path = self.file.data, self.path(self.file.data)
        inputs: dict[str, str | list[str]] = {"weights": self.weights_of(pack)}
        roots = ["flatlab.lab.kinds.user_networks.networks", self._module(self.file.model)]
        roots += [module_of("metrics", name) for name in families]
        roots.append(module_of("losses", chosen.loss))
        settings = {
            "study": self.study,
            "model": self.file.model,
            "hyperparameters": network.hyperparameters,
            "data": data,
            "scaling": self.file.scaling,
            "resize": self.file.resize,
            "families": families,
            "loss": chosen.loss,
            "arguments": chosen.arguments,
            "options": self._options([*families, chosen.loss]),
            "performance": family == self.families[0],
        }
        if self.data_sets:
            inputs["data"] = str(built_at(self.scale).data(data))
        elif path.is_file():
            inputs["data"] = str(path)
        elif path.is_dir():
            settings["content"] = _content(path)
        else:
            roots.append(self._module(data))
        code = fingerprint(*roots)
        return PlannedJob(
            inputs=inputs,
            settings=settings,
            code=code,
            gpu=True,
            kind=family,
            network=self.file.model,
        )

    def _module(self, function: str) -> str:
        return module_of_function(function, self.study, self.key)

    def _options(self, names: list[str]) -> dict[str, Any]:
        return {key: value for name in names for key, value in self.options[name].items()}

    def tabulating(self, published: Experiment) -> PlannedJob:
        assert isinstance(published, NetworksExperiment)
        networks = {
            pack: {**plain(network), "file": network.file or self.weights_of(pack)}
            for pack, network in self.packs.items()
        }
        about = {
            **self.identity,
            "data": self.file.data,
            "model": self.file.model,
            "families": joined(self.families),
            "sample_seed": self.measure.seed,
            "trained": self.trained,
            "left_out": self.missing_networks,
            **evidence(*self._differences(published)),
        }
        settings = {"about": about, "networks": networks, "jobs": len(self.families)}
        return PlannedJob(
            inputs={}, settings=settings, code=fingerprint("flatlab.lab.tables.own_networks")
        )

    def _differences(self, published: "NetworksExperiment") -> Iterator[Difference]:
        ours, theirs = len(self.packs), len(published.packs)
        if ours < theirs:
            yield REDUCED, f"{ours} networks instead of {theirs}"
        ours_, theirs_ = (each.measure.samples for each in (self, published))
        if ours_ != theirs_ and ours_ != "all":
            yield REDUCED, f"{ours_} samples instead of {theirs_}"

    @property
    def about(self) -> list[str]:
        return [f"{len(self.packs)} networks of {self.file.model}, trained {self.trained}"]


def _content(folder: Path) -> str:
    """A hash of the names and sizes of all files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{path.relative_to(folder).as_posix()} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def study_of(folder: Path, context: str) -> str:
    """The key of the study in a folder; `PlanError` if it is none."""
    for key, place in studies().items():
        if place == folder.resolve():
            return key
    raise PlanError(f"{context}: such experiments are part of a study, and this is none")


def module_of_function(name: str, study: str, context: str) -> str:
    """The module of flatlab that has a function of a study: a root for fingerprints.

    name: "mine:build".
    study: its key.
    context: the place that names it, for the message of the `PlanError` if it cannot be had.
    """
    module, _, function = name.partition(":")
    folder, ours = studies()[study], module_of_study(module, study)
    file = file_of(ours)
    path = file / "__init__.py" if file is not None and file.is_dir() else file
    if path is None or not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.py"))
        raise PlanError(
            f"{context}: {folder.name} has no module {module!r}; {closest(module, known)}"
        )
    if _exists_elsewhere(module.partition(".")[0], folder):
        raise PlanError(f"{context}: {module} has the name of an installed module; rename it")
    names = _names(path)
    if function not in names:
        raise PlanError(f"{context}: {module} has no {function!r}; {closest(function, names)}")
    return ours


def _exists_elsewhere(module: str, folder: Path) -> bool:
    """Whether Python, without the study's folder, has a module of this name."""
    others = [path for path in sys.path if Path(path or ".").resolve() != folder]
    if module in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(module, others)
    return spec is not None and spec.origin is not None


def _names(path: Path) -> list[str]:
    """What a module defines or imports at its top level."""
    names: list[str] = []
    for node in syntax(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names
