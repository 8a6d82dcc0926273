"""A zoo: networks by name, measured one by one with estimates that suit any architecture.

They are those of a `grid`, or `pretrained` elsewhere: networks of timm whose weights lie in files
or on timm's hub. `jobs` says among how many jobs they are divided.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from flatlab.experiments._evidence import evidence
from flatlab.experiments._packs import Pack
from flatlab.experiments.grid import Grid
from flatlab.plan.experiments import Experiment, Find, Source, Stage
from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.options import options_of, section
from flatlab.plan.registry import module_of
from flatlab.plan.schema import REDUCED, STAND_IN, Key, PlanError, Strict, convert, means, plain

FAMILY = "adaptive"
"""The family of quantities that a zoo is measured by."""


class Pretrained(Strict, frozen=True):
    """Networks whose weights exist: <data_folder>/timm/<network>.safetensors, else timm's hub."""

    networks: Annotated[
        Literal["folder"] | list[str],
        means("names, or patterns such as *vit*; folder: every file in that folder"),
    ]
    images: Annotated[str, means("a folder of images by class in the data folder")]
    classes: Annotated[int, means("networks with other outputs are left out", ge=1)]
    size_at_most: Annotated[int, means("in pixels; larger ones are left out", ge=1)]


class ZooFile(Strict, frozen=True):
    """The content of a zoo's file at one scale."""

    title: Annotated[str, means("what it is")]
    name: Annotated[Key, means("what it is called at this scale: a stand-in has its own name")]
    jobs: Annotated[int, means("among which the networks are divided", ge=1)]
    samples: Annotated[int, means("images on which each network is measured", ge=2)]
    seed: Annotated[int, means("of the images and of all that is drawn", ge=0)]
    adaptive: Annotated[dict[str, Any], means("how sharpness and sensitivity are estimated")]
    grid: Annotated[Key | None, means("the grid whose networks they are, or")] = None
    pretrained: Annotated[Pretrained | None, means("networks from elsewhere")] = None


class Zoo(Experiment, frozen=True, kw_only=True):
    """A set of networks at one scale.  grid: whose networks they are, if they are trained here."""

    file: ZooFile
    grid: Grid | None

    kind: ClassVar[str] = "zoo"
    sections: ClassVar[dict[str, type[Strict]]] = {
        "zoo": ZooFile,
        FAMILY: options_of("metrics", FAMILY),
        "pretrained": Pretrained,
    }

    @classmethod
    def load(cls, source: Source, find: Find) -> "Zoo":
        """Read and check a zoo's file.  find: returns the grid that it names."""
        source.check_keys(list(ZooFile.__struct_fields__))
        content = {key: source.value(key) for key in {**source.content, **source.override}}
        for name in (FAMILY, "pretrained"):
            if content.get(name) is not None:  # one by one, so that a message has the closest key
                content[name] = plain(section(source.parts(name), cls.sections[name])[0])
        file: ZooFile = convert(content, ZooFile, source.place)
        if (file.grid is None) == (file.pretrained is None):
            raise PlanError(f"{source.name}: {source.scale}: give either grid or pretrained")
        grid = find(file.grid, f"{source.place('grid')}: ") if file.grid else None
        if grid is not None and not isinstance(grid, Grid):
            raise PlanError(f"{source.place('grid')}: {grid.key} is no grid, it trains nothing")
        return cls(
            key=source.key,
            scale=source.scale,
            title=file.title,
            packs={str(number): number for number in range(file.jobs)},
            families=[FAMILY],
            file=file,
            grid=grid,
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

    def measuring(self, pack: str, family: str) -> Stage:
        """The job that measures the networks of a pack."""
        number = self.pack(pack)
        file = self.file
        settings = {"samples": file.samples, "seed": file.seed, FAMILY: file.adaptive}
        roots = ["flatlab.metrics", "flatlab.metrics._survey", module_of("metrics", FAMILY)]
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
                }
                for pack, run in chosen
            ]
            used = dict.fromkeys(pack.network.name for pack in packs.values())
            roots += [module_of("networks", name) for name in used]
        else:
            pretrained = plain(self.file.pretrained)
            settings |= {"pretrained": pretrained, "jobs": self.file.jobs, "part": number}
        code = fingerprint(*roots)
        return Stage(inputs=inputs, settings=settings, code=code, gpu=True, kind=self.key)

    def tabulating(self, published: Experiment) -> Stage:
        """The job that joins the metric files.  published: the zoo of the paper."""
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
        return Stage(inputs={}, settings={"about": about}, code=fingerprint("flatlab.tables.zoo"))

    @staticmethod
    def measure(job: Any) -> Any:
        from flatlab import data
        from flatlab.jobs import Unfinished
        from flatlab.metrics import _survey

        folder = data.folder_of(job.config.get("data_folder"))
        identity = {"settings": job.params.settings, "code": job.params.code}
        left = Unfinished(job.unfinished, identity)
        return _survey.survey(job.params.settings, job.input, folder, left, job.device)

    @staticmethod
    def tabulate(parts: list[Any], settings: Mapping[str, Any]) -> Any:
        from flatlab.tables.zoo import gather

        return gather(parts, settings["about"])

    @property
    def about(self) -> list[str]:
        if self.grid:
            networks = f"the {len(self.grid.runs)} networks of {self.grid.key}"
        elif pretrained := self.file.pretrained:
            names = pretrained.networks
            networks = f"pretrained networks: {names if names == 'folder' else ', '.join(names)}"
        return [f"{self.file.name}: {networks}", f"{self.file.jobs} jobs"]
