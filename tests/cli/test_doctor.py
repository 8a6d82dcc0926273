"""`flatlab doctor` in faked surroundings: what it finds, what it advises, and when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import joblib
import psutil
import pytest
from torchvision import datasets

from flatlab.cli import doctor, main
from flatlab.core.registry import literal

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone on an ordinary machine: four cores, 8 GB, no GPU, no cluster."""
    for name in ("config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for variable in ("FLATLAB_DATA", "SNAKEMAKE_STORAGE_S3_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(bin_))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)
    monkeypatch.setattr(doctor, "CGROUP", tmp_path / "cgroup")
    memory = SimpleNamespace(total=8 * GB, available=6 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=50 * GB))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(checkout: Path, name: str, body: str) -> Path:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def said(subject: str) -> tuple[str, str]:
    """The state of a subject, and what is said of it."""
    return next((state, what) for state, name, what in doctor.findings() if name == subject)


def test_it_fits_a_screen_and_says_that_make_can_run(checkout: Path, capsys) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines[1:])) <= 80
    assert lines[-1] == "make can run here"
    for subject in ("Python", "packages", "cores", "memory", "disk", "GPU", "data", "Slurm"):
        assert any(line.split()[1:2] == [subject] for line in lines)


def test_a_control_group_limits_cores_and_memory(checkout: Path, monkeypatch) -> None:
    assert said("cores") == ("ok", "4")
    assert said("memory") == ("ok", "6.0 GB free of 8.0")
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    (checkout / "cgroup").mkdir()
    (checkout / "cgroup" / "memory.max").write_text(f"{3 * GB}\n")
    assert said("cores")[1].startswith("2 of 4 are yours")
    assert said("cores")[1].endswith("snakemake --cores 2")
    assert said("memory")[1].startswith("3.0 GB free of 3.0;")
    assert said("memory")[1].endswith("snakemake --cores 3")
    (checkout / "cgroup" / "memory.max").write_text("max\n")
    assert said("memory") == ("ok", "6.0 GB free of 8.0")


def test_what_make_needs_decides_the_exit_status(checkout: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=GB // 10))
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(total=GB, available=GB // 2)
    )
    Path("config.yaml").write_text("scale: large\n")
    assert main(["doctor"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "make needs what is broken: config, memory, disk" in text
    assert "config.yaml: scale: unknown value 'large'" in text
    assert "make room for 1 GB" in text


def test_packages_are_compared_with_what_is_asked_for_and_with_the_lock(
    checkout: Path, monkeypatch
) -> None:
    assert said("packages")[1].endswith("no lock here")
    Path("envs").mkdir()
    versions = {name: doctor.metadata.version(name) for name in ("numpy", "scipy")}
    lines = [f"{name}=={version} \\" for name, version in versions.items()]
    foreign = "colorama==0.4.6 ; sys_platform == 'none' \\"
    doctor.LOCK.write_text("\n".join([*lines, foreign, "    --hash=sha256:00", ""]))
    assert said("packages") == ("ok", "2 of 2 as locked")
    doctor.LOCK.write_text("\n".join([lines[0], "scipy==0.1 \\", "nothing-like-it==1 \\", ""]))
    state, what = said("packages")
    assert state == "ok"
    assert what.startswith(f"1 of 3 as locked; others: scipy {versions['scipy']}")
    assert what.endswith("not here: nothing-like-it")
    project = Path("pyproject.toml").read_text()
    Path("pyproject.toml").write_text(project.replace('"numpy"', '"numpy>1000"'))
    assert said("packages")[0] == "broken"
    assert "missing or unfit: numpy>1000; make sets up .venv" in said("packages")[1]
    Path("pyproject.toml").write_text(project.replace(">=3.11.4,<3.14", "<3.11"))
    assert said("Python")[0] == "broken"


def test_a_gpu_works_if_torch_sees_it(checkout: Path, monkeypatch) -> None:
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


def test_data_sets_are_found_where_flatlab_looks(checkout: Path, monkeypatch) -> None:
    assert said("data") == ("ok", "none in data; config.yaml needs no other")
    folder = checkout / "elsewhere"
    for path in ("FashionMNIST/raw/train-images-idx3-ubyte.gz", "cifar10/cifar-10-python.tar.gz"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    monkeypatch.setenv("FLATLAB_DATA", str(folder))
    assert said("data")[1].startswith(f"cifar10, fashion-mnist in {folder}")
    Path("config.yaml").write_text("scale: paper\ndata_folder: data\n")
    state, what = said("data")
    assert state == "-"
    assert what.startswith("none in data; cifar10, fashion-mnist needed")


def test_the_names_of_data_sets_are_torchvisions() -> None:
    for kind, key in ((datasets.CIFAR10, "cifar10"), (datasets.CIFAR100, "cifar100")):
        assert literal("data", key, "FILES") == [kind.base_folder, kind.filename]
    names = {*literal("data", "fashion-mnist", "FILES")}
    assert names <= {name for name, _ in datasets.FashionMNIST.resources}


def test_clusters_and_object_stores_are_optional(checkout: Path, monkeypatch) -> None:
    plugins: dict[str, str] = {}
    monkeypatch.setattr(doctor, "_installed", plugins.get)
    assert said_of(doctor._slurm()) == ("-", "no sbatch")
    program(checkout, "sbatch", "true")
    assert said_of(doctor._slurm()) == ("-", "its plugin")
    assert said_of(doctor._object_store()) == ("-", "no plugin:")
    plugins |= {"snakemake-executor-plugin-slurm": "2", "snakemake-storage-plugin-s3": "1"}
    assert said_of(doctor._slurm()) == ("ok", "plugin 2:")
    assert said_of(doctor._object_store()) == ("-", "plugin 1,")
    monkeypatch.setenv("SNAKEMAKE_STORAGE_S3_ACCESS_KEY", "key")
    assert said_of(doctor._object_store()) == ("ok", "plugin 1")


def said_of(finding: doctor.Finding) -> tuple[str, str]:
    return finding.state, " ".join(finding.said.split()[:2])


def test_it_starts_where_packages_are_missing(checkout: Path) -> None:
    """Other commands name the package; this one runs."""
    code = "import sys; sys.modules.update(numpy=None, xarray=None, joblib=None, psutil=None)\n"
    code += "from flatlab.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        call = [sys.executable, "-c", code, command]
        return subprocess.run(call, capture_output=True, text=True, env=environment)

    done = run("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert "the package psutil is missing" in done.stdout
    done = run("check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("flatlab: the package ")
    assert "flatlab doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_checkout_measuring_is_what_works(tmp_path, monkeypatch, capsys) -> None:
    """Also where another project lies, whatever its pyproject.toml says."""
    monkeypatch.chdir(tmp_path)
    for content in ("[tool.other]\n", '[project]\nname = "other"\n', "no toml ["):
        Path("pyproject.toml").write_text(content)
        assert main(["doctor"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "figures need a clone" in text
    assert "Slurm" not in text
    assert text.endswith("flatlab measure can run here")
