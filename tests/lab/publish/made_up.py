"""A made-up folder of results: four experiments, their figures, and what is published of them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import xarray as xr

from flatlab.core import store
from flatlab.lab import plan
from tests.synthetic.verdicts import claim, verdicts, write_verdicts

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = Path("results/published/demo")
RECORDS = {"provenance.json", "benchmarks.json"}
EXPERIMENTS = ("mlp-grid", "lenet-grid", "representativeness", "small-zoo")
SCALE = {"name": "small-zoo", "grid": "lenet-grid"}
ZOO = {
    **{"kind": "zoo", "title": "The networks of a grid", "samples": 2, "seed": 0, "jobs": 2},
    "adaptive": {"outputs": "sigmoid", "rho": 0.1, "draws": 2, "drop_above": None},
    "scales": {"paper": SCALE, "short": SCALE, "demo": SCALE},
}


@dataclass(frozen=True)
class Figure:
    """What publishing needs to know of a figure, whose experiments share their panels."""

    target: str
    experiments: list[str]
    correlated: list[str] = field(default_factory=list)
    title: str = "made-up"
    declared = SimpleNamespace(by_experiment=False)
    code: str = "drawing"
    settings: dict[str, str] = field(default_factory=lambda: {"title": "made-up"})

    @property
    def paper(self):
        return self.target.partition("_")[0]

    @property
    def key(self):
        return self.target.partition("_")[2]


FIGURES = [
    Figure("chen2026_figH8", ["mlp-grid"], ["mlp-grid"]),
    Figure("chen2026_figH9", ["lenet-grid"], ["lenet-grid"]),
    Figure("chen2024_fig1", ["mlp-grid", "lenet-grid"]),
    Figure("petzka2021_fig3", ["representativeness"]),
    Figure("beyond_fig1", ["small-zoo"]),
]
TARGETS = [each.target for each in FIGURES]


def use_made_up(patch, papers):
    """Let this process know the made-up figures, and four experiments of the papers in a folder."""
    patch.setattr("flatlab.core.studies.PAPERS", papers)
    for module in ("plan", "plan.published"):
        patch.setattr(f"flatlab.lab.{module}.figures", lambda: FIGURES)
    for module in ("plan.plan", "plan.published"):
        patch.setattr(f"flatlab.lab.{module}.experiment_keys", lambda: list(EXPERIMENTS))


def figure(target):
    return next(each for each in FIGURES if each.target == target)


def chosen(**config):
    return plan.Plan(config)


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def make_table(*keys, value=0.0, place="results/demo"):
    """Made-up tables."""
    for key in keys:
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


def draw_anew(*targets, place=PUBLISHED, redrawn="results/redrawn/demo"):
    """What `snakemake published` does, with other pictures and verdicts."""

    def record(path, inputs, code, settings=None):
        made = {str(each): store.hash_of(each) for each in inputs}
        about = {"code": code, "settings": settings, "inputs": made}
        store.save_json(f"{redrawn}/{path}.provenance.json", about)

    draw(*targets, content=b"anew", place=redrawn, verdict="fails")
    for each in map(figure, targets):
        tables = [place / f"tables/{key}.zarr.zip" for key in each.experiments]
        matrices = [f"tables/{key}.correlations.zarr.zip" for key in each.correlated]
        for path in matrices:
            store.save_dataset(f"{redrawn}/{path}", xr.Dataset({"rho": 0.5}))
            record(path, tables, plan.correlations_code())
        inputs = [*tables, *(f"{redrawn}/{path}" for path in matrices)]
        for ending in ("pdf", "png", "csv"):
            record(f"figures/{each.paper}/{each.key}.{ending}", inputs, each.code, each.settings)
        record(f"verdicts/{each.paper}/{each.key}.json", tables, plan.claims_code(each.paper))


def compute(*keys, seconds=2.0):
    """The records of all jobs of experiments."""
    for experiment in map(chosen().experiment, keys):
        for pack in experiment.packs:
            jobs = {experiment.metrics(pack, f): experiment.measuring(pack, f)
                    for f in experiment.families}  # fmt: skip
            if stage := experiment.training(pack):
                jobs[experiment.weights(pack)["weights"]] = stage
            for path, job in jobs.items():
                about = {"code": job.code, "runtime_s": seconds, "machine": "x86", "gpu": 0}
                about |= {"device": "cpu", "versions": {}}
                write(f"{path}.provenance.json", json.dumps(about).encode())


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
