"""`flatlab run`: what it computes of experiments of every kind, and what it leaves as it is."""

import importlib
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan

ROOT = Path(__file__).resolve().parents[2]
ADAPTIVE = {"outputs": "sigmoid", "rho": 0.1, "draws": 2, "trace": "random", "probes": 2}
ADAPTIVE |= {"ascent_steps": 0, "tolerance": 0.1}
SCALE = {"name": "small-zoo", "grid": "mlp-grid"}
ZOO = {
    **{"kind": "zoo", "title": "The networks of a grid", "samples": 2, "seed": 0, "jobs": 2},
    "adaptive": ADAPTIVE,
    "scales": {"paper": SCALE, "short": SCALE, "demo": SCALE},
}


def rewrite(key, change):
    path = Path(f"experiments/{key}.yaml")
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def _smaller(grid):
    grid["settings"] = [{"lr": 0.05, "batch_size": 20}, {"lr": 0.1, "batch_size": 20}]
    grid["checkpoints"] = {"dense": "none", "seeds": "all"}
    grid["scales"]["demo"] |= {"seeds": ["0"], "measure": {"families": ["accuracy", "geometry"]}}
    grid["scales"]["demo"].pop("checkpoints", None)
    grid["scales"]["demo"]["training"]["iterations"] = 20


@pytest.fixture
def small(project):
    """The project with a small grid, the zoo of its networks, and a small simulation."""
    rewrite("mlp-grid", _smaller)
    rewrite(
        "representativeness",
        lambda content: content["scales"].update(
            demo={"settings": {"repeats": 2, "separations": [0.5]}}
        ),
    )
    Path("experiments/small-zoo.yaml").write_text(yaml.safe_dump(ZOO))


def stages(key):
    """The metric files of an experiment, each with what the workflow would make it with."""
    experiment = plan.Plan({}).experiment(key)
    return {
        experiment.metrics(pack, family): experiment.measuring(pack, family)
        for pack in experiment.packs
        for family in experiment.families
    }


@pytest.mark.parametrize("key", ["representativeness", "small-zoo"])
def test_experiments_of_every_kind_are_computed_once(key, small, capfd):
    assert main(["run", key]) == 0
    expected = stages(key)
    assert capfd.readouterr().out.split() == [str(path) for path in expected]
    for path, stage in expected.items():
        store.load_dataset(path)
        about = json.loads(Path(f"{path}.provenance.json").read_text())
        assert (about["code"], about["settings"]) == (stage.code, stage.settings)
        assert about["rule"] == "measure"
    before = {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}
    assert main(["run", key]) == 0
    assert capfd.readouterr().err.count(f"metrics/{key}/") == len(expected)  # up to date
    assert {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")} == before


def test_a_zoo_trains_the_grid_that_it_names(small):
    assert main(["run", "small-zoo", "1"]) == 0
    trained = {path.name for path in Path("results/demo/models/mlp-grid").glob("*0.safetensors")}
    assert trained == {"lr0.05-b20-s0.safetensors", "lr0.1-b20-s0.safetensors"}
    assert not Path("results/demo/metrics/mlp-grid").exists()
    assert [
        path.name for path in Path("results/demo/metrics/small-zoo/adaptive").glob("*.zip")
    ] == ["1.zarr.zip"]


def test_what_is_measured_already_does_not_limit_what_is_run(small, capfd):
    Path("config.yaml").write_text("packs: measured\n")
    assert main(["run", "mlp-grid", "lr0.1-b20-s0"]) == 0
    assert "lr0.1-b20-s0.zarr.zip" in capfd.readouterr().out


def test_results_name_the_commit_of_the_folder_and_whether_files_differ_from_it(small):
    def git(*arguments):
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", *author, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def recorded():
        assert main(["run", "representativeness", "--force"]) == 0
        records = [Path(f"{path}.provenance.json") for path in stages("representativeness")]
        (commit,) = {json.loads(record.read_text())["commit"] for record in records}
        return commit

    assert recorded() == ""
    git("init", "-q")
    git("add", "experiments")
    git("commit", "-qm", "experiments")
    assert recorded() == git("rev-parse", "HEAD")
    rewrite("mlp-grid", lambda grid: grid.update(title="another"))
    assert recorded() == git("rev-parse", "HEAD") + "-dirty"


def test_networks_that_are_trained_again_are_measured_again(small, capfd):
    pack, family = "lr0.1-b20-s0", "accuracy"
    asked = ["run", "mlp-grid", pack, "--family", family]
    assert main(asked) == 0
    experiment = plan.Plan({}).experiment("mlp-grid")
    report = experiment.metrics(pack, family)
    before = report.stat().st_mtime_ns
    Path(experiment.weights(pack)["weights"]).unlink()
    capfd.readouterr()
    assert main(asked) == 0
    assert "train: " in capfd.readouterr().err
    assert report.stat().st_mtime_ns > before


def test_what_is_there_is_not_made_again_unless_code_or_settings_changed(small, capfd, monkeypatch):
    pack, other = "lr0.1-b20-s0", "lr0.05-b20-s0"
    asked = ["run", "mlp-grid", pack]
    trained = {f"{pack}{end}" for end in (".safetensors", ".dense.safetensors", ".curves.zarr.zip")}

    def made(*arguments):
        before = {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}
        assert main([*asked, *arguments]) == 0
        after = {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}
        changed = {path for path in after if after[path] != before.get(path)}
        names = {path.name for path in changed if path.name.startswith("lr")}
        assert not [name for name in names if name.startswith(other)]
        families = {path.parent.name for path in changed if path.name == f"{pack}.zarr.zip"}
        return {name for name in names if "proven" not in name} & trained, families

    families = {*plan.Plan({}).experiment("mlp-grid").families}
    assert made() == (trained, families)
    capfd.readouterr()
    assert made() == (set(), set())
    assert capfd.readouterr().err.count("up to date") == 2 + len(families)  # data and weights
    assert made("--force", "--family", "accuracy") == (trained, {"accuracy"})
    rewrite("mlp-grid", lambda grid: grid["training"].update(momentum=0.5))
    assert made() == (trained, families)
    fingerprints = importlib.import_module("flatlab.lab.plan.fingerprint")
    content = fingerprints._content

    def edited(module):
        return content(module) + b"EDITED" * (module == "flatlab.metrics.accuracy")

    monkeypatch.setattr(fingerprints, "_content", edited)
    fingerprints.fingerprint.cache_clear()
    assert made() == (set(), {"accuracy"})
    fingerprints.fingerprint.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mlp-gird"], "unknown experiment 'mlp-gird'; did you mean 'mlp-grid'?"),
        (["mlp-grid", "lr0.1-b20-s1"], "did you mean 'lr0.1-b20-s0'?"),
        (["mlp-grid", "--family", "acuracy"], "did you mean 'accuracy'?"),
        (["small-zoo", "2"], "unknown '2' of small-zoo"),
    ],
)
def test_a_misspelt_name_is_a_sentence(arguments, sentence, small, capsys):
    assert main(["run", *arguments]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not Path("results").exists()
