"""A made-up folder of results: two experiments, their figures, and what is published of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.core import store
from flatlab.lab import plan
from tests.synthetic.verdicts import claim, verdicts, write_verdicts

ROOT = Path(__file__).resolve().parents[3]


PUBLISHED = Path("results/published/demo")


SCALE = {"name": "small-zoo", "grid": "lenet-grid"}


ZOO = {
    "kind": "zoo",
    "title": "The networks of a grid",
    "samples": 2,
    "seed": 0,
    "jobs": 2,
    "adaptive": {"outputs": "sigmoid", "rho": 0.1, "draws": 2, "drop_above": None},
    "scales": {"paper": SCALE, "short": SCALE, "demo": SCALE},
}


@dataclass(frozen=True)
class Whole:
    """A declaration whose experiments share their panels."""

    by_experiment: bool = False


@dataclass(frozen=True)
class Figure:
    """What publishing needs to know of a figure."""

    target: str
    experiments: list[str]
    correlated: list[str] = field(default_factory=list)
    title: str = "made-up"
    declared: Whole = Whole()
    code: str = "drawing"
    settings: dict[str, str] = field(default_factory=lambda: {"title": "made-up"})

    @property
    def paper(self) -> str:
        return self.target.partition("_")[0]

    @property
    def key(self) -> str:
        return self.target.partition("_")[2]


FIGURES = [
    Figure("chen2026_figH8", ["mlp-grid"], ["mlp-grid"]),
    Figure("chen2026_figH9", ["lenet-grid"], ["lenet-grid"]),
    Figure("chen2024_fig1", ["mlp-grid", "lenet-grid"]),
    Figure("petzka2021_fig3", ["representativeness"]),
    Figure("beyond_fig1", ["small-zoo"]),
]


EXPERIMENTS = ("mlp-grid", "lenet-grid", "representativeness", "small-zoo")


OTHERS = [each.target for each in FIGURES if "representativeness" not in each.experiments]


def figure(target):
    return next(each for each in FIGURES if each.target == target)


def chosen(**config):
    return plan.Plan(config, Path("experiments"))


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def make_table(key, value=0.0, place="results/demo"):
    """A made-up table."""
    values = xr.Dataset({"x": ("run", np.full(3, value))}, attrs={"experiment": key})
    store.save_dataset(f"{place}/tables/{key}.zarr.zip", values)


def draw(*targets, content=b"drawn", place="results/demo", verdict="holds"):
    for each in map(figure, targets):
        stem = f"{each.paper}/{each.key}"
        for ending in ("pdf", "png", "csv", "svg"):
            head = b"quantity\n" if ending == "csv" else b""
            write(f"{place}/figures/{stem}.{ending}", head + content + ending.encode())
        judged = verdicts(each.target, claim(f"{each.target}/c1", verdict, "stand-in"))
        judged["tables"] = {key: judged["tables"]["mlp-grid"] for key in each.experiments}
        write_verdicts(place, judged)


def record(path, code, seconds=2.0, **more):
    about = {"code": code, "runtime_s": seconds, "machine": "x86", "gpu": 0, "device": "cpu"}
    write(f"{path}.provenance.json", json.dumps({**about, "versions": {}, **more}).encode())


def compute(key, seconds=2.0):
    """The records of all jobs of an experiment."""
    experiment = chosen().experiment(key)
    for pack in experiment.packs:
        if stage := experiment.training(pack):
            record(experiment.weights(pack)["weights"], stage.code, seconds)
        for family in experiment.families:
            path = experiment.metrics(pack, family)
            record(path, experiment.measuring(pack, family).code, seconds)


def snapshot():
    """All that publishing may touch."""
    files = Path("results/published").rglob("*")
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def changed_since(before):
    after = snapshot()
    return {
        path.removeprefix(f"{PUBLISHED}/")
        for path in {*before, *after}
        if before.get(path) != after.get(path)
    }


def names_of(*targets):
    stems = [f"{each.paper}/{each.key}" for each in map(figure, targets)]
    pictures = {f"figures/{stem}.{end}" for stem in stems for end in ("pdf", "png", "csv")}
    return pictures | {f"verdicts/{stem}.json" for stem in stems}


def tables_of(*keys):
    return {f"tables/{key}.zarr.zip" for key in keys}


RECORDS = {"provenance.json", "benchmarks.json"}
