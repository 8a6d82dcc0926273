"""The file of a zoo, `zoos/<zoo>.yaml`: networks that others designed, and often trained, by name.

Networks, their weights and their inputs come from timm; a zoo says which, and what is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.registry import PACKAGE, check_known
from flatlab.plan.schema import (
    SCALES,
    Adaptive,
    Key,
    PlanError,
    Strict,
    closest,
    convert,
    describe,
    refuse_unknown,
)

FOLDER = PACKAGE.parent / "zoos"


class Design(Strict, frozen=True):
    """A small network that is trained here."""

    name: Annotated[str, Meta(description="an architecture of timm")]
    size: Annotated[int, Meta(ge=1, description="height and width of its inputs, in pixels")]
    options: Annotated[dict[str, Any], Meta(description="what it is built with in timm")]
    seeds: Annotated[tuple[int, ...], Meta(min_length=1, description="a network each")] = (0,)


class Trained(Strict, frozen=True):
    """Networks that are trained here, one after the other, by Adam with cross-entropy."""

    data: Annotated[Key, Meta(description="a file of flatlab/data")]
    scaling: Annotated[Literal["unit", "standardized"], Meta(description="of the inputs")]
    steps: Annotated[int, Meta(ge=1, description="of the optimizer")]
    batch_size: Annotated[int, Meta(ge=1, description="samples per step")]
    lr: Annotated[float, Meta(gt=0, description="learning rate at the start; it falls to zero")]
    initialization: Annotated[
        Literal["timm", "xavier"],
        Meta(description="xavier: of linear layers, since timm's is that of wide networks"),
    ]
    networks: Annotated[list[Design], Meta(min_length=1, description="what is trained")]


class Pretrained(Strict, frozen=True):
    """Networks whose weights exist: <data_folder>/timm/<network>.safetensors, else timm's hub."""

    networks: Annotated[
        Literal["folder"] | list[str],
        Meta(description="names, or patterns such as *vit*; folder: every file in that folder"),
    ]
    images: Annotated[str, Meta(description="a folder of images by class in the data folder")]
    classes: Annotated[int, Meta(ge=1, description="networks with other outputs are left out")]
    size_at_most: Annotated[int, Meta(ge=1, description="in pixels; larger ones are left out")]


SECTIONS: dict[str, type[Strict]] = {
    "adaptive": Adaptive,
    "trained": Trained,
    "pretrained": Pretrained,
}


class Zoo(Strict, frozen=True):
    """A set of networks at one scale; each job takes every so manieth of them.

    name: what it is called at this scale, since a stand-in must not carry the paper's name.
    """

    key: str
    scale: str
    title: Annotated[str, Meta(description="what it is")]
    name: Annotated[Key, Meta(description="at this scale")]
    jobs: Annotated[int, Meta(ge=1, description="among which the networks are divided")]
    samples: Annotated[int, Meta(ge=2, description="images on which each network is measured")]
    seed: Annotated[int, Meta(ge=0, description="of the images and of all that is drawn")]
    adaptive: Annotated[Adaptive, Meta(description="how sharpness and sensitivity are estimated")]
    trained: Annotated[Trained | None, Meta(description="here, or")] = None
    pretrained: Annotated[Pretrained | None, Meta(description="elsewhere")] = None

    @property
    def parts(self) -> list[str]:
        """The keys of its jobs."""
        return [str(number) for number in range(self.jobs)]

    def members(self, part: str) -> Path:
        """Where the weights lie that a job has trained."""
        return Path("results", self.scale, "models", self.key, f"{part}.safetensors")

    def metrics(self, part: str) -> Path:
        """Where the file of a job lies."""
        return Path("results", self.scale, "metrics", self.key, "adaptive", f"{part}.zarr.zip")

    @property
    def about(self) -> str:
        """Its networks, in words."""
        if self.trained:
            names = {design.name for design in self.trained.networks}
            steps = f"{self.trained.steps:,} steps each"
            return f"{len(designs_of(self))} networks of {len(names)} architectures, {steps}"
        chosen = self.pretrained.networks if self.pretrained else []
        return f"pretrained networks: {chosen if isinstance(chosen, str) else ', '.join(chosen)}"

    @property
    def is_measured(self) -> bool:
        """Whether the files of all jobs are there."""
        return all(self.metrics(part).is_file() for part in self.parts)


def zoo_keys() -> list[str]:
    """All zoos."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_zoo(key: str, scale: str) -> Zoo:
    """Read and check a zoo's file; raise `PlanError` with the file and the key."""
    path = FOLDER / f"{key}.yaml"
    name = f"{FOLDER.name}/{path.name}"
    if not path.is_file():
        raise PlanError(f"unknown zoo {key!r}; {closest(key, zoo_keys())}")
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError:
        raise PlanError(f"{name}: not valid YAML") from None
    if not isinstance(content, dict):
        raise PlanError(f"{name}: expected keys and values, found {content!r}")
    scales = content.pop("scales", {})
    refuse_unknown(scales, SCALES, f"{name}: scales")
    if missing := [each for each in SCALES if each not in scales]:
        raise PlanError(f"{name}: scales: {missing[0]!r} is missing")
    changes = scales[scale]
    adaptive = {**content.get("adaptive", {}), **changes.get("adaptive", {})}
    content |= {**changes, "adaptive": adaptive, "key": key, "scale": scale}
    for section, kind in SECTIONS.items():  # one by one, so that a message has the closest key
        if content.get(section) is not None:
            convert(content[section], kind, f"{name}: {section}.")
    zoo: Zoo = convert(content, Zoo, f"{name}: ")
    if (zoo.trained is None) == (zoo.pretrained is None):
        raise PlanError(f"{name}: {scale}: give either trained or pretrained")
    if zoo.trained:
        check_known("data", zoo.trained.data, f"{name}: trained.data")
    return zoo


def members_settings(zoo: Zoo, part: str) -> dict[str, Any]:
    """What a job that trains members of a zoo depends on, beside its code and its data."""
    content = msgspec.to_builtins(zoo.trained)
    return {**content, "networks": designs_of(zoo)[int(part) :: zoo.jobs]}


def keys_of_zoos() -> dict[str, list[tuple[str, str, str]]]:
    """Every key that the file of a zoo may set, by section: key, allowed values, meaning."""
    kinds: dict[str, type[Strict]] = {"zoo": Zoo, **SECTIONS, "trained.networks": Design}
    sections = {name: describe(kind) for name, kind in kinds.items()}
    # what has no meaning of its own, the key and the scale, stands in no file
    return {name: [row for row in rows if row[2]] for name, rows in sections.items()}


def survey_settings(zoo: Zoo, part: str) -> dict[str, Any]:
    """What a job that measures a zoo depends on, beside its code, its data and the weights."""
    content = {
        key: msgspec.to_builtins(getattr(zoo, key)) for key in ("samples", "seed", "adaptive")
    }
    if zoo.trained:  # a job depends on its own networks alone
        members = members_settings(zoo, part)
        return {**content, "trained": {key: members[key] for key in ("scaling", "networks")}}
    pretrained = msgspec.to_builtins(zoo.pretrained)
    return {**content, "pretrained": pretrained, "jobs": zoo.jobs, "part": int(part)}


def designs_of(zoo: Zoo) -> list[dict[str, Any]]:
    """Each network that is trained here, with one seed."""
    designs = zoo.trained.networks if zoo.trained else []
    return [
        {**msgspec.to_builtins(design), "seeds": [seed]}
        for design in designs
        for seed in design.seeds
    ]


def gathering_settings(zoo: Zoo, published: Zoo) -> dict[str, Any]:
    """What the table of a zoo says of itself.  published: the zoo at the paper's scale."""
    return {
        "scale": zoo.scale,
        "study": zoo.name,
        "title": zoo.title,
        "data": zoo.trained.data if zoo.trained else str(zoo.pretrained and zoo.pretrained.images),
        "training": f"{zoo.trained.steps:,} steps each" if zoo.trained else "",
        "samples": zoo.samples,
        "stands_in_for": published.name if zoo.trained else "",
    }


def members_code() -> str:
    """What the members of a zoo are trained with."""
    return fingerprint("flatlab.zoos.members")


def survey_code() -> str:
    """What the networks of a zoo are measured with."""
    return fingerprint("flatlab.zoos.survey", "flatlab.metrics.adaptive")
