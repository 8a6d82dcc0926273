"""A small laboratory: a copy of the repository, in which tests run its own Snakefile.

It has one figure of two quantities, two families and one grid of two settings with two seeds
each: a complete run has thirteen short jobs. Whatever the repository gains, the lists of jobs that
the tests expect stay the same.

Most of the time goes into starting processes (Snakemake 2 s, a job that imports torch 3 s), so the
laboratory is built once and copied, a test asks several questions of one run, and a dry run answers
what is about the plan alone.
"""

import compileall
import fcntl
import os
import re
import shutil

import pytest

from tests.workflow.lab import ROOT, Lab

SOURCES = (
    *("Snakefile", "config.yaml", "rules", "scripts", "flatlab", "profiles", "report", "envs"),
    "papers",
)

KEPT = {
    "flatlab/families/[a-z]*.py": {"accuracy.py", "geometry.py"},
    "papers/*/families/*.py": set(),
    "papers/*/experiments/*.yaml": {"mlp-grid.yaml"},
}


def _make_small(grid):
    grid["settings"] = [{"lr": 0.05, "batch_size": 20}, {"lr": 0.1, "batch_size": 20}]
    grid["seeds"] = ["0-1"]
    grid["measure"]["samples"]["train"]["size"] = 5
    grid["measure"]["families"] = ["accuracy", "geometry"]
    grid["checkpoints"] = {"dense": "none", "seeds": "all"}
    demo = grid["scales"]["demo"]
    demo.pop("seeds", None)
    demo.pop("checkpoints", None)
    demo["training"]["iterations"] = 100
    demo["measure"] = {"diverged_below": 0}


def _substitute(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count == 1, f"{path} has changed: {pattern} is there {count} times"
    path.write_text(text)


@pytest.fixture(scope="session")
def built_once(tmp_path_factory):
    """Let one of the test processes build a folder; the others wait for it and share it."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent

    def build(name, make):
        folder, ready = place / name, place / f"{name}.ready"
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                shutil.rmtree(folder, ignore_errors=True)
                make(folder)
                ready.touch()
        return folder

    return build


def _make_sources(folder):
    lab = Lab(folder)
    for name in SOURCES:
        source, place = ROOT / name, lab / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        else:
            shutil.copy2(source, place)
    for pattern, kept in KEPT.items():
        for path in lab.folder.glob(pattern):
            if path.name not in kept:
                path.unlink()
    lab.rewrite_grid(_make_small)
    for path in lab.folder.glob("papers/*/figures.py"):
        lab.declare(path.parent.name)
    lab.declare("chen2026", "figH8")
    _substitute(lab / "flatlab/lab/figures/render.py", r'"pdf.fonttype": 42', '"pdf.fonttype": 3')
    compileall.compile_dir(folder / "flatlab", quiet=1)  # once, not in each copy


@pytest.fixture(scope="session")
def sources(built_once):
    """The laboratory before its first run; not to be changed. All test processes share it."""
    return Lab(built_once("sources", _make_sources))


@pytest.fixture(scope="session")
def completed(sources, built_once):
    """The laboratory after one complete run; not to be changed. All test processes share it."""

    def make(folder):
        sources.copy(folder).snakemake("--cores", "2")

    return Lab(built_once("completed", make))


@pytest.fixture
def lab(completed, tmp_path):
    """A copy of the completed laboratory, to be changed."""
    copy = completed.copy(tmp_path / "lab")
    yield copy
    copy.stop()


@pytest.fixture
def fresh(sources, tmp_path):
    """A laboratory without any results, to be changed."""
    copy = sources.copy(tmp_path / "lab")
    yield copy
    copy.stop()
