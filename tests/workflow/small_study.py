"""A study whose networks take no time, with a loop of its own, and with its runs as files."""

import shutil

from tests.workflow.lab import ROOT, Lab

KEYS = ("mine-loop", "mine-files")
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
from flatlab.lab.plan import Paper

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
LOOP = f"kind: networks\nfrom: function\ntrain: mine:train\nsettings: {{lr: [0.1, 0.5]}}\n{SHARED}"
FILES = f"kind: networks\nfrom: files\nfiles: checkpoints/*.safetensors\n{SHARED}"


def table(key):
    """The table of an experiment."""
    return f"results/demo/tables/{key}.zarr.zip"


def start(study, *arguments):
    """Start `flatlab build` in a study."""
    return study.start("build", *arguments, program="flatlab", PYTHONPATH=str(ROOT))


def built(folder, seeds):
    """The study with these seeds and two learning rates, after a build of both tables."""
    study = Lab(folder)
    (study / "experiments").mkdir(parents=True)
    (study / "checkpoints").mkdir()
    shutil.copy(ROOT / "flatlab/template/Snakefile", study / "Snakefile")
    shutil.copytree(ROOT / "profiles", study / "profiles")
    (study / "mine.py").write_text(MINE)
    (study / "figures.py").write_text(FIGURES)
    (study / "config.yaml").write_text("studies: [.]\npapers: [mine]\n")
    (study / "experiments/mine-loop.yaml").write_text(f"{LOOP}seeds: {seeds}\n")
    study.finish(start(study, table("mine-loop"), "--cores", "1"))
    for path in (study / "results/demo/models/mine-loop").glob("*.safetensors"):
        shutil.copy(path, study / "checkpoints")
    (study / "experiments/mine-files.yaml").write_text(FILES)
    study.finish(start(study, table("mine-files"), "--cores", "1"))
    return study


def unbuilt(study, folder):
    """The same study elsewhere, before anything was built."""
    made = shutil.ignore_patterns("results", ".snakemake", "logs", "notes", "__pycache__")
    shutil.copytree(study.folder, folder, ignore=made)
    return Lab(folder)
