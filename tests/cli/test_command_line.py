"""The command line as a whole: help in groups, completion in shells, what a start imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.cli._main import GROUPS
from flatlab.lab import plan

ROOT = Path(__file__).resolve().parents[2]
TRY = """
source completion.sh
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_flatlab flatlab
echo "${COMPREPLY[@]}"
"""


def test_help_lists_every_command_once_and_in_its_group(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 81
    titles = re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE)
    assert titles == list(GROUPS)
    listed = re.findall(r"^  ([\w-]+)  ", text, re.MULTILINE)
    assert sorted(listed) == [*plan.keys_of("cli")]
    for before, after in (("Look at", "show"), ("Measure", "rank"), ("Plan", "doctor")):
        assert text.index(before) < text.index(f"  {after} ")
    assert text.index("  rank ") < text.index("Plan and run")


def test_an_unknown_command_is_an_error_that_lists_the_known_ones(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sumary"])
    assert end.value.code == 2
    assert "summary" in capsys.readouterr().err


def test_only_the_command_that_is_called_is_imported() -> None:
    code = "import sys; from flatlab.cli import main; main(['experiments', '--scale', 'demo'])\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    loaded = {*done.stderr.split()}
    assert "flatlab.cli.experiments" in loaded
    assert not loaded & {"flatlab.cli.rank", "xarray", "scipy", "torch"}


@pytest.mark.skipif(
    not (shutil.which("bash") and find_spec("shtab")), reason="no bash, or no shtab"
)
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("me", "measure"),
        ("experiments mlp", "mlp-grid"),
        ("run mlp-grid --sc", "--scale"),
        ("measure --loss lo", "logistic"),
        ("measure --out mine", "mine.zarr.zip"),
        ("completion z", "zsh"),
    ],
)
def test_bash_completes(words: str, completed: str, tmp_path: Path, monkeypatch, capsys) -> None:
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    (tmp_path / "mine.zarr.zip").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["completion", "bash"]) == 0
    Path("completion.sh").write_text(capsys.readouterr().out)
    call = ["bash", "-c", TRY, "bash", "flatlab", *words.split(" ")]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.split() == [completed]


def test_without_shtab_completion_names_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "zsh"]) == 1
    assert capsys.readouterr().err.startswith("flatlab: the package shtab is missing; install it")


def test_a_command_that_is_stopped_says_so_in_a_sentence(monkeypatch, capsys) -> None:
    def stopped(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("flatlab.cli.figures.run", stopped)
    assert main(["figures"]) == 130
    assert capsys.readouterr().err.strip() == "flatlab: stopped; files that were finished are there"
