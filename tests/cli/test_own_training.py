"""`flatlab train`: runs that a function of the user's trains, each kept until it changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from flatlab.cli import main

MODULE = """
import pathlib
import torch


def train(lr, seed):
    with pathlib.Path("calls").open("a") as file:
        file.write(f"{lr} {seed}\\n")
    if lr > 1:
        raise ValueError("too large")
    return {"weight": torch.full((2,), lr + seed)}, {"test_error": 10 * lr}
"""
COMMAND = ["train", "ownloop:train", "--grid", "grid.csv", "--out", "runs"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ownloop.py").write_text(MODULE)
    Path("grid.csv").write_text("lr,seed\n0.1,0\n0.1,1\n0.5,0\n")
    yield tmp_path
    sys.modules.pop("ownloop", None)


def calls():
    return Path("calls").read_text().splitlines()


def test_each_run_is_trained_once_and_again_when_it_changes(here):
    assert main(COMMAND) == 0
    assert calls() == ["0.1 0", "0.1 1", "0.5 0"]
    runs = pd.read_csv("runs/runs.csv")
    assert runs["test_error"].tolist() == [1.0, 1.0, 5.0]
    assert load_file(f"runs/{runs['file'][1]}")["weight"].tolist() == pytest.approx([1.1, 1.1])
    assert main(COMMAND) == 0
    assert len(calls()) == 3
    Path("grid.csv").write_text("lr,seed\n0.1,0\n0.2,1\n0.5,0\n")
    assert main(COMMAND) == 0
    assert calls()[3:] == ["0.2 1"]


def test_a_run_that_fails_loses_nothing_and_is_told_with_its_place(here, capsys):
    Path("grid.csv").write_text("lr,seed\n0.1,0\n2.0,0\n")
    assert main(COMMAND) == 1
    told = capsys.readouterr().err
    assert "ValueError: too large" in told
    assert "ownloop.py, line" in told
    assert len([*Path("runs").glob("*.safetensors")]) == 1
    Path("grid.csv").write_text("lr,seed\n0.1,0\n")
    assert main(COMMAND) == 0
    assert len(calls()) == 2


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ("lr,seed\n0.1,\n", "seed of row 1 is missing"),
        ("lr,seed\n0.1,0\n0.1,0\n", "row 2 is there twice"),
    ],
)
def test_a_wrong_grid_is_told_in_a_sentence(here, capsys, grid, sentence):
    Path("grid.csv").write_text(grid)
    assert main(COMMAND) == 1
    assert sentence in capsys.readouterr().err


def test_what_is_no_state_dictionary_is_refused(here, capsys):
    Path("ownloop.py").write_text("def train(lr, seed):\n    return lr\n")
    assert main(COMMAND) == 1
    assert "returned float; it must return model.state_dict()" in capsys.readouterr().err
