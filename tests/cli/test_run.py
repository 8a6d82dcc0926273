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

PACK, OTHER = "lr0.1-b20-s0", "lr0.05-b20-s0"


def rewrite(key, change):
    [path] = Path("papers").glob(f"*/experiments/{key}.yaml")
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
def small(project, small_zoo):
    """The project with a small grid, the zoo of its networks, and a small simulation."""
    rewrite("mlp-grid", _smaller)
    two = {"settings": {"repeats": 2, "separations": [0.5]}}
    rewrite("representativeness", lambda content: content["scales"].update(demo=two))
    few = {"draws": 2, "trace": "random", "probes": 2, "ascent_steps": 0, "tolerance": 0.1}
    small_zoo("mlp-grid", **few)


def stages(key):
    """The metric files of an experiment, each with what the workflow would make it with."""
    experiment = plan.Plan({}).experiment(key)
    return {
        experiment.metrics(pack, family): experiment.measuring(pack, family)
        for pack in experiment.packs
        for family in experiment.families
    }


def dates():
    return {path: path.stat().st_mtime_ns for path in Path("results").rglob("*")}


@pytest.mark.first(1)
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
    before = dates()
    assert main(["run", key]) == 0
    assert capfd.readouterr().err.count(f"metrics/{key}/") == len(expected)  # up to date
    assert dates() == before


def test_a_zoo_trains_the_grid_that_it_names(small):
    assert main(["run", "small-zoo", "1"]) == 0
    trained = {path.name for path in Path("results/demo/models/mlp-grid").glob("*0.safetensors")}
    assert trained == {f"{OTHER}.safetensors", f"{PACK}.safetensors"}
    assert not Path("results/demo/metrics/mlp-grid").exists()
    measured = Path("results/demo/metrics/small-zoo/adaptive").glob("*.zip")
    assert [path.name for path in measured] == ["1.zarr.zip"]


@pytest.mark.more
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
    git("add", "papers")
    git("commit", "-qm", "experiments")
    assert recorded() == git("rev-parse", "HEAD")
    rewrite("mlp-grid", lambda grid: grid.update(title="another"))
    assert recorded() == git("rev-parse", "HEAD") + "-dirty"


@pytest.mark.more
def test_what_is_there_is_not_made_again_unless_code_or_settings_changed(small, capfd, monkeypatch):
    """Networks that are trained again are measured again, whatever has been measured before."""
    Path("config.yaml").write_text("packs: measured\n")
    trained = {f"{PACK}{end}" for end in (".safetensors", ".dense.safetensors", ".curves.zarr.zip")}

    def made(*arguments):
        before = dates()
        assert main(["run", "mlp-grid", PACK, *arguments]) == 0
        changed = {path for path, date in dates().items() if date != before.get(path)}
        assert not [path for path in changed if path.name.startswith(OTHER)]
        families = {path.parent.name for path in changed if path.name == f"{PACK}.zarr.zip"}
        return {path.name for path in changed} & trained, families

    families = {*plan.Plan({}).experiment("mlp-grid").families}
    assert made() == (trained, families)
    capfd.readouterr()
    assert made() == (set(), set())
    assert capfd.readouterr().err.count("up to date") == 2 + len(families)  # data and weights
    assert made("--force", "--family", "accuracy") == (trained, {"accuracy"})
    Path(plan.Plan({}).experiment("mlp-grid").weights(PACK)["weights"]).unlink()
    assert made("--family", "accuracy") == (trained, {"accuracy"})
    rewrite("mlp-grid", lambda grid: grid["training"].update(momentum=0.5))
    assert made() == (trained, families)
    fingerprints = importlib.import_module("flatlab.lab.plan.fingerprint")
    content = fingerprints._content

    def edited(module):
        return content(module) + b"EDITED" * (module == "flatlab.families.accuracy")

    monkeypatch.setattr(fingerprints, "_content", edited)
    fingerprints.fingerprint.cache_clear()
    assert made() == (set(), {"accuracy"})
    fingerprints.fingerprint.cache_clear()
