"""The pages docs/own-networks.md and docs/results.md: every command and example is carried out."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import flatlab
from flatlab.cli import main
from flatlab.core import store
from flatlab.lab.figures import render
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.outcomes import against

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILES = re.compile(r"`([\w.]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FORMATS = render.FORMATS
PAGE, RESULTS = ((DOCS / name).read_text() for name in ("own-networks.md", "results.md"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def commands(page):
    return [line for block in blocks(page, "sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the page makes, after all its commands."""
    folder = tmp_path_factory.mktemp("mine")
    for name, content in FILES.findall(PAGE):
        (folder / name).write_text(content.replace("epochs=4", "epochs=1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        for program, *arguments in map(shlex.split, commands(PAGE)):
            if program == "python":
                runpy.run_path(*arguments, run_name="__main__")
                continue
            ending = Path(arguments[-1]).suffix.removeprefix(".")  # other formats take their time
            patch.setattr(render, "FORMATS", [f for f in FORMATS if ending in (f, "")] or FORMATS)
            assert main(arguments) == 0, arguments
        for name in ("mine", "one"):
            sys.modules.pop(name, None)
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    yield folder
    for name in ("mine", "one", "other"):
        sys.modules.pop(name, None)


@pytest.fixture
def table(here):
    return store.load_dataset("table.zarr.zip")


def test_every_command_of_the_page_writes_what_it_says(folder):
    pictures = ["pairs.png", "sweep.png", "forest.pdf", "layers.svg"]
    pictures += [f"table-matrix.{ending}" for ending in ("pdf", "svg", "png", "csv", "txt")]
    for name in [*pictures, "table.csv", "correlations.csv"]:
        assert (folder / name).stat().st_size > 200, name
    assert not (folder / "table.zarr.zip.unfinished").exists()


def test_the_programs_of_the_page_on_results_run(here, printed):
    for program in blocks(RESULTS, "python"):
        exec(program, {})
    for line in commands(RESULTS):
        assert printed(*shlex.split(line)[1:])
    assert pd.read_csv("table.csv")["diverged"].dtype == bool


@pytest.mark.skipif(not shutil.which("Rscript"), reason="no R: apt-get install r-base-core")
def test_the_lines_of_the_page_on_results_run_in_r(here):
    (program,) = blocks(RESULTS, "r")
    assert main(["export", "table.zarr.zip", "--csv", "table.csv"]) == 0
    program += "stopifnot(is.logical(table$diverged), nrow(table) == 20)\n"
    Path("mine.R").write_text(program)
    done = subprocess.run(["Rscript", "mine.R"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "log(sharpness)" in done.stdout


def test_a_row_has_what_a_report_of_that_network_has(table):
    assert table.sizes["run"] == 20
    with np.load("data.npz") as file:
        names = ("x_train", "y_train", "x_test", "y_test")
        x, y, x_test, y_test = (torch.from_numpy(file[name]) for name in names)
    chosen = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))[:100]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    model.load_state_dict(torch.load("checkpoints/lr0.3-b40-s2.pt"))
    families = ["geometry", "hessian"]
    report = flatlab.measure(model, x[chosen], y[chosen], families=families, loss="cross-entropy")
    row = table.sel(run="lr0.3-b40-s2").isel(checkpoint=0)
    for name in ("sharpness", "hessian_lambda_max", "weight_norm"):
        found = row[name].sel(samples="train").values
        np.testing.assert_array_equal(found, report[name].values.astype(float))
    error = 100 * (model(x_test).argmax(1) != y_test).double().mean().item()
    assert float(row["test_error"]) == pytest.approx(error)
    assert float(row["error_gap"]) == pytest.approx(error - float(row["train_error"]))
    loss = nn.functional.cross_entropy(model(x), y).item()
    assert float(row["train_loss"]) == pytest.approx(loss, rel=1e-5)


def test_correlations_are_those_counted_by_hand(table):
    x, y = (table[name].values.ravel() for name in ("sharpness", "test_error"))
    lr, batch = table["lr"].values, table["batch_size"].values
    every = [(i, j) for i in range(len(lr)) for j in range(i)]
    same = {(i, j): (lr[i] == lr[j], batch[i] == batch[j]) for i, j in every}
    kinds = {
        "all networks": every,
        "within settings": [pair for pair in every if same[pair] == (True, True)],
        "lr alone": [pair for pair in every if same[pair] == (False, True)],
        "batch_size alone": [pair for pair in every if same[pair] == (True, False)],
    }
    frame = pd.read_csv("correlations.csv").set_index(["measure", "varies"])
    for varies, pairs in kinds.items():
        row = frame.loc["sharpness", varies]
        agree = sum(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in pairs)
        assert row["tau"] == pytest.approx(agree / len(pairs)), varies
        assert (row["networks"], row["left_out"]) == (20, 0)
        assert (
            np.isnan(row["low"]) if abs(row["tau"]) == 1 else row["low"] < row["tau"] < row["high"]
        )


def test_networks_without_a_partner_are_counted_and_few_have_no_interval(table):
    some = table.isel(run=[0, 1, 2, 3, 4, 5])  # five of one setting, one of another
    frame = against(some, "test_error", ["lr", "batch_size"])
    frame = frame[frame["measure"] == "sharpness"].set_index("varies")
    within = frame.loc["within settings"]
    assert (within["networks"], within["left_out"]) == (5, 1)
    assert frame.loc["all networks", "networks"] == 6
    assert frame["low"].isna().all()
    assert frame["tau"].notna().any()
    networks = Networks.of("mine", table)  # of which claims ask as of those of a grid
    assert networks.where(lr=0.1).count == 10
    estimate = networks.rho("sharpness", "test_error")
    assert not estimate.reason
    assert set(estimate.alternatives) == {"within settings", "adjusted for the training loss"}


def test_networks_of_different_depth_and_a_json_of_records_make_one_table(here, monkeypatch):
    Path("other.py").write_text(
        "from torch import nn\n\n\ndef build(depth):\n"
        "    layers = [m for _ in range(depth) for m in (nn.Linear(64, 64), nn.ReLU())]\n"
        "    return nn.Sequential(*layers, nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(here)
    import other

    for depth in (1, 2):
        torch.save(other.build(depth).state_dict(), f"depth{depth}.pth")
    records = {f"depth{depth}": {"depth": depth, "robustness": 0.5 * depth} for depth in (1, 2)}
    Path("records.json").write_text(json.dumps(records))
    command = ["table", "depth*.pth", "--model", "other:build", "--runs", "records.json"]
    command += ["--outcomes", "robustness", "--data", "data.npz", "--samples", "10"]
    assert main([*command, "--out", "depths.zarr.zip"]) == 0
    table = store.load_dataset("depths.zarr.zip")
    assert table.attrs["hyperparameters"] == ["depth"]
    assert table["robustness"].values.ravel().tolist() == [0.5, 1.0]
    norms = table["weight_norm"].sel(run="depth1").values.ravel()
    assert np.isnan(norms).sum() == 1  # the layer that only the deeper one has
