"""What transcripts.yaml writes before a command of flatlab: each function here is such a word.

The first argument is pytest's request, others are the words behind.
"""

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import psutil
import torch
import xarray as xr
import yaml
from safetensors.torch import save_file

from flatlab.cli import doctor
from flatlab.core import store
from flatlab.lab import plan
from tests.synthetic import verdicts as synthetic

ROOT = Path(__file__).resolve().parents[2]
FIGURE = "chen2026_figH8"
NETWORKS = """
from torch import nn

def build(width):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))

def wide():
    return build(8)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = build(4)

    def forward(self, x):
        return self.layers(x)

def wrong():
    return 3
"""


def _patch(request):
    return request.getfixturevalue("monkeypatch")


def _options(words):
    """Words with an equals sign, as YAML; and the other words."""
    pairs = (word.split("=", 1) for word in words if "=" in word)
    return {key: yaml.safe_load(value) for key, value in pairs}, [w for w in words if "=" not in w]


def project(request):
    """config.yaml of the repository."""
    request.getfixturevalue("project")


def small_zoo(request, grid):
    request.getfixturevalue("small_zoo")(grid)


def export(request, setting):
    _patch(request).setenv(*setting.split("="))


def stopped(request):
    """`flatlab figures` is stopped by the user."""

    def stop(options):
        raise KeyboardInterrupt

    _patch(request).setattr("flatlab.cli.summary.run_figures", stop)


def verdicts(request, folder, *words):
    """The verdicts of a figure, drawn: verdicts results/demo KEY:VERDICT:VALUE:TEXT runs=9 ..."""
    about, claims = _options(words)
    target, reason = about.pop("target", FIGURE), about.pop("reason", "")
    made = []
    for key, verdict, value, text in ((*c.split(":"), *[""] * 4)[:4] for c in claims):
        more = {"p": 0.003, "evidence": [synthetic.entry(float(value or 0.5))], "reason": reason}
        more |= {"text": text} if text else {}
        name = f"{target}/{key}"
        made.append(synthetic.claim(name, verdict or "holds", "stand-in", **more))
    synthetic.write_verdicts(folder, synthetic.verdicts(target, *made, **about), picture=True)


def records(request, folder, code):
    """Records of all jobs of `mlp-grid`, as if they had run in a folder."""
    experiment = plan.Plan({"scale": "demo"}).experiment("mlp-grid")
    for pack in experiment.packs:
        files = [(Path(experiment.weights(pack)["weights"]), "same")]
        files += [(experiment.metrics(pack, family), code) for family in experiment.families]
        for path, version in files:
            record = plan.record_of(Path(folder) / path.relative_to("results/demo"))
            about = {"code": version, "runtime_s": 1, "machine": "x86_64", "gpu": 0}
            store.save_json(record, {**about, "versions": {}})


def checkout(request):
    """A clone on a machine with four cores, 8 GB and no GPU, and two packages of known version."""
    project(request)
    for name in ("pyproject.toml", "Snakefile"):
        shutil.copy(ROOT / name, ".")
    Path("bin").mkdir()
    patch, version = _patch(request), doctor.metadata.version
    known = {"numpy": "2.4.0", "scipy": "1.17.0"}
    patch.setattr(doctor.metadata, "version", lambda name: known.get(name) or version(name))
    patch.setattr(doctor.platform, "python_version", lambda: "3.12.1")
    patch.setattr(sys, "executable", "python")
    patch.delenv("FLATLAB_DATA", raising=False)
    patch.setenv("PATH", str(Path("bin").absolute()))
    patch.setattr(doctor, "PACKAGE", Path("flatlab").absolute())
    patch.setattr(os, "cpu_count", lambda: 4)
    machine(request)


def machine(request, cores=4, free_gb=6.0):
    memory = SimpleNamespace(total=8e9, available=float(free_gb) * 1e9)
    _patch(request).setattr(joblib, "cpu_count", lambda: int(cores))
    _patch(request).setattr(psutil, "virtual_memory", lambda: memory)


def program(request, name, body):
    (path := Path("bin", name)).write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def results(request, *paths):
    """Files of results, of nine numbers."""
    for path in paths:
        values = np.array([1.0, 3.0, np.nan, *range(6)])
        store.save_dataset(path, xr.Dataset({"mls": ("run", values)}, attrs={"scale": "demo"}))


def shown(request):
    """Files of every kind that `flatlab show` reads, with a small and a large table."""
    small = xr.DataArray([[1.0, 2, 3], [4, 5, np.nan]], dims=("definition", "index"))
    large = xr.DataArray(np.ones((40, 3)), dims=("draw", "index"))
    store.save_dataset("a.zarr.zip", xr.Dataset({"sharpness": small, "draws": large}))
    store.save_weights("w.safetensors", {"fc1.bias": np.ones((2, 1, 5))}, {"runs": ["r0", "r1"]})
    store.save_json("v.json", {"verdict": "holds"})


def networks(request):
    """Own networks: w.safetensors of mine:Net, and two of mine:build for each of two rates."""
    Path("mine.py").write_text(NETWORKS)
    _patch(request).syspath_prepend(Path.cwd())
    sys.modules.pop("mine", None)
    request.addfinalizer(lambda: sys.modules.pop("mine", None))
    import mine

    torch.manual_seed(0)
    save_file(mine.Net().state_dict(), "w.safetensors")
    torch.save(mine.Net(), "whole.pt")
    Path("checkpoints").mkdir()
    rows = ["file,lr,seed,width,test_error"]
    for lr in ("0.1", "0.3"):
        for seed in range(2):
            torch.save(mine.build(4).state_dict(), f"checkpoints/lr{lr}-s{seed}.pt")
            rows.append(f"lr{lr}-s{seed}.pt,{lr},{seed},4,{10 * seed + float(lr)}")
    Path("runs.csv").write_text("\n".join([*rows, ""]))
    arrays(request, "data.npz", "x=X", "y=Y")


def arrays(request, file, *contents):
    """A file of arrays, in which X are twelve inputs and Y their classes."""
    known = {"X": np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32), "np": np}
    known["Y"] = np.arange(12) % 3
    named = {name: eval(value, known) for name, value in (each.split("=") for each in contents)}
    np.savez(file, **named)
