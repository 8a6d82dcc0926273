"""Proof that other code computes the same, and what is recorded of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.core import store
from flatlab.lab.jobs.standalone import Named
from flatlab.lab.plan import PROOFS, Plan
from tools.prove_equal import checkout
from tools.prove_equal.__main__ import main
from tools.prove_equal.jobs import Cut, Planned, pieces
from tools.prove_equal.proof import differences

ROOT = Path(__file__).resolve().parents[2]

FILE = xr.Dataset(
    {"mls": (("run", "layer"), np.array([[1.0, np.nan]])), "kept": ("run", [1])},
    {"layer": np.array(["fc1", "fc2"], object)},
)


@pytest.mark.parametrize(
    ("other", "renamed", "words"),
    [
        (FILE.assign_attrs(title="other"), {}, []),
        (FILE.rename(mls="norm"), {"mls": "norm"}, []),
        (FILE.rename(layer="module"), {"layer": "module"}, []),
        (FILE.drop_vars("kept"), {"kept": ""}, []),
        (FILE.rename(mls="norm"), {}, ["lacks mls", "has norm besides"]),
        (FILE.assign(mls=FILE.mls + 1e-12), {}, ["other values of mls"]),
        (FILE.assign(mls=FILE.mls.astype("float32")), {}, ["other values of mls"]),
        (FILE.assign(mls=FILE.mls.T), {}, ["other values of mls"]),
        (FILE.assign_coords(layer=np.array(["fc1", "fc3"], object)), {}, ["other values of layer"]),
    ],
)
def test_files_are_equal_in_every_value_type_and_dimension(tmp_path, other, renamed, words):
    old, new = tmp_path / "old.zarr.zip", tmp_path / "new.zarr.zip"
    store.save_dataset(old, FILE)
    store.save_dataset(new, other)
    assert list(differences(old, new, renamed)) == words


def test_weights_are_equal_with_what_describes_them(tmp_path):
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    store.save_weights(old, {"fc.weight": np.ones(2)}, {"steps": [3]})
    store.save_weights(new, {"fc.weight": np.ones(2)}, {"steps": [4]})
    assert list(differences(old, new)) == ["another description"]


@pytest.fixture(scope="module")
def planned():
    """What this project plans for all experiments at scale demo, with other code in their place."""
    keys = [*Plan({}).experiments]

    def answer(code):
        config = {"papers": "all", "device": "cpu"}
        found = checkout.planned(ROOT, {"config": config, "experiments": {"demo": keys}})
        for experiment in found["demo"]["experiments"].values():
            for jobs in experiment["packs"].values():
                for job in (jobs["train"], *jobs["measure"].values()):
                    if job:
                        job["params"]["code"] = code(job)
        return Planned(found)

    return answer


def test_every_combination_of_architecture_loss_data_and_code_is_computed_once(planned):
    old, new = planned(lambda job: "old"), planned(lambda job: "new")
    found = pieces(old, new, Cut(7, 2))
    networks = {new.combination(piece.pack)[0] for piece in found}
    assert {"mlp", "vgg", "lenet5", "resnet", "simple-vit"} <= networks
    stages = [(new.combination(p.pack), change) for p in found for change in p.changes]
    every = {
        (new.combination(pack), (stage, "old", code))
        for pack in new.packs.keys() & old.packs.keys()
        for stage, code in new.codes(pack).items()
    }
    assert len(stages) == len({*stages}) == len(every)
    assert len(found) < len(new.packs) / 3
    made = {path for p in found for j in p.jobs["new"] for path in j["output"].values()}
    for job in (job for piece in found for job in piece.jobs["new"]):
        for path in Named(job["input"]):
            assert path in made, path
        settings = job["params"].get("settings", {})
        if job["rule"] == "train":
            assert settings["training"]["iterations"] <= 7
            assert len(settings["runs"]) == len(settings["seeds"])


@pytest.mark.more
def test_jobs_whose_code_is_the_same_are_not_computed(planned):
    old, new = planned(lambda job: "same"), planned(lambda job: "same")
    assert pieces(old, new, Cut()) == []
    new = planned(lambda job: "other" if job["wildcards"].get("family") == "adaptive" else "same")
    [piece] = pieces(old, new, Cut(5, 1))
    assert piece.pack[1] == "vision-zoo"
    rules = [job["rule"] for job in piece.jobs["new"]]
    assert {*rules} == {"prepare", "train", "measure"}


TWICE = """
_measure = measure


def measure(*given):
    found = _measure(*given)
    name = next(iter(found.values))
    found.values[name] = found.values[name] * 2
    return found
"""


@pytest.mark.more
def test_what_both_compute_alike_is_recorded_and_what_differs_is_named(
    tmp_path, monkeypatch, capsys
):
    """The older code differs in a loss without effect, and in the value of one quantity."""
    old, here = tmp_path / "old", tmp_path / "here"
    for name in ("flatlab", "scripts", "papers"):
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / name, old / name, ignore=ignored)
    with (old / "flatlab/losses/__init__.py").open("a") as file:
        file.write("\nUNUSED = 1\n")
    with (old / "papers/andriushchenko2023/families/linear.py").open("a") as file:
        file.write(TWICE)
    for name in ("provenance.json", "tables/linear-grid.zarr.zip"):
        content = (ROOT / "results/published/demo" / name).read_bytes()
        store.replace(here / "results/published/demo" / name, content)
    (here / "config.yaml").touch()
    monkeypatch.chdir(here)
    command = [str(old), "linear-grid", "--iterations=5", "--networks=1"]
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "DIFFERS" in said
    assert "other values of" in said
    assert "1 of 2 changes of code proved equal" in said
    [proved] = json.loads(Path(PROOFS).read_text())
    [evidence] = proved.pop("evidence")
    assert proved["stage"] == "train"
    assert proved["iterations"] == 5
    assert (evidence["experiment"], evidence["files"]) == ("linear-grid", 4)
    dates = {path: path.stat().st_mtime for path in Path("results/proof").rglob("*.zarr.zip")}
    assert main(command) == 1
    assert dates == {path: path.stat().st_mtime for path in dates}, "computed again"


def test_what_is_no_checkout_and_no_table_is_a_sentence(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "is no checkout: it has no scripts" in capsys.readouterr().err
    assert main([str(ROOT), "linear-gird"]) == 1
    assert "no table of 'linear-gird' is published" in capsys.readouterr().err
