"""Configuration and grids -> typed, immutable records: what is to be trained, measured and drawn.

Needs the standard library, yaml and msgspec; rules import this package and nothing else of flatlab.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flatlab.plan.figures import Figure, figures, papers, targets, why_not
from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.gridfile import SECTIONS, find_grid, load_grid
from flatlab.plan.grids import Grid, Pack
from flatlab.plan.jobs import (
    measure_code,
    measure_settings,
    study_code,
    study_settings,
    table_settings,
    train_code,
    train_settings,
)
from flatlab.plan.published import (
    PUBLISHED,
    outdated,
    published_figures,
    published_scales,
)
from flatlab.plan.registry import OWN_IMAGES, check_known, keys_of, module_of
from flatlab.plan.schema import (
    SCALES,
    Config,
    Dense,
    LogUniform,
    PlanError,
    Samples,
    Stop,
    Strict,
    closest,
    convert,
    describe,
)
from flatlab.plan.templates import (
    Curves,
    Forest,
    Heatmap,
    Own,
    Pairs,
    Paper,
    Scatter,
    Table,
)
from flatlab.plan.zoos import (
    Zoo,
    gathering_settings,
    keys_of_zoos,
    load_zoo,
    members_code,
    members_settings,
    survey_code,
    survey_settings,
    zoo_keys,
)

__all__ = [
    "PUBLISHED",
    "SCALES",
    "Config",
    "Curves",
    "Figure",
    "Forest",
    "Grid",
    "Heatmap",
    "Own",
    "Pack",
    "Pairs",
    "Paper",
    "Plan",
    "PlanError",
    "Scatter",
    "Table",
    "Zoo",
    "closest",
    "figures",
    "fingerprint",
    "gathering_settings",
    "grid_keys",
    "keys_of",
    "keys_of_zoos",
    "load_config",
    "load_zoo",
    "measure_code",
    "measure_settings",
    "members_code",
    "members_settings",
    "module_of",
    "outdated",
    "papers",
    "published_figures",
    "published_scales",
    "record_start",
    "set_job_environment",
    "study_code",
    "study_settings",
    "survey_code",
    "survey_settings",
    "table_settings",
    "targets",
    "train_code",
    "train_settings",
    "why_not",
    "zoo_keys",
]


def load_config(mapping: Mapping[str, Any], name: str = "config.yaml") -> Config:
    """Check a configuration; raise `PlanError` with the file and the key."""
    config = convert(mapping, Config, f"{name}: ")
    known = sorted(papers())
    for paper in [] if isinstance(config.papers, str) else config.papers:
        if paper not in known:
            raise PlanError(f"{name}: papers: unknown paper {paper!r}; {closest(paper, known)}")
    for key in (key for pair in config.stand_ins.items() for key in pair):
        check_known("data", key, f"{name}: stand_ins")
    return config


def grid_keys() -> dict[str, list[tuple[str, str, str]]]:
    """Every key of a grid's sections: key, allowed values, meaning."""
    inner: dict[str, type[Strict]] = {
        "training.lr": LogUniform,
        "training.stop": Stop,
        "checkpoints.dense": Dense,
        "measure.samples.<name>": Samples,
    }
    return {name: describe(kind) for name, kind in {**SECTIONS, **inner}.items()}


def set_job_environment(folder: str) -> None:
    """Make the jobs of this process import flatlab from `folder` and use one thread each.

    The number of threads changes the last bits of a result; parallelism comes from jobs.
    """
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    ours, path = str(Path(folder, "profiles", "slurm", "bin")), os.environ.get("PATH", "")
    if shutil.which("sbatch") and ours not in path.split(os.pathsep):
        os.environ["PATH"] = f"{ours}{os.pathsep}{path}"  # status commands that do not give up


def record_start() -> None:
    """Leave the machine and the process of this run, for `profiles/slurm/resume`."""
    Path(".snakemake", "started").write_text(f"{platform.node()} {os.getpid()}\n")


def _size(count: int) -> str:
    """Bytes, for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.3g} GB"


class Plan:
    """Everything that a configuration asks for.

    config: the checked configuration.  figures: those of the papers that it names.
    folder: where the grids lie.  grids: all of them, at the scale of the configuration.
    """

    def __init__(self, config: Mapping[str, Any], folder: Path, name: str = "config.yaml") -> None:
        self.config = load_config(config, name)
        self.folder = folder
        chosen = self.config.papers
        paths = sorted(folder.glob("*.yaml"))
        # All files at once, so that a mistake is one sentence before anything runs.
        self.grids = [self.grid(path.stem, self.config.scale) for path in paths]
        self._as_published = {path.stem: load_grid(path, "paper") for path in paths}
        zoos = [load_zoo(key, self.config.scale) for key in zoo_keys()]
        for key in {grid.key for grid in self.grids} & {*keys_of("simulations"), *zoo_keys()}:
            raise PlanError(f"grids/{key}.yaml: a study or zoo has this key; tables would clash")
        there = {grid.key for grid in self.grids if grid.packs}
        there |= {zoo.key for zoo in zoos if self.config.packs == "all" or zoo.is_measured}
        there |= {*keys_of("simulations")}
        self.figures = [
            f
            for f in figures()
            if (isinstance(chosen, str) or f.paper in chosen) and there.issuperset(f.experiments)
        ]
        if not self.figures:
            raise PlanError(
                f"{name}: packs: none of a figure is measured at scale {self.config.scale}; "
                "`all` trains them"
            )

    @functools.cache  # noqa: B019 - a plan lives as long as its process
    def grid(self, key: str, scale: str) -> Grid:
        """One grid at one scale, with the data and the packs that the configuration wants."""
        grid = load_grid(find_grid(self.folder, key), scale)
        packs = {key: self._with_stand_in(pack) for key, pack in grid.packs.items()}
        grid = replace(grid, packs=packs)
        partly = self.config.packs == "measured" and scale == self.config.scale
        return grid.measured() if partly else grid

    def _with_stand_in(self, pack: Pack) -> Pack:
        stand_in = self.config.stand_ins.get(pack.data.set, pack.data.set)
        return replace(pack, data=replace(pack.data, set=stand_in))

    def as_published(self, key: str) -> Grid:
        """One grid as the paper has it, which all else stands in for."""
        return self._as_published[key]

    @property
    def shares_results(self) -> bool:
        """Whether a cache is named, and all data are known by their names alone."""
        own = {name for grid in self.grids for name in grid.data_sets} & set(OWN_IMAGES)
        return bool(os.environ.get("SNAKEMAKE_OUTPUT_CACHE")) and not own

    @property
    def disk_use(self) -> str:
        """What the weights of all grids take on disk, about, in words."""
        lines = ["Weights on disk once a grid is trained, about:"]
        if self.config.packs == "measured":
            lines = ["Packs that are measured, and no others; weights on disk, about:"]
        for grid in self.grids:
            end, dense = grid.bytes_at_the_end, grid.bytes_of_dense_checkpoints
            line = f"  {grid.key}: {_size(end)} at the end of training"
            if grid.left_out:
                line += f", {grid.left_out} networks left out"
            if dense:
                fate = "kept" if grid.keeps_dense_checkpoints else "deleted when measured"
                line += f", {_size(dense)} of dense checkpoints, {fate}"
            lines.append(line)
        return "\n".join(lines)

    @functools.cached_property
    def papers(self) -> dict[str, list[Figure]]:
        """The figures by paper."""
        result: dict[str, list[Figure]] = {}
        for figure in self.figures:
            result.setdefault(figure.paper, []).append(figure)
        return result
