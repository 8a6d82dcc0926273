"""Proof that other code computes the same, and what follows for published tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab import cli
from flatlab.core import store
from flatlab.lab.plan import PROOFS, Plan, outdated
from flatlab.lab.publish import checkout, proof
from flatlab.lab.publish.equality import differences
from flatlab.lab.publish.proof_jobs import Cut, Planned, pieces
from tests.lab.publish.made_up import PUBLISHED, ROOT, chosen


def entry(old, new, stage="train"):
    return {"stage": stage, "old": old, "new": new}


def test_tables_follow_proofs_from_code_to_code_of_their_own_stage(published):
    path = PUBLISHED / "provenance.json"
    made = json.loads(path.read_text())
    [now] = made["mlp-grid"]["code"]["train"]
    made["mlp-grid"]["code"]["train"] = ["first"]
    store.save_json(path, made)

    def is_outdated():
        return bool([*outdated(chosen().experiment)])

    proof.record([entry("first", "second")])
    assert is_outdated()
    proof.record([entry("second", now, "accuracy+geometry"), entry(now, "second")])
    assert is_outdated()
    proof.record([entry("second", now)])
    assert not is_outdated()
    assert len(json.loads(PROOFS.read_text())) == 4


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
    keys = [*Plan({}, ROOT / "experiments").experiments]

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


def test_every_combination_of_architecture_loss_data_and_families_is_computed(planned):
    old, new = planned(lambda job: "old"), planned(lambda job: "new")
    found = pieces(old, new, Cut(7, 2))
    networks = {new.combination(piece.pack)[0] for piece in found}
    assert {"mlp", "vgg", "lenet5", "resnet", "simple-vit"} <= networks
    keys = [(new.combination(p.pack), *[stage for stage, *_ in p.changes]) for p in found]
    assert len({*map(str, keys)}) == len(keys) < len(new.packs) / 3
    made = {path for p in found for j in p.jobs["new"] for path in j["output"].values()}
    for job in (job for piece in found for job in piece.jobs["new"]):
        for path in checkout.Named(job["input"]):
            assert path in made, path
        settings = job["params"].get("settings", {})
        if job["rule"] == "train":
            assert settings["training"]["iterations"] <= 7
            assert len(settings["runs"]) == len(settings["seeds"])


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


def test_what_both_compute_alike_is_recorded_and_what_differs_is_named(
    tmp_path, monkeypatch, capsys
):
    """The older code differs in a loss without effect, and in the value of one quantity."""
    old = tmp_path / "old"
    for name in ("flatlab", "scripts", "experiments"):
        shutil.copytree(ROOT / name, old / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (old / "flatlab/losses/__init__.py").open("a") as file:
        file.write("\nUNUSED = 1\n")
    path = old / "flatlab/metrics/linear.py"
    path.write_text(f"{path.read_text()}{TWICE}")
    here = tmp_path / "here"
    for name in ("provenance.json", "tables/linear-grid.zarr.zip"):
        target = here / "results/published/demo" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "results/published/demo" / name, target)
    (here / "experiments").symlink_to(ROOT / "experiments")
    (here / "config.yaml").touch()
    monkeypatch.chdir(here)
    command = ["prove-equal", str(old), "linear-grid", "--iterations=5", "--networks=1"]
    assert cli.main(command) == 1
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
    assert cli.main(command) == 1
    assert dates == {path: path.stat().st_mtime for path in dates}, "computed again"
