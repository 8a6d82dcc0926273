"""The wheel in a clean environment: it brings the workflow, and a study is built there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.lab import LEAKING, ROOT

pytestmark = [pytest.mark.workflow, pytest.mark.long]
SOURCES = ("flatlab", "rules", "scripts", "papers", "envs", "report", "profiles")
UV = Path(sys.executable).with_name("uv")
FILES = ("Snakefile", "config.yaml", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def call(*command, cwd, may_fail=""):
    """What a program prints; if it may fail, the test is skipped with this reason and the error."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(LEAKING)}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=ours, capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    if may_fail and done.returncode:
        pytest.skip(f"{may_fail}: {told.strip().splitlines()[-1]}")
    assert done.returncode == 0, told
    return told


def test_a_study_is_built_by_an_installed_wheel(tmp_path):
    source = tmp_path / "source"
    for name in (*SOURCES, *FILES):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        call("cp", "-r", ROOT / name, source / name, cwd=tmp_path)
    pip = (sys.executable, "-m", "pip")
    cannot = "no wheel can be built here"
    call(*pip, "wheel", "--no-deps", "-w", tmp_path, source, cwd=tmp_path, may_fail=cannot)
    (wheel,) = tmp_path.glob("flatlab-*.whl")
    call(sys.executable, "-m", "venv", tmp_path / "clean", cwd=tmp_path)
    python = tmp_path / "clean/bin/python"
    install = [python, "-m", "pip", "install"]
    if UV.is_file():  # the same, in half a minute where the packages are in its cache
        install = [UV, "pip", "install", "--python", python]
    cannot = "nothing can be installed here"
    call(*install, f"{wheel}[workflow]", cwd=tmp_path, may_fail=cannot)
    flatlab = tmp_path / "clean/bin/flatlab"
    call(flatlab, "new", "my-study", cwd=tmp_path)
    study = tmp_path / "my-study"
    assert wheel.name in (study / "README.md").read_text()
    call(flatlab, "build", cwd=study)
    assert (study / "results/demo/figures/mystudy/fig1.png").is_file()
    assert (study / "results/demo/verdicts/mystudy/fig1.json").is_file()
