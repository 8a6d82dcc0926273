"""A made-up folder of results: four experiments, their figures, and what is published of them."""

import json
from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.core import store
from flatlab.lab import plan
from tests.synthetic.verdicts import claim, verdicts, write_verdicts

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = Path("results/published/demo")
RECORDS = {"provenance.json", "benchmarks.json"}
EXPERIMENTS = ("mlp-grid", "vgg-grid", "representativeness", "vision-zoo")
TARGETS = {
    "chen2026_fig5": ["vision-zoo"],  # which measures the networks of vision-grid
    "chen2026_figH7": ["vgg-grid"],
    "chen2026_figH8": ["mlp-grid"],
    "petzka2021_fig4": ["representativeness"],
    "beyond_fig3": ["mlp-grid", "vgg-grid"],
}
"""The experiments of each figure."""
FIGURES = [each for each in plan.figures() if each.target in TARGETS]
PACK, OTHER = "lr0.1-b20-s0-4", "lr0.1-b20-s5-19"
"""Packs of mlp-grid that are measured."""


def chosen(**config):
    return plan.Plan(config)


def make_table(*keys, value=1.0, place="results/demo"):
    """Made-up tables."""
    for key in keys:
        values = xr.Dataset({"x": ("run", np.full(3, value))}, attrs={"experiment": key})
        store.save_dataset(f"{place}/tables/{key}.zarr.zip", values)


def measure(experiment, pack, value):
    for family in experiment.families:
        dataset = xr.Dataset({"x": ("run", np.full(3, value))})
        store.save_dataset(experiment.metrics(pack, family), dataset)


def draw(*targets, content=b"drawn", place="results/demo", verdict="holds"):
    for target in targets:
        for ending in ("png", "csv", "svg", "txt"):
            head = b"quantity\n" if ending == "csv" else b""
            path = plan.ResultsFolder(Path(place)).figure(*target.split("_"), ending)
            store.replace(path, head + content + ending.encode())
        judged = verdicts(target, claim(f"{target}/c1", verdict, "stand-in"))
        judged["tables"] = {key: judged["tables"]["mlp-grid"] for key in TARGETS[target]}
        write_verdicts(place, judged)


def draw_anew(*targets, scale="demo"):
    """What `snakemake published` does, with other pictures and verdicts."""
    published, redrawn = plan.published_at(scale), plan.redrawn_at(scale)

    def record(path, inputs, code, settings=None):
        made = {str(each): store.hash_of(each) for each in inputs}
        about = {"code": code, "settings": settings, "inputs": made}
        store.save_json(plan.record_of(path), about)

    draw(*targets, content=b"anew", place=redrawn.folder, verdict="fails")
    for each in (figure for figure in FIGURES if figure.target in targets):
        tables = [published.table(key) for key in each.experiments]
        matrices = [redrawn.correlations(key) for key in each.correlated]
        for path in matrices:
            store.save_dataset(path, xr.Dataset({"rho": 0.5}))
            record(path, tables, plan.correlations_code())
        for ending in ("png", "csv", "txt"):
            path = redrawn.figure(each.paper, each.key, ending)
            record(path, [*tables, *matrices], each.code, each.settings)
        record(redrawn.verdicts(each.paper, each.key), tables, plan.claims_code(each.paper))


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
                store.replace(plan.record_of(path), json.dumps(about).encode())


def files(folder="results/published"):
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def changed_since(before, scale="demo"):
    """The names of published files of a scale that are new, gone or others."""
    after = files()
    names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    return {name.removeprefix(f"{scale}/") for name in names}


def names_of(*targets):
    stems = [target.replace("_", "/") for target in targets]
    pictures = {f"figures/{stem}.{end}" for stem in stems for end in ("png", "csv", "txt")}
    return pictures | {f"verdicts/{stem}.json" for stem in stems}


def tables_of(*keys):
    return {f"tables/{key}.zarr.zip" for key in keys}
