"""`flatlab doctor` in faked surroundings, and `flatlab check`: what is wrong, and what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import psutil
import pytest
import xarray as xr
from torchvision import datasets

from flatlab.cli import doctor
from flatlab.core import store
from flatlab.core.registry import literal

ROOT = Path(__file__).resolve().parents[2]


def machine(monkeypatch, cores=4, memory_gb=6.0):
    monkeypatch.setattr(joblib, "cpu_count", lambda: cores)
    memory = SimpleNamespace(total=8e9, available=memory_gb * 1e9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


@pytest.fixture
def checkout(project, monkeypatch):
    """A clone on an ordinary machine: four cores, 8 GB, no GPU."""
    for name in ("pyproject.toml", "Snakefile"):
        shutil.copy(ROOT / name, project)
    (project / "bin").mkdir()
    monkeypatch.delenv("FLATLAB_DATA", raising=False)
    monkeypatch.setenv("PATH", str(project / "bin"))
    monkeypatch.setattr(doctor, "PACKAGE", project / "flatlab")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    machine(monkeypatch)
    return project


def program(checkout, name, body):
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def said(subject):
    """The state of a subject, and what is said of it."""
    return next((state, what) for state, name, what in doctor.findings() if name == subject)


def test_it_fits_a_screen_and_says_that_make_can_run(checkout, printed):
    lines = printed("doctor").splitlines()
    assert max(map(len, lines[1:])) <= 80
    assert lines[-1] == "make can run here"
    subjects = [line.split()[1] for line in lines[1:-2] if not line.startswith("    ")]
    assert subjects == ["Python", "packages", "cores", "memory", "GPU", "data"]


def test_what_make_needs_decides_the_exit_status(checkout, monkeypatch, printed):
    assert said("cores") == ("ok", "4")
    assert said("memory") == ("ok", "6.0 GB free of 8.0")
    machine(monkeypatch, cores=2, memory_gb=0.5)
    Path("config.yaml").write_text("scale: large\n")
    text = " ".join(printed("doctor", status=1).split())
    assert "make needs what is broken: config, memory" in text
    assert "config.yaml: scale: unknown value 'large'" in text
    assert "4; 2 are yours: snakemake --cores 2" in text
    assert "a job takes up to 1 GB: free some" in text


def test_packages_are_compared_with_what_is_asked_for_and_with_the_lock(checkout):
    assert said("packages")[1].endswith("no lock here")
    Path("envs").mkdir()
    versions = {name: doctor.metadata.version(name) for name in ("numpy", "scipy")}
    lines = [f"{name}=={version} \\" for name, version in versions.items()]
    foreign = "colorama==0.4.6 ; sys_platform == 'none' \\"
    doctor.LOCK.write_text("\n".join([*lines, foreign, "    --hash=sha256:00", ""]))
    assert said("packages") == ("ok", "2 of 2 as locked")
    doctor.LOCK.write_text("\n".join([lines[0], "scipy==0.1 \\", "nothing-like-it==1 \\", ""]))
    others = f"scipy {versions['scipy']}, nothing-like-it missing"
    assert said("packages")[1] == f"1 of 3 as locked; others: {others}: last bits may differ"
    project = Path("pyproject.toml").read_text()
    Path("pyproject.toml").write_text(project.replace('"numpy"', '"numpy>1000"'))
    assert said("packages")[0] == "broken"
    assert "missing or unfit: numpy>1000; make sets up .venv" in said("packages")[1]
    Path("pyproject.toml").write_text(project.replace(">=3.11.4,<3.14", "<3.11"))
    assert said("Python")[0] == "broken"


@pytest.mark.more
def test_a_gpu_works_if_torch_sees_it(checkout, monkeypatch):
    assert said("GPU")[0] == "-"
    Path("config.yaml").write_text("device: cuda\n")
    assert said("GPU")[0] == "broken"
    program(checkout, "nvidia-smi", 'echo "GPU 0: NVIDIA H200 (UUID: GPU-1)"')
    monkeypatch.setattr(sys, "executable", str(program(checkout, "python", "echo 1")))
    assert said("GPU") == ("ok", "1 x NVIDIA H200; torch sees 1: snakemake --config device=cuda")
    program(checkout, "python", "echo 0")
    assert said("GPU")[0] == "broken"
    assert "torch sees none" in said("GPU")[1]
    Path("config.yaml").write_text("device: cpu\n")
    assert said("GPU")[0] == "-"
    program(checkout, "nvidia-smi", "echo no driver; exit 9")
    assert said("GPU")[1].startswith("nvidia-smi lists none")


@pytest.mark.more
def test_data_sets_are_found_where_flatlab_looks(checkout, monkeypatch):
    assert said("data") == ("ok", "none in data; config.yaml needs no other")
    folder = checkout / "elsewhere"
    for path in ("FashionMNIST/raw/train-images-idx3-ubyte.gz", "cifar10/cifar-10-python.tar.gz"):
        store.replace(folder / path, b"")
    monkeypatch.setenv("FLATLAB_DATA", str(folder))
    assert said("data")[1].startswith(f"cifar10, fashion-mnist in {folder}")
    Path("config.yaml").write_text("scale: paper\ndata_folder: data\n")
    state, what = said("data")
    assert state == "-"
    assert what.startswith("none in data; cifar10, fashion-mnist needed")


def test_the_names_of_data_sets_are_torchvisions():
    for kind, key in ((datasets.CIFAR10, "cifar10"), (datasets.CIFAR100, "cifar100")):
        assert literal("data", key, "FILES") == [kind.base_folder, kind.filename]
    names = {*literal("data", "fashion-mnist", "FILES")}
    assert names <= {name for name, _ in datasets.FashionMNIST.resources}


@pytest.mark.more
def test_it_starts_where_packages_are_missing(checkout):
    """Other commands name the package; this one runs."""
    code = "import sys; sys.modules.update(numpy=None, xarray=None, joblib=None, psutil=None)\n"
    code += "from flatlab.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(command):
        call = [sys.executable, "-c", code, command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(call, capture_output=True, text=True, env=environment)

    done = run("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert "the package psutil is missing" in done.stdout
    done = run("show")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("flatlab: the package ")
    assert "flatlab doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_checkout_measuring_is_what_works(tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "PACKAGE", tmp_path / "flatlab")
    Path("pyproject.toml").write_text("another project's, or no toml [")
    assert printed("doctor").endswith("flatlab measure can run here\n")


def test_check_finds_every_damaged_file_whatever_is_measured_at_other_scales(project, printed):
    Path("config.yaml").write_text("packs: measured\n")
    measured = "metrics/mlp-grid/accuracy+geometry/lr0.1-b20-s0-4"
    paths = [Path(f"results/demo/{name}.zarr.zip") for name in ("a", "b", measured)]
    for path in paths:
        store.save_dataset(path, xr.Dataset({"x": ("run", np.arange(9.0))}))
    text = printed("check")
    assert "configuration and experiments: valid at every scale" in text
    assert "3 result files checked, 0 damaged" in text
    for path in paths[::2]:
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
    text = printed("check", status=1)
    for part in (f"{paths[0]} is damaged", f"{paths[2]} is damaged", "3 result files checked, 2 "):
        assert part in text
