"""A study whose build is killed goes on: what was finished stays, the end has the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import time

import pytest

from tests.workflow.lab import ROOT, Lab

pytestmark = [pytest.mark.workflow, pytest.mark.long]

PATIENCE_S = 120
MINE = """
import pathlib
import time

import torch
from torch import nn


def noted(what):
    \"\"\"Note a call; the one that the file `hold` names waits to be killed.\"\"\"
    with pathlib.Path("notes").open("a") as file:
        file.write(f"{what}\\n")
    count = pathlib.Path("notes").read_text().split().count(what)
    while pathlib.Path("hold").exists() and pathlib.Path("hold").read_text() == f"{what} {count}":
        time.sleep(0.01)


def build():
    noted("measure")
    return nn.Linear(6, 3)


def data():
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    return x, x[:, :3].argmax(1)


def train(lr, seed):
    noted("train")
    torch.manual_seed(seed)
    model, (x, y) = nn.Linear(6, 3), data()
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(x), y)
        with torch.no_grad():
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, [*model.parameters()])):
                p -= lr * g
    return model.state_dict(), {"my_score": lr + seed}
"""
FIGURES = """
from flatlab.plan import Paper

PAPER = Paper(title="Mine", citation="mine", cited="Mine")
FIGURES = {}
"""
SHARED = """
title: Mine
model: mine:build
data: mine:data
measure: {families: [geometry], samples: 8}
scales: {demo: {}, short: {}, paper: {}}
"""
LOOP = f"kind: loop\ntrain: mine:train\nsettings: {{lr: [0.1, 0.5]}}\nseeds: [0-1]\n{SHARED}"
FILES = f"kind: files\nfiles: checkpoints/*.safetensors\n{SHARED}"
RUNS = ("lr0.1-s0", "lr0.1-s1", "lr0.5-s0", "lr0.5-s1")


def build(study: Lab, key: str):
    """Start `flatlab build` of an experiment's table."""
    target = f"results/demo/tables/{key}.zarr.zip"
    arguments = ("build", target, "--cores", "1")
    return study.start(*arguments, program="flatlab", PYTHONPATH=str(ROOT))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Lab:
    """A study with a loop, and with its runs as files from elsewhere, after a build of both."""
    study = Lab(tmp_path_factory.mktemp("undisturbed") / "mine")
    (study / "experiments").mkdir(parents=True)
    (study / "checkpoints").mkdir()
    shutil.copy(ROOT / "flatlab/template/Snakefile", study / "Snakefile")
    shutil.copytree(ROOT / "profiles/default", study / "profiles/default")
    (study / "mine.py").write_text(MINE)
    (study / "figures.py").write_text(FIGURES)
    (study / "config.yaml").write_text("studies: [.]\npapers: [mine]\n")
    (study / "experiments/mine-loop.yaml").write_text(LOOP)
    study.finish(build(study, "mine-loop"))
    for run in RUNS:
        shutil.copy(
            study / f"results/demo/models/mine-loop/{run}.safetensors", study / "checkpoints"
        )
    (study / "experiments/mine-files.yaml").write_text(FILES)
    study.finish(build(study, "mine-files"))
    return study


@pytest.fixture
def study(undisturbed, tmp_path):
    """The same before anything was built."""
    unbuilt = shutil.ignore_patterns("results", ".snakemake", "logs", "notes", "__pycache__")
    shutil.copytree(undisturbed.folder, tmp_path / "mine", ignore=unbuilt)
    study = Lab(tmp_path / "mine")
    yield study
    study.stop()


@pytest.mark.parametrize(
    ("key", "call"),
    [("mine-loop", "train 3"), ("mine-loop", "measure 2"), ("mine-files", "measure 3")],
)
def test_a_killed_build_goes_on_to_the_same_bytes(undisturbed, study, key, call):
    (study / "hold").write_text(call)
    run = build(study, key)
    what, count = call.split()
    deadline = time.monotonic() + PATIENCE_S
    while not held(study, what, int(count)):
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    (study / "hold").unlink()
    made = {path: (study / path).stat().st_mtime_ns for path in results(study)}
    half = unfinished(study)
    wanted = [path for path in results(undisturbed) if key in path]
    assert half in wanted
    assert 0 < len(made) < len(wanted)
    # What a file system leaves of a file whose end it had not written yet.
    (study / half).write_bytes((undisturbed / half).read_bytes()[:-40])
    assert "Directory cannot be locked" in study.finish(build(study, key), succeeds=False).output
    study.finish(study.start("build", "--unlock", program="flatlab", PYTHONPATH=str(ROOT)))
    again = study.finish(build(study, key))
    assert len(again.jobs) == len(wanted) - len(made)
    for path, date in made.items():
        assert (study / path).stat().st_mtime_ns == date, path
    expected = {path: content for path, content in undisturbed.results().items() if key in path}
    assert study.results() == expected
    assert notes(study, "train") == (len(RUNS) + (what == "train")) * (key == "mine-loop")
    assert notes(study, "measure") == len(RUNS) + (what == "measure")


def notes(study: Lab, what: str) -> int:
    """How often a function of the study was called."""
    return (study / "notes").read_text().split().count(what) if (study / "notes").exists() else 0


def held(study: Lab, what: str, count: int) -> bool:
    """Whether the call that waits to be killed has begun."""
    return notes(study, what) == count


def results(study: Lab) -> list[str]:
    """The files of results."""
    return [path for path in study.results() if path.endswith((".zarr.zip", ".safetensors"))]


def unfinished(study: Lab) -> str:
    """The output of the job that was killed: its lock lies beside it."""
    (lock,) = (study / "results").rglob("*.lock")
    return lock.relative_to(study.folder).as_posix().removesuffix(".lock")
