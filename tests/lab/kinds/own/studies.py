"""A study in the working folder, for tests of its experiments."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import xarray as xr
import yaml

from flatlab.core import store
from flatlab.lab import plan

CACHED = ("fingerprint", "_content", "closure", "_imports")


def forget() -> None:
    """Files are read anew, as in a new process."""
    for name in [n for n in sys.modules if "papers.mine" in n or n in ("mine", "helpers")]:
        del sys.modules[name]
    for cached in CACHED:
        getattr(importlib.import_module("flatlab.lab.plan.fingerprint"), cached).cache_clear()
    registry = importlib.import_module("flatlab.core.registry")
    registry.syntax.cache_clear()
    registry.assignments.cache_clear()


def declare(name: str, content: dict) -> None:
    """Write an experiment, the same at each scale."""
    scales = {"scales": {"demo": {}, "short": {}, "paper": {}}}
    Path("experiments", f"{name}.yaml").write_text(yaml.safe_dump({**content, **scales}))
    forget()


def planned() -> plan.Plan:
    """The plan of the study in the working folder, whose key is `mine`."""
    return plan.Plan({"studies": ["."], "papers": ["mine"]})


def table_of(key: str) -> xr.Dataset:
    """The table of an experiment whose metric files are there."""
    chosen = planned()
    experiment = chosen.experiment(key)
    parts = [store.load_dataset(path) for path in experiment.metric_files]
    settings = experiment.tabulating(chosen.as_published(key)).settings
    return importlib.import_module(f"flatlab.lab.execution.{experiment.kind}").tabulate(
        parts, settings
    )
