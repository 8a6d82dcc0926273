"""Networks that exist, or that a function of a study trains: measured, and joined to a table.

`from` says where they come from. A zoo is divided among `jobs`: the networks of a `grid`, networks
of `timm` by name, or those that a `function` of a study loads, its `networks`. Networks that a
study builds itself are measured by a job each: from `files`, or by a `function` that trains one run
per setting and seed, its `train`; they are in `_study_networks`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from flatlab.core.options import documented, section
from flatlab.core.registry import joined, module_of
from flatlab.core.schema import REDUCED, STAND_IN, Key, PlanError, Strict, closest, means, plain
from flatlab.core.studies import module_of_function, study_of
from flatlab.lab.jobs.memory import quick_imports
from flatlab.lab.kinds import Dataset, RunningJob
from flatlab.lab.kinds import _study_networks as study_networks
from flatlab.lab.kinds._evidence import evidence
from flatlab.lab.kinds._packs import Pack
from flatlab.lab.kinds._sections import Corrupted, reads_of
from flatlab.lab.kinds._study_networks import DeclaredFiles, DeclaredFunction
from flatlab.lab.kinds.grid import Grid, grid_of, part_of
from flatlab.lab.plan.experiments import Experiment, LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

CLEAN = "test"
"""The name of the test set that is not shifted."""


class From(Strict, frozen=True, rename={"from_": "from"}):
    """Where networks come from."""

    from_: Annotated[
        Literal["files", "timm", "grid", "function"], means("where the networks come from")
    ]


class MeasureZoo(Strict, frozen=True, kw_only=True):
    """The measurements on each network of a zoo; options of the families are keys too."""

    FOLDERS: ClassVar[dict[str, str]] = {"families": "families"}

    families: Annotated[list[str], means("files of flatlab/families, measured by one job")]
    samples: Annotated[int, means("on which each network is measured", ge=2)]
    seed: Annotated[int, means("of the samples and of all that is drawn", ge=0)]


class TestSet(Strict, frozen=True):
    """A test set: corrupted images or a further part of a grid's data set, or files."""

    corrupted: Annotated[Corrupted | None, means("images of the test set, corrupted")] = None
    part: Annotated[Key | None, means("of the data set of a grid, besides train and test")] = None
    files: Annotated[str | None, means("a folder of images, or a file, in the data folder")] = None
    where: Annotated[
        dict[str, str], means("only samples of a file with these values in their columns")
    ] = field(default_factory=dict)

    def contradiction(self, of_files: bool = False) -> tuple[str, str] | None:
        named = [name for name in ("corrupted", "part", "files") if getattr(self, name) is not None]
        if len(named) != 1:
            return "", "give one of corrupted, part or files"
        if of_files != (named[0] == "files"):
            whose = "networks from elsewhere" if of_files else "networks of a grid"
            return "", f"{named[0]} is not for {whose}"
        return None


class DeclaredZoo(Strict, frozen=True, kw_only=True):
    """The keys of every zoo at one scale."""

    title: Annotated[str, means("what it is")]
    name: Annotated[Key, means("what it is called at this scale: a stand-in has its own name")]
    jobs: Annotated[int, means("among which the networks are divided", ge=1)]
    test_sets: Annotated[
        dict[Key, TestSet], means("by name, for accuracy; those of a grid have its own as well")
    ] = field(default_factory=dict)
    hyperparameters: Annotated[
        dict[str, str],
        means("coordinates of the table by name: a key of the grid, or what a function is told"),
    ] = field(default_factory=dict)
    levels: Annotated[
        dict[str, list[str]],
        means("words in order, by coordinate, which then has their numbers from 0 on"),
    ] = field(default_factory=dict)

    def contradiction(self) -> tuple[str, str] | None:
        of_files = not isinstance(self, OfGrid)
        for name, chosen in self.test_sets.items():
            if wrong := chosen.contradiction(of_files):
                return f"test_sets.{name}", wrong[1]
            if name == CLEAN and not of_files:
                return f"test_sets.{name}", "is that of the grid's data; choose another name"
        if self.hyperparameters and isinstance(self, OfTimm):
            return "hyperparameters", "are not known of networks of timm; leave it out"
        return None


class OfGrid(DeclaredZoo, frozen=True, kw_only=True):
    """Networks that a grid trains, at the end of training."""

    grid: Annotated[Key, means("the grid whose networks they are")]
    settings: Annotated[list[str] | None, means("only these settings of the grid")] = None


class Elsewhere(DeclaredZoo, frozen=True, kw_only=True):
    """Networks whose weights exist; nothing but networks of timm is fetched."""

    images: Annotated[
        str, means("a folder of images by class in the data folder, or what a function reads")
    ]
    classes: Annotated[int, means("networks with other outputs are left out", ge=1)]
    folder: Annotated[str, means("in the data folder, with the weights")] = "timm"

    @property
    def reads(self) -> tuple[str, ...]:
        """Of the data folder: weights, images and test sets."""
        sets = [each.files for each in self.test_sets.values() if each.files]
        return *self.weights, self.images, *sets

    @property
    def weights(self) -> list[str]:
        return [self.folder]


class OfTimm(Elsewhere, frozen=True, kw_only=True):
    """Networks of timm: <data_folder>/<folder>/<network>.safetensors, else timm's hub."""

    networks: Annotated[
        Literal["folder"] | list[str],
        means("names, or patterns such as *vit*; folder: every file in that folder"),
    ]
    size_at_most: Annotated[int, means("in pixels; larger ones are left out", ge=1)] = 384

    @property
    def weights(self) -> list[str]:
        names = ["*"] if self.networks == "folder" else self.networks
        return [f"{self.folder}/{name}.safetensors" for name in names]


class OfFunction(Elsewhere, frozen=True, kw_only=True):
    """Networks that a function of a study loads.

    It is given the settings of the job, the data folder and the device, and yields
    `flatlab.networks._pretrained.LazyNetwork`, of which it takes each `jobs`-th from `part` on.
    """

    networks: Annotated[study_networks.FunctionName, means("loads the networks of a job")]
    arguments: Annotated[dict[str, Any], means("what else the function is told")] = field(
        default_factory=dict
    )


ZOOS: dict[str, type[DeclaredZoo]] = {"grid": OfGrid, "timm": OfTimm, "function": OfFunction}
SCHEMAS: tuple[type[Strict], ...] = (*ZOOS.values(), DeclaredFiles, DeclaredFunction)


class Zoo(Experiment, frozen=True, kw_only=True):
    """A set of networks at one scale, measured one by one with what suits any architecture.

    origin: grid, timm or function.
    grid: whose networks they are, if they are trained here.
    options: those of each family that they are measured by.
    study: the key of the one whose function loads them; "": none.
    """

    origin: str
    file: Any
    measure: MeasureZoo
    grid: Grid | None
    options: dict[str, dict[str, Any]]
    study: str

    kind: ClassVar[str] = "networks"

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        return {
            "networks": From,
            "from files": DeclaredFiles,
            "from function, trained": DeclaredFunction,
            "from function, loaded": OfFunction,
            "from grid": OfGrid,
            "from timm": OfTimm,
            "test_sets.<name>": TestSet,
            **dict(documented("measure", study_networks.Measure)),
        }

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> Experiment:
        keys = dict.fromkeys(key for schema in SCHEMAS for key in schema.__struct_fields__)
        source.check_keys(["from", *keys, "measure"])
        origin = source.value("from")
        if origin not in (known := (*ZOOS, "files")):
            where = source.location("from")
            raise PlanError(
                f"{where}: {closest(str(origin), known)}" if origin else f"{where} is missing"
            )
        trained = origin == "function" and source.value("networks") is None
        if origin == "files" or trained:
            return study_networks.StudyNetworks.load(source, find)
        return cls.of_origin(origin, source, find)

    @classmethod
    def of_origin(cls, origin: str, source: Source, find: LoadExperiment) -> "Zoo":
        """Networks of a grid, of timm, or that a function of a study loads."""
        file: Any = source.record(ZOOS[origin], leaving=("from", "measure"))
        measure, chosen = section(source.parts("measure"), MeasureZoo)
        options = {name: plain(each) for (_, name), each in chosen.items()}
        if "accuracy" in options and origin != "grid" and CLEAN not in file.test_sets:
            where = source.location("test_sets")
            raise PlanError(f"{where}: accuracy needs the clean one, {CLEAN}")
        grid, study = None, ""
        if origin == "grid":
            grid = grid_of(file.grid, find, source.location("grid"))
            if file.settings is not None:
                grid = part_of(grid, file.settings, source.location("settings"))
        if origin == "function":
            study = study_of(source.folder, source.name)
            module_of_function(file.networks, study, source.location("networks"))
        return cls(
            key=source.key,
            scale=source.scale,
            title=file.title,
            packs={str(number): number for number in range(file.jobs)},
            families=["+".join(joined(measure.families))],
            origin=origin,
            file=file,
            measure=measure,
            grid=grid,
            options=options,
            study=study,
        )

    @property
    def data_sets(self) -> list[str]:
        return self.grid.data_sets if self.grid else []

    def size(self, pack: str) -> int:
        return len(self._networks(self.packs[pack]))

    def needs(self) -> list[str]:
        return [*self.grid.needs(), self.grid.key] if self.grid else []

    def _networks(self, number: int) -> list[tuple[Pack, str]]:
        """The networks of a grid that a job measures: each `jobs`-th, from the given one on."""
        packs = self.grid.packs.values() if self.grid else []
        return [(pack, run) for pack in packs for run in pack.runs][number :: self.file.jobs]

    def measuring(self, pack: str, family: str) -> PlannedJob:
        number = self.pack(pack)
        declared = plain(self.file)
        how = {"from": self.origin, "samples": self.measure.samples, "seed": self.measure.seed}
        settings: dict[str, Any] = {**how, "families": self.options}
        if declared["test_sets"]:
            settings["test_sets"] = declared["test_sets"]
        if declared["hyperparameters"]:
            settings |= {name: declared[name] for name in ("hyperparameters", "levels")}
        roots = ["flatlab.measuring.networks", "flatlab.losses.cross_entropy"]
        roots += [module_of("families", name) for name in joined(family)]
        inputs: dict[str, str | list[str]] = {}
        if self.grid:
            networks = self._networks(number)
            packs = {pack.key: pack for pack, _ in networks}
            inputs = {
                "weights": [self.grid.weights(key)["weights"] for key in packs],
                "data": list(dict.fromkeys(map(self.grid.data_file, packs.values()))),
            }
            settings["networks"] = [
                {
                    "run": run,
                    "network": plain(pack.network),
                    "data": plain(pack.data),
                    "outputs": pack.outputs,
                    "file": list(packs).index(pack.key),
                    "hyperparameters": pack.hyperparameters,
                }
                for pack, run in networks
            ]
            used = dict.fromkeys(pack.network.name for pack in packs.values())
            roots += [module_of("networks", name) for name in used]
            if any(each.corrupted for each in self.file.test_sets.values()):
                roots.append("flatlab.data.corruptions.test_sets")
        else:
            own = [key for key in declared if key not in DeclaredZoo.__struct_fields__]
            settings |= {key: declared[key] for key in own}
            settings |= {"jobs": self.file.jobs, "part": number}
        if self.study:
            settings["study"] = self.study
            roots.append(module_of_function(self.file.networks, self.study, self.key))
        corrupted = [each.corrupted for each in self.file.test_sets.values()]
        reads = reads_of(corrupted) if self.grid else self.file.reads
        code = fingerprint(*roots)
        return PlannedJob(
            inputs=inputs, settings=settings, code=code, reads=reads, gpu=True, kind=self.key
        )

    def tabulating(self, published: Experiment) -> PlannedJob:
        assert isinstance(published, Zoo)
        here, theirs = self.file.name, published.file.name
        samples, all_samples = self.measure.samples, published.measure.samples
        differences = [(STAND_IN, f"{here} instead of {theirs}")] if here != theirs else []
        if samples < all_samples:
            differences.append((REDUCED, f"{samples:,} images instead of {all_samples:,}"))
        about = {
            **self.identity,
            "name": here,
            "data": " and ".join(self.data_sets) if self.grid else self.file.images,
            "training": self.grid.length if self.grid else "",
            "samples": samples,
            "stands_in_for": theirs if here != theirs else "",
            **evidence(*differences),
        }
        if self.file.test_sets:
            about["hyperparameters"] = list(self.file.hyperparameters)
        code = fingerprint("flatlab.lab.tables.runs")
        return PlannedJob(inputs={}, settings={"about": about}, code=code)

    @property
    def about(self) -> list[str]:
        if self.grid:
            networks = f"the {len(self.grid.runs)} networks of {self.grid.key}"
        else:
            names = self.file.networks
            names = names if isinstance(names, str) else ", ".join(names)
            networks = f"pretrained networks: {names}"
        return [f"{self.file.name}: {networks}", f"{self.file.jobs} jobs"]


EXPERIMENT = Zoo


def train(job: RunningJob) -> None:
    """Train one run by a function of a study."""
    with quick_imports():
        from flatlab.lab.kinds._user_networks import train_job
    train_job(job)


def measure(job: RunningJob) -> Dataset:
    """Measure a network of a study, or some of a zoo but those that an earlier attempt measured."""
    with quick_imports():
        from flatlab.core.resume_state import ResumeState
        from flatlab.data._dataset import folder_of
        from flatlab.lab.kinds._user_networks import measure_job
        from flatlab.measuring.networks import measure_networks

    if "model" in job.params.settings:
        return measure_job(job)
    folder = folder_of(job.config.get("data_folder"))
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = ResumeState(job.unfinished, identity)
    return measure_networks(job.params.settings, job.input, folder, left, job.device)


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table of the datasets of all metric files."""
    from flatlab.lab.tables.runs import of_zoo

    if "networks" in settings:
        return study_networks.tabulate(parts, settings)
    return of_zoo(parts, settings["about"])
