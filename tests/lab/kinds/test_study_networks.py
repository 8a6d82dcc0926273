"""Networks of a study: from files, or trained by its own function."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from flatlab.cli import main
from flatlab.core import store
from flatlab.core.studies import use_studies
from flatlab.lab import plan
from flatlab.lab.tables.networks import Networks
from tests.lab.kinds.studies import declare, forget, made, planned, table_of
from tests.refusals import refusal

MINE = """
import pathlib
import torch
from torch import nn
from helpers import samples


def build(width):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))


def data():
    return samples()


def train(lr, width, seed):
    with pathlib.Path("calls").open("a") as file:
        file.write(f"{lr} {width} {seed}\\n")
    if lr > 1:
        return lr
    torch.manual_seed(seed)
    model, (x, y, *_) = build(width), map(torch.from_numpy, samples())
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(x), y)
        with torch.no_grad():
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, [*model.parameters()])):
                p -= lr * g
    return model.state_dict(), {"my_score": 10 * lr + seed}
"""
HELPERS = """
import numpy as np


def samples():
    x = np.random.default_rng(0).normal(size=(50, 6)).astype("float32")
    y = np.abs(x[:, :3]).argmax(1)
    return x[:30], y[:30], x[30:], y[30:]
"""
MEASURE = {"families": ["geometry", "hessian"], "samples": 8, "ignore_index": 1}
SHARED = {"title": "Mine", "model": "mine:build", "data": "mine:data", "measure": MEASURE}
NETWORKS = {**SHARED, "kind": "networks"}
LOOP = {**NETWORKS, "from": "function", "train": "mine:train"}
LOOP |= {"settings": {"lr": [0.1, 0.5], "width": [4, 5]}, "seeds": ["0-1"]}
LOOP |= {"exclude": [{"lr": 0.1, "width": 5}]}
FILES = {**NETWORKS, "from": "files", "files": "checkpoints/*.pt", "runs": "runs.csv"}
ADAPTIVE = {"samples": 9, "seed": 1, "outputs": "sigmoid", "rho": 0.2}
FIGURES = """
from flatlab.lab.plan import Pairs, Paper

PAPER = Paper(title="Mine", citation="mine", cited="Mine")
FIGURES = {
    "fig1": Pairs("mine-loop", pairs=(("mls", "my_score"),), title="mine", caption="Mine."),
}
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study with a loop and with networks from files, which is the working folder."""
    modules = {"mine": MINE, "helpers": HELPERS, "figures": FIGURES}
    with made(tmp_path / "mine", monkeypatch, **modules) as folder:
        declare("mine-loop", LOOP)
        yield folder


def calls():
    return Path("calls").read_text().splitlines() if Path("calls").exists() else []


def checkpoints():
    """The runs of the loop as files from elsewhere, with a CSV of what is known of them."""
    Path("checkpoints").mkdir()
    rows = ["file,lr,width,seed,my_score"]
    for path in sorted(Path("results/demo/models/mine-loop").glob("*.safetensors")):
        arrays, about = store.load_weights(path)
        state = {name: torch.from_numpy(array) for name, array in arrays.items()}
        torch.save(state, f"checkpoints/{path.stem}.pt")
        lr, width, seed = re.findall(r"[\d.]+", path.stem)
        rows.append(f"{path.stem}.pt,{lr},{width},{seed},{about['outcomes']['my_score']}")
    Path("runs.csv").write_text("\n".join(rows))


def test_runs_are_trained_once_and_files_of_them_have_the_same_table(study):
    measure = {**MEASURE, "families": ["hessian"]}
    declare("mine-loop", {**LOOP, "measure": measure})
    assert main(["run", "mine-loop"]) == 0
    assert len(calls()) == 6
    assert main(["run", "mine-loop"]) == 0
    assert len(calls()) == 6
    ours = table_of("mine-loop")
    assert ours.attrs["hyperparameters"] == ["lr", "width"]
    assert ours["seed"].values.tolist() == [0, 1] * 3
    assert ours["my_score"].values.ravel() == pytest.approx(10 * ours["lr"].values + ours["seed"])
    assert not ours["diverged"].any()
    assert np.isfinite(ours["hessian_lambda_max"]).all()
    assert np.isfinite(ours["test_error"]).all()
    Path("results/demo/models/mine-loop/lr0.5-width4-s1.safetensors").unlink()
    assert main(["run", "mine-loop"]) == 0
    assert calls()[6:] == ["0.5 4 1"]
    checkpoints()
    declare("mine-files", {**FILES, "measure": measure})
    assert main(["run", "mine-files"]) == 0
    theirs = table_of("mine-files")
    for name in ours.data_vars:
        np.testing.assert_array_equal(theirs[name].values, ours[name].values, err_msg=name)
    assert theirs.attrs["trained"] == "elsewhere"
    assert Networks.of("mine", theirs).where(lr=0.5).count == 4
    command = ["table", "checkpoints/*.pt", "--model", "mine:build", "--data", "mine:data"]
    command += ["--runs", "runs.csv", "--samples", "8", "--family", "hessian"]
    command += ["--ignore-index", "1"]
    assert main([*command, "--out", "shell.zarr.zip"]) == 0
    shell = store.load_dataset("shell.zarr.zip")
    for name in shell.data_vars:
        np.testing.assert_array_equal(theirs[name].values, shell[name].values, err_msg=name)


def codes():
    """What each job of both experiments depends on besides its input files."""
    forget()
    chosen, found = planned(), {}
    for key in (key for key in chosen.experiments if key.startswith("mine-")):
        experiment = chosen.experiment(key)
        for pack in experiment.packs:
            jobs = {"train": experiment.training(pack)}
            jobs |= {family: experiment.measuring(pack, family) for family in experiment.families}
            for name, job in jobs.items():
                if job:
                    found[f"{key} {name} {pack}"] = (job.code, json.dumps(job.settings))
        table = experiment.tabulating(chosen.as_published[key])
        found[f"{key} table"] = (table.code, json.dumps(table.settings))
    return found


@pytest.mark.more
def test_an_edit_reaches_exactly_the_jobs_that_use_it(study):
    Path("other.py").write_text("def train(lr, width, seed):\n    return {}\n")
    declare("mine-loop", {**LOOP, "train": "other:train", "data": "digits"})
    Path("checkpoints").mkdir()
    Path("checkpoints/a.pt").write_bytes(b"")
    Path("runs.csv").write_text("file,lr,my_score\na.pt,0.1,6.0\n")
    declare("mine-files", FILES)
    before = codes()

    def changed_by(*edits):
        """Jobs as experiment and what is made, tables as the experiment alone."""
        kept = {path: Path(path).read_text() for path, _, _ in edits}
        for path, old, new in edits:
            assert old in kept[path]
            Path(path).write_text(kept[path].replace(old, new, 1))
        after = codes()
        for path, content in kept.items():
            Path(path).write_text(content)
        return {name.rpartition(" ")[0] for name in before if before[name] != after.get(name)}

    loop, files, yaml = "mine-loop", "mine-files", "experiments/mine-loop.yaml"
    of_loop = {f"{loop} geometry", f"{loop} hessian"}
    measured = of_loop | {f"{files} geometry", f"{files} hessian"}
    outcome, title = ("runs.csv", "6.0", "7.0"), (yaml, "title: Mine", "title: Ours")
    assert changed_by(("other.py", "{}", "{1: 2}"), outcome) == {f"{loop} train", files}
    assert changed_by(("mine.py", "range(5)", "range(6)")) == measured
    assert changed_by(("helpers.py", "50, 6", "60, 6"), title) == measured | {loop}
    assert changed_by((yaml, "- 0.5\n", "- 0.2\n")) == of_loop | {f"{loop} train", loop}


BAD = {  # what is declared otherwise of the loop, and what is said
    "no such module": ({"model": "mini:build"}, "has no module 'mini'; did you mean 'mine'?"),
    "no such function": ({"model": "mine:built"}, "mine has no 'built'; did you mean 'build'?"),
    "no function": ({"model": "mine"}, "model"),
    "shadow": ({"model": "numpy:build"}, "numpy has the name of an installed module"),
    "data": ({"data": "digit"}, "neither a file or folder of the study"),
    "family": ({"measure": {"families": ["geometri"]}}, "did you mean 'geometry'?"),
    "accuracy": ({"measure": {"families": ["accuracy"]}}, "are measured anyway"),
    "option": ({"measure": {**MEASURE, "rhoo": 1}}, "unknown key 'rhoo'"),
    "argument": ({"measure": {**MEASURE, "sample": 9}}, "did you mean 'samples'?"),
    "ignored": ({"measure": {**MEASURE, "ignore_index": "none"}}, "ignore_index"),
    "key": ({"seed": [0]}, "unknown key 'seed'; did you mean 'seeds'?"),
    "factor": ({"settings": {"lr": 0.1}}, "expected a list of values"),
    "excluded": ({"exclude": [{"lr": 9}]}, "no combination has"),
    "seeds": ({"settings": {"seed": [0]}}, "seeds stand under"),
    "twice": ({"settings": [{"lr": 0.1}, {"lr": 0.1}], "exclude": []}, "is declared twice"),
    "nothing": ({"settings": [], "exclude": []}, "settings"),
}
BAD_RUNS = {  # of two files, what is declared otherwise, their table of runs, and what is said
    "no file": ({"files": "none/*.pt"}, "", "no file matches none/*.pt"),
    "no row": ({}, "a.pt,0.1\n", "has no row for checkpoints/b.pt"),
    "no value": ({}, "a.pt,0.1\nb.pt,\n", "lr of b.pt is missing"),
    "half a row": ({}, "a.pt,0.1\nb.pt\n", "row 2 has 1 of 2 columns"),
    "no table": ({"runs": "other.csv"}, "", "other.csv does not exist"),
    "a name for Snakemake": ({"files": "named/*.pt", "runs": None}, "", "braces"),
}


@pytest.mark.parametrize("kind", [*BAD, *BAD_RUNS])
def test_a_wrong_declaration_is_told_in_a_sentence_when_it_is_planned(study, kind):
    if kind in BAD:
        change, sentence = BAD[kind]
        Path("numpy.py").write_text("def build():\n    pass\n")
        declare("mine-loop", {**LOOP, **change})
    else:
        change, rows, sentence = BAD_RUNS[kind]
        for name in ("checkpoints/a.pt", "checkpoints/b.pt", "named/c{1}.pt"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_bytes(b"")
        Path("runs.csv").write_text(f"file,lr\n{rows}")
        declare("mine-files", {**FILES, **change})
    message = refusal(plan.PlanError, planned)
    assert sentence in message
    assert kind in BAD_RUNS or "experiments/mine-loop.yaml" in message


def test_a_folder_that_is_no_study_has_no_such_experiment(study):
    use_studies([], "")
    with pytest.raises(plan.PlanError, match="such experiments belong to a study"):
        plan.read_experiment(study / "experiments/mine-loop.yaml", "demo", None)


@pytest.mark.more
def test_what_does_not_fit_or_returns_something_else_loses_nothing(study, capsys):
    declare("mine-loop", {**LOOP, "settings": {"lr": [0.1, 2.0], "width": [4]}, "exclude": []})
    packs = ["lr0.1-width4-s0", "lr2.0-width4-s0"]
    assert main(["run", "mine-loop", *packs]) == 1
    told = capsys.readouterr().err
    assert "mine:train returned float; it must return model.state_dict()" in told
    assert Path("results/demo/models/mine-loop/lr0.1-width4-s0.safetensors").is_file()
    checkpoints()
    Path("runs.csv").write_text("file,lr,width\nlr0.1-width4-s0.pt,0.1,7\n")
    declare("mine-files", FILES)
    assert main(["run", "mine-files"]) == 1
    assert "lr0.1-width4-s0.pt does not fit mine:build" in capsys.readouterr().err


def replaced(path):
    """Put another file in the place of one: of equal size, and with an older date."""
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.replace(b"Tanh", b"GELU").replace(b"12", b"21"))
    assert Path(path).read_bytes() != content
    os.utime(path, (0, 0))


PLACES = {  # the experiments and networks that are measured again
    "data.npz": {"mine-files a", "mine-files b"},
    "checkpoints/a.pt": {"mine-files a", "mine-images a"},
    "images/cat/0.png": {"mine-images a", "mine-images b"},
    "kept/0.png": {"mine-images a", "mine-images b"},  # in a folder by a link
    "mine.py": {f"mine-{kind} {name}" for kind in ("files", "images") for name in "ab"},
}


def test_what_is_replaced_by_something_older_of_equal_size_is_measured_again(study):
    for place in {*PLACES, "checkpoints/b.pt"} - {"mine.py"}:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(b"12")
    os.symlink("../kept", "images/dog")
    for link in ("one", "two"):
        os.symlink(".", f"images/{link}")  # to where it lies: followed once
    measure = {**MEASURE, "families": ["geometry"]}
    for kind, data in (("files", "data.npz"), ("images", "images")):
        declare(f"mine-{kind}", {**FILES, "runs": None, "data": data, "measure": measure})
    before = {name: code for name, code in codes().items() if "loop" not in name}
    for place, right in PLACES.items():
        replaced(place)
        after = codes()
        changed = {name for name in before if before[name] != after[name]}
        before = {name: after[name] for name in before}
        assert {" ".join(name.split()[::2]) for name in changed} == right
