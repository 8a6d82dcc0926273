"""A study with its results, a report and the file of a tracker, all made by version 1.0.0."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core.store import load_dataset, load_json, load_weights
from flatlab.lab import plan

ROOT = Path(__file__).resolve().parents[2]
MADE = Path(__file__).parent / "v1.0.0"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The study, in whose folder the test runs; afterwards there is none."""
    monkeypatch.setenv("FLATLAB_STUDIES", "")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = shutil.copytree(MADE / "narrow", tmp_path / "narrow")
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if "narrow" in name]:
        del sys.modules[name]
    for cached in ("fingerprint", "_content", "closure", "_imports"):
        getattr(sys.modules["flatlab.lab.plan.fingerprint"], cached).cache_clear()


def planned():
    return plan.Plan({"studies": ["."], "papers": ["narrow"]})


def job_of(chosen, record):
    """Code, settings and inputs of the job that a record is of, as planned today."""
    names = record["wildcards"]
    if record["rule"] == "prepare":
        return plan.fingerprint(plan.module_of("data", names["dataset"])), None, []
    experiment = chosen.experiment(names["experiment"])
    job = experiment.training(names["pack"])
    return job.code, job.settings, sorted(job.inputs.values())


def test_every_network_is_up_to_date(study):
    chosen, rules = planned(), set()
    for path in study.glob("results/**/*.provenance.json"):
        record = load_json(path)
        if record["rule"] in ("prepare", "train", "train_one"):
            made = [record["code"], record.get("settings"), sorted(record["inputs"])]
            assert json.loads(json.dumps(job_of(chosen, record))) == made, path
            rules.add(record["rule"])
    assert rules == {"prepare", "train", "train_one"}


def tables_of(keys):
    return {key: load_dataset(Path(f"results/demo/tables/{key}.zarr.zip")) for key in keys}


@pytest.mark.parametrize("number", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3))])
def test_figures_are_drawn_from_its_tables_as_they_were(study, number):
    from flatlab.lab.figures.render import make

    figure = planned().figure(f"narrow_fig{number}", "demo")
    drawn = make(figure.settings, tables_of(figure.experiments))
    as_it_was = pd.read_csv(f"results/demo/figures/narrow/fig{number}.csv")
    now = pd.read_csv(io.BytesIO(drawn["csv"]))
    pd.testing.assert_frame_equal(now, as_it_was, rtol=1e-6)  # of seven digits
    assert drawn["pdf"].startswith(b"%PDF")


def test_claims_are_judged_as_they_were(study):
    from flatlab.lab.claims import verify

    def rounded(content):  # machines round differently
        return json.loads(json.dumps(content), parse_float=lambda text: f"{float(text):.9g}")

    planned()
    verdicts = verify("narrow_fig1", tables_of(["narrow-grid"]))
    assert rounded(verdicts) == rounded(load_json(Path("results/demo/verdicts/narrow/fig1.json")))


def test_a_report_and_the_file_of_a_tracker_are_read(tmp_path, capsys):
    report, run = (str(MADE / f"{name}.zarr.zip") for name in ("report", "run"))
    assert main(["show", report, run]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("hessian_lambda_max", "jacobian_norm", "step 4"))
    assert main(["plot", run, "run", "loss", "--out", str(tmp_path / "run.svg")]) == 0
    assert "loss" in (tmp_path / "run.svg").read_text()


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_its_snakefile_finds_the_workflow(study):
    run("-c", Path("Snakefile").read_text().partition("\n\n\n")[0])


@pytest.mark.more
@pytest.mark.parametrize(
    ("key", "pack"),
    [
        ("narrow-grid", "lr0.3-b30-s0-4"),
        pytest.param("narrow-loop", "lr0.1-s0", marks=pytest.mark.long),
    ],
)
def test_networks_are_trained_and_measured_as_they_were(study, key, pack):
    for made in ("models", "metrics"):
        shutil.rmtree(f"results/demo/{made}")
    run("-m", "flatlab", "run", key, pack)
    weights = f"results/demo/models/{key}/{pack}.safetensors"
    for name, before in load_weights(MADE / "narrow" / weights)[0].items():
        np.testing.assert_allclose(load_weights(study / weights)[0][name], before, rtol=1e-5)
    (metrics,) = study.glob(f"results/demo/metrics/{key}/*/{pack}.zarr.zip")
    before = load_dataset(MADE / "narrow" / metrics.relative_to(study))
    xr.testing.assert_allclose(load_dataset(metrics), before, rtol=1e-6)
