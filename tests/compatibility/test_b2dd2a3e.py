"""A study with its results, a report and the file of a tracker, all made by commit b2dd2a3e.

All of them still work, but the templates of its figures, whose names of today it is told in a
sentence. A study may import modules by the names that they had then: for each of these it is told
the name of today in a sentence.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core.former_names import current
from flatlab.core.store import load_dataset, load_json, load_weights
from flatlab.lab import plan

ROOT = Path(__file__).resolve().parents[2]
MADE = Path(__file__).parent / "b2dd2a3e"
SENTENCE = re.compile(r"(\S+):\d+: FutureWarning: (\S+) is now (\S+)")
TOLD = {
    ("figures.py", "flatlab.plan", "flatlab.lab.plan"),
    ("figures.py", "flatlab.plotting", "flatlab.lab.figures"),
    ("narrow_descent.py", "flatlab.train", "flatlab.lab.train"),
    ("narrow_norm.py", "flatlab.metrics", "flatlab.families"),
    ("narrow_net.py", "flatlab.plan.options", "flatlab.core.options"),
    ("narrow_net.py", "flatlab.plan.schema", "flatlab.core.schema"),
}
"""What the author of the grid has to change: a sentence per name, for the first file with it."""
OF_THE_LOOP = "figures.py", "narrow_norm.py"
TEMPLATES = {"Points": "Pairs", "Own": "CustomFigure", "Lines": "Sweep"}
IMPORT = re.compile(r"(?<=^from )flatlab[\w.]+", re.MULTILINE)

pytestmark = pytest.mark.filterwarnings("ignore:.* is now :FutureWarning")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The study, in whose folder the test runs; afterwards there is none."""
    monkeypatch.setenv("FLATLAB_STUDIES", "")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = shutil.copytree(MADE / "narrow", tmp_path / "narrow")
    figures = (folder / "figures.py").read_text()
    (folder / "figures.py").write_text(
        re.sub("Points|Own|Lines", lambda f: TEMPLATES[f[0]], figures)
    )
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if "narrow" in name]:
        del sys.modules[name]
    for cached in ("fingerprint", "_content", "closure", "_imports"):
        getattr(sys.modules["flatlab.lab.plan.fingerprint"], cached).cache_clear()


def planned():
    return plan.Plan({"studies": ["."], "papers": ["narrow"]})


def test_the_templates_of_its_figures_are_told_by_their_names_of_today(study):
    shutil.copy(MADE / "narrow" / "figures.py", "figures.py")
    with pytest.raises(plan.PlanError, match=r"narrow/figures\.py: .*, Own is CustomFigure"):
        planned()


def job_of(chosen, record):
    """Code, settings and inputs of the job that a record is of, as planned today."""
    names = record["wildcards"]
    if record["rule"] == "prepare":
        return plan.fingerprint(plan.module_of("data", names["dataset"])), None, []
    experiment = chosen.experiment(names["experiment"])
    job = experiment.training(names["pack"])
    return job.code, job.settings, sorted(job.inputs.values())


@pytest.mark.parametrize("followed", [False, True])
def test_every_network_is_up_to_date_before_and_after_the_sentences_are_followed(study, followed):
    for path in study.rglob("*.py") if followed else []:
        path.write_text(IMPORT.sub(lambda found: current(found[0]), path.read_text()))
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
    of_old = pytest.warns(FutureWarning, match=r"frame\(figure, tables\)")
    with of_old if number == 2 else contextlib.nullcontext():
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
    assert all(name in printed for name in ("hessian_lambda_max", "jacobian_norm", "step 3"))
    assert main(["plot", run, "run", "loss", "--out", str(tmp_path / "run.svg")]) == 0
    assert "loss" in (tmp_path / "run.svg").read_text()


def sentences_of(*arguments):
    """What a fresh process says of former names: the file of the study, that name, today's."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {(Path(file).name, old, new) for file, old, new in SENTENCE.findall(done.stderr)}


def test_its_snakefile_finds_the_workflow(study):
    (line,) = re.findall("^from .*", Path("Snakefile").read_text(), re.MULTILINE)
    names = {old: new for _, old, new in sentences_of("-c", line)}
    assert names["flatlab.plan.studies"] == "flatlab.core.studies"


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
    told = {each for each in TOLD if key == "narrow-grid" or each[0] in OF_THE_LOOP}
    assert sentences_of("-m", "flatlab", "run", key, pack) == told
    weights = f"results/demo/models/{key}/{pack}.safetensors"
    for name, before in load_weights(MADE / "narrow" / weights)[0].items():
        np.testing.assert_allclose(load_weights(study / weights)[0][name], before, rtol=1e-5)
    (metrics,) = study.glob(f"results/demo/metrics/{key}/*/{pack}.zarr.zip")
    before = load_dataset(MADE / "narrow" / metrics.relative_to(study))
    xr.testing.assert_allclose(load_dataset(metrics), before, rtol=1e-6)
