"""Training that starts from the weights with which networks of another grid ended."""

import copy

import numpy as np
import pytest
import torch
import yaml

from flatlab.core.registry import experiment_files
from flatlab.lab import plan
from flatlab.lab.train import TrainError, train_packs
from flatlab.networks import build
from tests.lab.train.packs import RANDOM, images, interrupted, only, same, settings

GRID = yaml.safe_load(experiment_files()["lenet-grid"].read_text())
RAW = images((8, 8), classes=4)
FIRST, LATER = ({**RANDOM["data"], "classes": classes} for classes in ([0, 1], [0, 2, 3]))
HEADS = {"mlp": "fc4", "lenet5": "fc3", "resnet": "fc"}


def pretrained(network, seeds=(0, 3), **given):
    return only(RAW, settings(network, seeds, data=FIRST, **given))


def fine_tuning(network, anew, seeds=(0, 3), runs=((0, "s0"), (0, "s3")), **given):
    """The settings of a job that fine-tunes networks of `pretrained` on three classes."""
    start = {"grid": "first-grid", "runs": [list(run) for run in runs], "anew": list(anew)}
    return {**settings(network, seeds, data=LATER, **given), "start": start}


def initial(pack, starts):
    arrays, about = only(RAW, pack, starts=[starts]).dense
    assert about["iterations"][0] == 0
    return {name: array[:, 0] for name, array in arrays.items()}


@pytest.mark.first(1)
@pytest.mark.parametrize("network", HEADS)
def test_all_but_the_head_are_the_weights_of_the_other_grid(network):
    made = build(settings(network)["network"], (1, 8, 8), 3)
    assert isinstance(dict(made.named_modules())[HEADS[network]], torch.nn.Linear)
    given = {"mode": "loop" if network == "lenet5" else "batched", "iterations": 20}
    before = pretrained(network, **given)
    pack = fine_tuning(network, [HEADS[network]], checkpoints=[0], **given)
    found = initial(pack, [before.weights])
    fresh = initial(
        {**pack, "start": {**pack["start"], "runs": [[0, "s3"], [0, "s3"]]}}, [before.weights]
    )
    plain = {name: value for name, value in pack.items() if name != "start"}
    drawn = initial(plain, [])
    theirs = before.weights[0]
    for name, array in found.items():
        if name.startswith(f"{HEADS[network]}."):
            assert np.array_equal(array, drawn[name])  # by each run's own seed
            assert np.array_equal(fresh[name], drawn[name])
        else:
            assert np.array_equal(array, theirs[name][:, -1])
            assert np.array_equal(fresh[name], theirs[name][[1, 1], -1])
    assert not np.array_equal(
        found[f"{HEADS[network]}.weight"][0], found[f"{HEADS[network]}.weight"][1]
    )


def test_an_interrupted_one_ends_with_the_same_bytes(tmp_path):
    given = {"mode": "batched", "iterations": 20, "precision": "float32"}
    augmented = {key: value for key, value in RANDOM.items() if key != "data"}
    before = pretrained("resnet", **given)
    pack = fine_tuning("resnet", ["fc"], **given, **augmented)
    expected = only(RAW, pack, starts=[[before.weights]])
    interrupted(11, RAW, [pack], starts=[[before.weights]], folders=[tmp_path])
    resumed = only(RAW, pack, starts=[[before.weights]], folders=[tmp_path])
    same(resumed, expected)


@pytest.mark.more
def test_other_weights_abandon_what_was_begun(tmp_path):
    given = {"mode": "batched", "iterations": 40}
    one, other = (pretrained("mlp", lr=lr, **given) for lr in (0.01, 0.03))
    pack = fine_tuning("mlp", ["fc4"], **given)
    interrupted(23, RAW, [pack], starts=[[one.weights]], folders=[tmp_path])
    expected = only(RAW, pack, starts=[[other.weights]])
    found = only(RAW, pack, starts=[[other.weights]], folders=[tmp_path])
    same(found, expected)


def test_a_network_that_diverged_stays_diverged():
    before = pretrained("mlp", lr=1e6, mode="batched")
    pack = fine_tuning("mlp", ["fc4"], mode="batched")
    trained = only(RAW, pack, starts=[[before.weights]])
    assert trained.weights[1]["ended"] == ["diverged", "diverged"]


MISFITS = [  # an architecture and its options before, what is drawn anew, and what is said
    ("mlp", {}, [], r"fc4.weight is \(2, 64\) in first-grid and \(3, 64\) here; list its module"),
    ("mlp", {}, ["fc5"], "no module 'fc5'; did you mean 'fc4'"),
    ("resnet", {"normalization": "none"}, ["fc"], r"is absent in first-grid|is .* and absent here"),
]


@pytest.mark.parametrize(("network", "options", "anew", "words"), MISFITS)
def test_weights_that_do_not_fit_are_refused(network, options, anew, words):
    before = pretrained(network, mode="batched", iterations=2, options=options)
    with pytest.raises(TrainError, match=words):
        train_packs(RAW, [fine_tuning(network, anew, mode="batched")], starts=[[before.weights]])


# --- the files of grids


def loaded(folder, scale="demo", **files):
    """Grids by key.  files: what each changes of lenet-grid."""
    for name, changes in files.items():
        content = copy.deepcopy(GRID)
        for section, value in changes.items():
            content[section] = {**content[section], **value} if isinstance(value, dict) else value
        (folder / f"{name.replace('_', '-')}.yaml").write_text(
            yaml.safe_dump(content, sort_keys=False)
        )
    chosen = plan.Plan({"scale": scale, "packs": "all", "papers": "all"})
    return chosen.experiments


@pytest.fixture
def folder(papers):
    return papers / "chen2026/experiments"


def tuned(**start):
    return {"training": {"start": {"grid": "lenet-grid", "anew": ["fc3"], **start}}}


def test_a_run_starts_from_that_of_its_seed_or_from_one_for_all(folder):
    setting = "lr0.2-b20"  # which has the seeds of all others
    found = loaded(folder, "short", own=tuned(setting=setting), one=tuned(setting=setting, seed=7))
    own, one = (found[key].training(f"{setting}-s5-9") for key in ("own", "one"))
    weights = f"results/short/models/lenet-grid/{setting}"
    assert own.inputs["start"] == [f"{weights}-s5-9.safetensors"]
    assert own.settings["start"]["runs"] == [[0, f"{setting}-s{seed}"] for seed in range(5, 10)]
    assert one.inputs["start"] == [f"{weights}-s5-9.safetensors"]
    assert one.settings["start"]["runs"] == [[0, f"{setting}-s7"]] * 5
    assert "start" not in own.settings["training"]
    assert found["own"].needs() == ["lenet-grid"]
    plain = found["lenet-grid"].training(f"{setting}-s5-9")
    assert "start" not in plain.settings
    assert "start" not in plain.inputs
    assert {key: own.settings[key] for key in plain.settings} == plain.settings
    measured = [
        found[key].measuring(f"{setting}-s5-9", "geometry") for key in ("own", "lenet-grid")
    ]
    assert measured[0].settings == measured[1].settings


@pytest.mark.more
def test_a_smaller_first_grid_is_reduced_evidence(folder):
    found = loaded(folder, tuned=tuned(setting="lr0.1-b20"))
    published = loaded(folder, "paper")["tuned"]
    about = found["tuned"].tabulating(published).settings["about"]
    assert "lenet-grid: 2,000 iterations instead of 750,000" in about["differs"]


BAD = {
    "a circle": ({"grid": "a", "setting": "lr0.1-b20"}, "need each other: (tuned|a) needs"),
    "unknown grid": ({"grid": "lenet-gird"}, "unknown experiment 'lenet-gird'; did you mean"),
    "no grid": ({"grid": "representativeness"}, "representativeness is not a grid"),
    "itself": ({"grid": "tuned"}, "tuned cannot start from itself"),
    "no setting": ({}, "training.start.setting is missing; lenet-grid has several: lr0.05-b20"),
    "unknown setting": ({"setting": "lr0.2-b2"}, "no setting 'lr0.2-b2'; did you mean 'lr0.2-b20'"),
    "no seed": ({"setting": "lr0.1-b20", "seed": 99}, "lenet-grid has no run lr0.1-b20-s99"),
    "misspelt": ({"setings": "lr0.1-b20"}, "training.start.*setings"),
}


@pytest.mark.first(3)
@pytest.mark.parametrize("kind", BAD)
def test_a_start_that_is_not_there_is_refused_with_the_key(kind, folder):
    start, words = BAD[kind]
    circle = {"a": tuned(grid="tuned", setting="lr0.1-b20")} if kind == "a circle" else {}
    with pytest.raises(plan.PlanError, match=rf"(?s)(tuned|a)\.yaml.*{words}"):
        loaded(folder, tuned=tuned(**start), **circle)
