"""A zoo: networks by name, measured one by one with estimates that suit any architecture.

They are those of a `grid`, or `pretrained` elsewhere: networks of timm by name, or files that
others published. `jobs` says among how many jobs they are divided. Each family of quantities that
they are measured by has a section with its options: `adaptive`, `sharpness`, `accuracy`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field, structs

from flatlab.core.options import options_of, section
from flatlab.core.registry import joined, keys_of, module_of
from flatlab.core.schema import (
    REDUCED,
    STAND_IN,
    Key,
    PlanError,
    Strict,
    closest,
    convert,
    means,
    plain,
)
from flatlab.lab.kinds import Dataset, RunningJob
from flatlab.lab.kinds._evidence import evidence
from flatlab.lab.kinds._packs import Pack
from flatlab.lab.kinds._sections import Corrupted
from flatlab.lab.kinds.grid import Grid
from flatlab.lab.plan.experiments import Experiment, LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

CLEAN = "test"
"""The name of the test set that is not shifted."""


class Pretrained(Strict, frozen=True, kw_only=True):
    """Networks whose weights exist: <data_folder>/timm/<network>.safetensors, else timm's hub.

    With `layout` they are files of one folder that others published, nothing of which is fetched.
    """

    networks: Annotated[
        Literal["folder"] | list[str],
        means("names, or patterns such as *vit*; folder: every file in that folder"),
    ]
    layout: Annotated[
        Literal["timm", "torchvision", "clip", "bert"] | None,
        means("of published files; clip: OpenCLIP's image tower and a head, bert: Hugging Face's"),
    ] = None
    folder: Annotated[str, means("in the data folder, with the files")] = "timm"
    architecture: Annotated[str | None, means("of all files: its name in timm or torchvision")] = (
        None
    )
    described: Annotated[
        str | None, means("a file of JSON in that folder: hyper-parameters by network")
    ] = None
    images: Annotated[str, means("a folder of images by class in the data folder, or sentences")]
    labels: Annotated[list[str], means("of sentences: what the outputs stand for, in order")] = (
        field(default_factory=list)
    )
    classes: Annotated[int, means("networks with other outputs are left out", ge=1)]
    size_at_most: Annotated[int, means("in pixels; larger ones are left out", ge=1)] = 384

    def contradiction(self) -> tuple[str, str] | None:
        if self.layout in ("timm", "torchvision") and self.architecture is None:
            return "architecture", f"layout {self.layout} needs it; files do not say what they are"
        if (self.layout == "bert") != (len(self.labels) == self.classes):
            return "labels", "layout bert needs one for each of its classes, and nothing else does"
        return None


class TestSet(Strict, frozen=True):
    """A test set: corrupted images or a further part of a grid's data set, or files."""

    corrupted: Annotated[Corrupted | None, means("images of the test set, corrupted")] = None
    part: Annotated[Key | None, means("of the data set of a grid, besides train and test")] = None
    files: Annotated[str | None, means("a folder of images, or sentences, in the data folder")] = (
        None
    )
    where: Annotated[dict[str, str], means("only sentences with these values in their columns")] = (
        field(default_factory=dict)
    )

    def contradiction(self, of_files: bool = False) -> tuple[str, str] | None:
        named = [name for name in ("corrupted", "part", "files") if getattr(self, name) is not None]
        if len(named) != 1:
            return "", "give one of corrupted, part or files"
        if of_files != (named[0] == "files"):
            whose = "networks from elsewhere" if of_files else "networks of a grid"
            return "", f"{named[0]} is not for {whose}"
        return None


class ZooFile(Strict, frozen=True, kw_only=True):
    """The content of a zoo's file at one scale; each family of quantities adds a section."""

    title: Annotated[str, means("what it is")]
    name: Annotated[Key, means("what it is called at this scale: a stand-in has its own name")]
    jobs: Annotated[int, means("among which the networks are divided", ge=1)]
    samples: Annotated[int, means("images or sentences on which each network is measured", ge=2)]
    seed: Annotated[int, means("of the images and of all that is drawn", ge=0)]
    grid: Annotated[Key | None, means("the grid whose networks they are, or")] = None
    settings: Annotated[list[str] | None, means("only these settings of the grid")] = None
    pretrained: Annotated[Pretrained | None, means("networks from elsewhere")] = None
    test_sets: Annotated[
        dict[Key, TestSet], means("by name, for accuracy; those of a grid have its own as well")
    ] = field(default_factory=dict)
    hyperparameters: Annotated[
        dict[str, str],
        means(
            "coordinates of the table by name: a key of the grid, a key in `described`, or a "
            "regular expression with a group, for the names of files"
        ),
    ] = field(default_factory=dict)

    levels: Annotated[
        dict[str, list[str]],
        means("words in order, by coordinate, which then has their numbers from 0 on"),
    ] = field(default_factory=dict)

    def contradiction(self) -> tuple[str, str] | None:
        for name, chosen in self.test_sets.items():
            if wrong := chosen.contradiction(of_files=self.pretrained is not None):
                return f"test_sets.{name}", wrong[1]
            if self.grid is not None and name == CLEAN:
                return f"test_sets.{name}", "is that of the grid's data; choose another name"
        if self.settings is not None and self.grid is None:
            return "settings", "are those of a grid; leave it out"
        return None


class Zoo(Experiment, frozen=True, kw_only=True):
    """A set of networks at one scale.

    grid: whose networks they are, if they are trained here.
    options: those of each family that they are measured by.
    """

    file: ZooFile
    grid: Grid | None
    options: dict[str, dict[str, Any]]

    kind: ClassVar[str] = "zoo"

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        return {
            "zoo": ZooFile,
            **{name: options_of("metrics", name) for name in keys_of("metrics")},
            "pretrained": Pretrained,
            "test_sets.<name>": TestSet,
        }

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "Zoo":
        families = keys_of("metrics")
        source.check_keys([*ZooFile.__struct_fields__, *families])
        content = {key: source.value(key) for key in {**source.content, **source.override}}
        for name in (*families, "pretrained"):
            if content.get(name) is not None:  # one by one, so that a message has the closest key
                kind = Pretrained if name == "pretrained" else options_of("metrics", name)
                content[name] = plain(section(source.parts(name), kind)[0])
        options = {name: content.pop(name) for name in families if name in content}
        file: ZooFile = convert(content, ZooFile, source.location)
        if (file.grid is None) == (file.pretrained is None):
            raise PlanError(f"{source.name}: {source.scale}: give either grid or pretrained")
        if not options:
            raise PlanError(f"{source.name}: a section such as adaptive names what is measured")
        if "accuracy" in options and file.pretrained and CLEAN not in file.test_sets:
            where = source.location("test_sets")
            raise PlanError(f"{where}: accuracy needs the clean one, {CLEAN}")
        grid = find(file.grid, f"{source.location('grid')}: ") if file.grid else None
        if grid is not None and not isinstance(grid, Grid):
            raise PlanError(f"{source.location('grid')}: {grid.key} is no grid, it trains nothing")
        return cls(
            key=source.key,
            scale=source.scale,
            title=file.title,
            packs={str(number): number for number in range(file.jobs)},
            families=["+".join(options)],
            file=file,
            grid=_part_of(grid, file.settings, source.location("settings")),
            options=options,
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
        file = self.file
        settings = {"samples": file.samples, "seed": file.seed, "families": self.options}
        if file.test_sets:
            settings["test_sets"] = plain(file.test_sets)
        if file.hyperparameters:
            settings["hyperparameters"] = file.hyperparameters
            settings["levels"] = file.levels
        roots = ["flatlab.measuring.zoo", "flatlab.losses.cross_entropy"]
        roots += [module_of("metrics", name) for name in joined(family)]
        inputs: dict[str, str | list[str]] = {}
        if self.grid:
            chosen = self._networks(number)
            packs = {pack.key: pack for pack, _ in chosen}
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
                for pack, run in chosen
            ]
            used = dict.fromkeys(pack.network.name for pack in packs.values())
            roots += [module_of("networks", name) for name in used]
            if any(each.corrupted for each in file.test_sets.values()):
                roots.append("flatlab.data.corruptions.test_sets")
        else:
            pretrained = plain(self.file.pretrained)
            settings |= {"pretrained": pretrained, "jobs": self.file.jobs, "part": number}
            roots.append("flatlab.measuring.pretrained")
        code = fingerprint(*roots)
        return PlannedJob(inputs=inputs, settings=settings, code=code, gpu=True, kind=self.key)

    def tabulating(self, published: Experiment) -> PlannedJob:
        assert isinstance(published, Zoo)
        here, theirs = self.file.name, published.file.name
        pretrained = self.file.pretrained
        images, all_images = self.file.samples, published.file.samples
        differences = [(STAND_IN, f"{here} instead of {theirs}")] if here != theirs else []
        if images < all_images:
            differences.append((REDUCED, f"{images:,} images instead of {all_images:,}"))
        about = {
            **self.identity,
            "name": here,
            "data": pretrained.images if pretrained else " and ".join(self.data_sets),
            "training": self.grid.length if self.grid else "",
            "samples": self.file.samples,
            "stands_in_for": theirs if here != theirs else "",
            **evidence(*differences),
        }
        if self.file.test_sets:
            about["hyperparameters"] = list(self.file.hyperparameters)
        return PlannedJob(
            inputs={}, settings={"about": about}, code=fingerprint("flatlab.lab.tables.zoo")
        )

    @property
    def about(self) -> list[str]:
        if self.grid:
            networks = f"the {len(self.grid.runs)} networks of {self.grid.key}"
        elif pretrained := self.file.pretrained:
            names = pretrained.networks
            networks = f"pretrained networks: {names if names == 'folder' else ', '.join(names)}"
        return [f"{self.file.name}: {networks}", f"{self.file.jobs} jobs"]


def _part_of(grid: Grid | None, names: list[str] | None, location: str) -> Grid | None:
    """A grid with some of its settings alone."""
    if grid is None or names is None:
        return grid
    known = dict.fromkeys(pack.setting for pack in grid.packs.values())
    for name in names:
        if name not in known:
            raise PlanError(
                f"{location}: {grid.key} has no setting {name!r}; {closest(name, known)}"
            )
    chosen = {key: pack for key, pack in grid.packs.items() if pack.setting in names}
    return structs.replace(grid, packs=chosen)


def measure(job: RunningJob) -> Dataset:
    """Measure some of the networks, those that an earlier attempt has measured excepted."""
    from flatlab.core.resume_state import ResumeState
    from flatlab.lab.jobs.memory import quick_imports

    with quick_imports():
        from flatlab.data._dataset import folder_of
        from flatlab.measuring.zoo import measure_zoo

    folder = folder_of(job.config.get("data_folder"))
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = ResumeState(job.unfinished, identity)
    return measure_zoo(job.params.settings, job.input, folder, left, job.device)


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table of the datasets of all metric files."""
    from flatlab.lab.tables.zoo import gather

    return gather(parts, settings["about"])
