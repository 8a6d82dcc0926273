"""A study with its results, a report and the file of a tracker, all made by commit b2dd2a3e.

All of them still work. A study may import modules by the names that they had then: for each of
these it is told the name of today in a sentence.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flatlab import plan
from flatlab.cli import main
from flatlab.store import load_dataset, load_json, load_weights

ROOT = Path(__file__).resolve().parents[2]
MADE = Path(__file__).parent / "b2dd2a3e"
SENTENCE = re.compile(r"(\S+):\d+: FutureWarning: (\S+) is now (\S+)")

pytestmark = pytest.mark.filterwarnings("ignore:.* is now :FutureWarning")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The study, in whose folder the test runs; afterwards there is none."""
    monkeypatch.setenv("FLATLAB_STUDIES", "")
    folder = shutil.copytree(MADE / "narrow", tmp_path / "narrow")
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if "narrow" in name]:
        del sys.modules[name]


def planned():
    return plan.Plan({"studies": ["."], "papers": ["narrow"]}, Path("nowhere"))


def job_of(chosen, record):
    """Code, settings and inputs of the job that a record is of, as planned today."""
    names = record["wildcards"]
    if record["rule"] == "prepare":
        return plan.fingerprint(plan.module_of("data", names["dataset"])), None, []
    experiment = chosen.experiment(names["experiment"])
    if record["rule"] == "table":
        job = experiment.tabulating(chosen.as_published(experiment.key))
        files = [str(path) for path in experiment.metric_files]
    else:
        measured = record["rule"] == "measure"
        names_of_job = [names[name] for name in ("pack", "family")[: 1 + measured]]
        job = (experiment.measuring if measured else experiment.training)(*names_of_job)
        files = job.inputs.values()
    return job.code, json.loads(json.dumps(job.settings)), sorted(files)


def test_every_result_is_up_to_date(study):
    chosen, rules = planned(), set()
    for path in study.glob("results/**/*.provenance.json"):
        record = load_json(path)
        if record["rule"] != "correlate":
            made = (record["code"], record.get("settings"), sorted(record["inputs"]))
            assert job_of(chosen, record) == made, path
            rules.add(record["rule"])
    assert rules == {"prepare", "train", "train_one", "measure", "table"}


def tables_of(keys, ending=""):
    return {key: load_dataset(Path(f"results/demo/tables/{key}{ending}.zarr.zip")) for key in keys}


@pytest.mark.parametrize("number", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_figures_are_drawn_from_its_tables_as_they_were(study, number):
    from flatlab.plotting.render import make

    figure = planned().figure(f"narrow_fig{number}", "demo")
    correlations = tables_of(figure.correlated, ".correlations")
    drawn = make(figure.settings, tables_of(figure.experiments), correlations)
    assert drawn["csv"] == Path(f"results/demo/figures/narrow/fig{number}.csv").read_bytes()
    assert drawn["pdf"].startswith(b"%PDF")


def test_claims_are_judged_as_they_were(study):
    from flatlab.claims.verify import verify

    planned()
    verdicts = json.loads(json.dumps(verify("narrow_fig1", tables_of(["narrow-grid"]))))
    assert verdicts == load_json(Path("results/demo/verdicts/narrow/fig1.json"))


def test_a_report_and_the_file_of_a_tracker_are_read(tmp_path, capsys):
    report, run = (str(MADE / f"{name}.zarr.zip") for name in ("report", "run"))
    assert main(["show", report, run]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("hessian_lambda_max", "jacobian_norm", "step 3"))
    assert main(["plot", run, "run", "loss", "--out", str(tmp_path / "run.svg")]) == 0
    assert "loss" in (tmp_path / "run.svg").read_text()


def sentences_of(*arguments):
    """What a fresh process says of former names: the file of the study, that name, today's."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {(Path(file).name, old, new) for file, old, new in SENTENCE.findall(done.stderr)}


def test_its_snakefile_finds_the_workflow(study):
    first = [line for line in Path("Snakefile").read_text().splitlines() if "import" in line]
    assert sentences_of("-c", first[0]) == set()


@pytest.mark.parametrize(
    ("key", "pack", "sentences"),
    [
        ("narrow-grid", "lr0.3-b30-s0-4", set()),
        pytest.param("narrow-loop", "lr0.1-s0", set(), marks=pytest.mark.long),
    ],
)
def test_networks_are_trained_and_measured_as_they_were(study, key, pack, sentences):
    for made in ("models", "metrics"):
        shutil.rmtree(f"results/demo/{made}")
    assert sentences_of("-m", "flatlab", "run", key, pack) == sentences
    weights = f"results/demo/models/{key}/{pack}.safetensors"
    for name, before in load_weights(MADE / "narrow" / weights)[0].items():
        np.testing.assert_allclose(load_weights(study / weights)[0][name], before, rtol=1e-9)
    (metrics,) = study.glob(f"results/demo/metrics/{key}/*/{pack}.zarr.zip")
    before = load_dataset(MADE / "narrow" / metrics.relative_to(study))
    for name, values in load_dataset(metrics).data_vars.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, before[name], rtol=1e-6)
