"""Networks that a study builds itself: from files, or trained by a function of the study.

A study names its functions `module:function`. Each network is a pack, measured by a job of its own;
behind their tables they are like any other experiment.

Of `files`, patterns in the study's folder, `runs` is a CSV or JSON with a row for each: its
hyper-parameters, its seed and outcomes such as a test error. The function `train` is given the
hyper-parameters of a setting and a seed by name, and returns a state dictionary, or that and a
mapping of outcomes; one job trains one run.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from flatlab.core.contents import content_of
from flatlab.core.options import section
from flatlab.core.paths import built_at
from flatlab.core.registry import joined, keys_of, measures_samples, module_of
from flatlab.core.run_records import RunRecords, files_matching, read_records
from flatlab.core.schema import REDUCED, PlanError, Strict, closest, means, plain
from flatlab.core.studies import module_of_function, studies, study_of
from flatlab.inputs.arguments import Measure
from flatlab.lab.kinds import Dataset
from flatlab.lab.kinds._evidence import Difference, evidence
from flatlab.lab.kinds._packs import combinations, key_of, seed_blocks, settings
from flatlab.lab.kinds._sections import Count, Scaling
from flatlab.lab.plan.experiments import Experiment, LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

FunctionName = Annotated[
    str, means("module:function of the study's folder", pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
]
SEED = "seed"
Value = bool | int | float | str


class Declared(Strict, frozen=True, kw_only=True):
    """The keys of both at one scale, but for the section `measure`."""

    title: Annotated[str, means("what it is")]
    model: Annotated[
        FunctionName, means("builds a network from those hyper-parameters that it takes")
    ]
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


class DeclaredFiles(Declared, frozen=True, kw_only=True):
    """Networks that were trained elsewhere."""

    files: Annotated[
        str | list[str], means("state dictionaries, or patterns such as checkpoints/*.pt")
    ]
    runs: Annotated[
        str | None,
        means("CSV or JSON: a row per network with its file, hyper-parameters, seed and outcomes"),
    ] = None
    outcomes: Annotated[
        list[str], means("columns of `runs` that are outcomes, besides those called like one")
    ] = field(default_factory=list)


class DeclaredFunction(Declared, frozen=True, kw_only=True):
    """Networks that a function of the study trains, a run per setting and seed."""

    train: Annotated[
        FunctionName, means("trains one run: hyper-parameters and seed in, state dictionary out")
    ]
    settings: Annotated[
        dict[str, Any] | list[dict[str, Any]],
        means("factors whose product is taken, lr: [0.1, 0.2], or a list of settings"),
    ]
    exclude: Annotated[list[dict[str, Any]], means("combinations of factors to leave out")] = field(
        default_factory=list
    )
    seeds: Annotated[list[int | str], means("of each setting: [0-4], or [0, 7]", min_length=1)]


class StudyNetworks(Experiment, frozen=True, kw_only=True):
    """Networks of a study at one scale: each file of weights, or each run of a function, is a pack.

    study: its key.
    file: the content of the experiment's file.
    options: those of each family, and of the loss.
    """

    study: str
    file: Any
    measure: Measure
    options: dict[str, dict[str, Any]]

    kind: ClassVar[str] = "networks"

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "StudyNetworks":
        study = study_of(source.folder, source.name)
        measure, options = section(source.parts("measure"), Measure)
        for family in joined(measure.families):
            if not measures_samples(family):
                raise PlanError(
                    f"{source.location('measure', 'families')}: losses and errors on training and "
                    f"test sets are measured anyway; leave out {family}"
                )
        from_files = source.value("from") == "files"
        schema = DeclaredFiles if from_files else DeclaredFunction
        file: Any = source.record(schema, leaving=("from", "measure"))
        module_of_function(file.model, study, source.location("model"))
        networks = cls(
            key=source.key,
            scale=source.scale,
            title=file.title,
            packs=(_of_files if from_files else _of_runs)(source, file, study),
            families=measure.families,
            study=study,
            file=file,
            measure=measure,
            options={name: plain(chosen) for (_, name), chosen in options.items()},
        )
        networks.check_data(source.location("data"))
        return networks

    @property
    def by_function(self) -> bool:
        return isinstance(self.file, DeclaredFunction)

    @property
    def trained(self) -> str:
        """How its networks were trained, in words."""
        return "by a function of the study" if self.by_function else "elsewhere"

    def check_data(self, context: str) -> None:
        """Raise `PlanError` if there are no such data."""
        name = self.file.data
        if self.path(name).exists():
            return
        if ":" in name:
            module_of_function(name, self.study, context)
        elif name not in keys_of("data"):
            raise PlanError(
                f"{context}: {name} is neither a file or folder of the study nor module:function "
                f"nor a data set; {closest(name, keys_of('data'))}"
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

    def training(self, pack: str) -> PlannedJob | None:
        if not self.by_function:
            return None
        network: Network = self.pack(pack)
        settings = {
            "study": self.study,
            "function": self.file.train,
            "arguments": {**network.hyperparameters, SEED: network.seed},
        }
        return PlannedJob(
            inputs={},
            settings=settings,
            code=fingerprint(self._module(self.file.train)),
            gpu=True,
            kind="train",
            network=self.file.train,
        )

    def weights(self, pack: str) -> dict[str, str]:
        if self.by_function:
            return {"weights": super().weights(pack)["weights"]}
        return {"weights": str(self.path(self.pack(pack).file))}

    def measuring(self, pack: str, family: str) -> PlannedJob:
        network: Network = self.pack(pack)
        chosen, families = self.measure, joined(family)
        data, path = self.file.data, self.path(self.file.data)
        inputs: dict[str, str | list[str]] = {"weights": self.weights(pack)["weights"]}
        roots = ["flatlab.lab.kinds._user_networks", self._module(self.file.model)]
        roots += [module_of("families", name) for name in families]
        roots.append(module_of("losses", chosen.loss))
        names = [*families, chosen.loss]
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
            "options": {key: value for n in names for key, value in self.options[n].items()},
            "performance": family == self.families[0],
            **({"outcomes": True} if self.by_function else {}),
        }
        content = {} if self.by_function else {"weights": content_of(self.weights(pack)["weights"])}
        if self.data_sets:
            inputs["data"] = str(built_at(self.scale).data(data))
        elif path.exists():
            content["data"] = content_of(path)
            inputs |= {"data": str(path)} if path.is_file() else {}
        else:
            roots.append(self._module(data))
        if content:  # Snakemake sees dates alone
            settings["content"] = content
        return PlannedJob(
            inputs=inputs,
            settings=settings,
            code=fingerprint(*roots),
            gpu=True,
            kind=family,
            network=self.file.model,
        )

    def _module(self, function: str) -> str:
        return module_of_function(function, self.study, self.key)

    def tabulating(self, published: Experiment) -> PlannedJob:
        assert isinstance(published, StudyNetworks)
        networks = {
            pack: {**plain(network), "file": network.file or self.weights(pack)["weights"]}
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
        return PlannedJob(inputs={}, settings=settings, code=fingerprint("flatlab.lab.tables.runs"))

    def _differences(self, published: "StudyNetworks") -> Iterator[Difference]:
        ours, theirs = len(self.packs), len(published.packs)
        if ours < theirs:
            yield REDUCED, f"{ours} networks instead of {theirs}"
        ours_, theirs_ = (each.measure.samples for each in (self, published))
        if ours_ != theirs_ and ours_ != "all":
            yield REDUCED, f"{ours_} samples instead of {theirs_}"

    @property
    def about(self) -> list[str]:
        return [f"{len(self.packs)} networks of {self.file.model}, trained {self.trained}"]


def _of_files(source: Source, file: DeclaredFiles, study: str) -> dict[str, Network]:
    """The networks in files; `PlanError` for what cannot be had."""
    folder, where = studies()[study], source.location("files")
    patterns = [file.files] if isinstance(file.files, str) else file.files
    files = files_matching(patterns, f"{where}: ", folder)
    runs = None if file.runs is None else Path(os.path.relpath(folder / file.runs))
    records = read_records(files, runs, file.outcomes)
    packs: dict[str, Network] = {}
    columns = (records.files, records.hyperparameters, records.outcomes, records.seeds)
    for name, path, values, outcomes, seed in zip(records.names, *columns, strict=True):
        if {*"{}"} & {*str(path)}:
            raise PlanError(f"{where}: {path} has braces, which Snakemake reads; rename it")
        if (pack := name.replace(os.sep, "_")) in packs:
            raise PlanError(f"{where}: two files are called {pack}; rename one")
        packs[pack] = Network(hyperparameters=values, seed=seed, file=str(path), outcomes=outcomes)
    return packs


def _of_runs(source: Source, file: DeclaredFunction, study: str) -> dict[str, Network]:
    """The networks that a function trains; `PlanError` for what cannot be had."""
    module_of_function(file.train, study, source.location("train"))
    seeds = [*itertools.chain(*seed_blocks(file.seeds, source.location("seeds")))]
    packs: dict[str, Network] = {}
    for values, seed in itertools.product(_settings(source, file), seeds):
        run = f"{key_of(values, source.location('settings'))}-s{seed}"
        if run in packs:
            raise PlanError(f"{source.location('settings')}: {run} is declared twice")
        packs[run] = Network(hyperparameters=values, seed=seed)
    return packs


def _settings(source: Source, file: DeclaredFunction) -> Iterator[dict[str, Any]]:
    """Each setting: those of a list, or the product of factors less what is excluded."""
    stated = file.settings if isinstance(file.settings, list) else [file.settings]
    if any(SEED in each for each in stated):
        raise PlanError(f"{source.location('settings')}.{SEED}: seeds stand under `seeds`")
    for location, values in settings(source, combinations):
        if {*values} != {*stated[0]}:
            raise PlanError(f"{location}: it must name {', '.join(sorted(stated[0]))}")
        for name, value in values.items():
            if not isinstance(value, Value):
                raise PlanError(f"{location}.{name}: expected a number or a word, found {value!r}")
        yield values


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table of the datasets of all metric files, network by network."""
    from flatlab.lab.tables.runs import Row, of_networks

    networks = settings["networks"].values()
    hyperparameters, outcomes, seeds = (
        tuple(network[key] for network in networks)
        for key in ("hyperparameters", "outcomes", "seed")
    )
    files = tuple(Path(network["file"]) for network in networks)
    records = RunRecords(files, hyperparameters, outcomes, seeds)
    places = [place for place in range(len(networks)) for _ in range(settings["jobs"])]
    rows = [(place, Row.of(part)) for place, part in zip(places, parts, strict=True)]
    return of_networks(rows, records, settings["about"])
