"""What is not needed is not imported: planning is quick, and only training and measuring wait."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from flatlab.lab.plan import keys_of

LIGHT = ["flatlab.core.store", "flatlab.lab.tables.runs", "flatlab.lab.tables.networks"]
LIGHT += ["flatlab.stats", "flatlab.lab.figures", "flatlab.lab.figures.matrix"]
LIGHT += ["flatlab.lab.plan", "flatlab.lab.claims"]
LIGHT += ["flatlab.simulations.representativeness", "flatlab.simulations.locally_constant_labels"]
LIGHT += ["flatlab.papers.chen2026.claims", "flatlab.cli", "flatlab.data", "flatlab.data.digits"]
LIGHT += [f"flatlab.cli.{key}" for key in keys_of("cli")]


def loaded_after_importing(*modules, then=""):
    """The top-level packages that a new process has loaded."""
    code = f"import sys, {', '.join(modules)}\n{then}\n"
    code += "print(*{m.partition('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_planning_needs_neither_numbers_nor_pictures_nor_snakemake():
    heavy = {"numpy", "matplotlib", "xarray", "snakemake", "pandas", "scipy", "zarr", "torch"}
    then = "flatlab.lab.plan.Plan({'scale': 'paper'}); flatlab.lab.plan.keys_of_kinds()"
    loaded = loaded_after_importing("flatlab.lab.plan", then=then)
    assert "flatlab" in loaded
    assert not loaded & heavy


@pytest.mark.more
def test_storing_drawing_and_verifying_do_not_need_torch():
    loaded = loaded_after_importing(*filter(importlib.util.find_spec, LIGHT))
    assert {"flatlab", "numpy", "xarray"} <= loaded
    assert not loaded & {"torch", "torchvision", "snakemake", "matplotlib", "seaborn"}


@pytest.mark.more
@pytest.mark.parametrize("module", ["flatlab.lab.train", "flatlab.families"])
def test_training_and_measuring_do_not_need_pictures(module):
    """And the check above sees torch where it is."""
    loaded = loaded_after_importing(module)
    assert "torch" in loaded
    assert not loaded & {"matplotlib", "seaborn", "snakemake", "torchvision"}
