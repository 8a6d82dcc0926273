"""Own, reduced or stand-in: how an experiment differs from the paper's."""

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from flatlab.core.schema import EVIDENCE
from flatlab.lab import plan
from tests.lab.kinds.experiments import content_of, load, set_key, written

CASES = yaml.safe_load(Path(__file__).with_name("evidence.yaml").read_text())


def judged(experiment, published):
    about = experiment.tabulating(published).settings["about"]
    return about["evidence"], about["differs"]


@pytest.mark.parametrize(("key", "case"), [(key, case) for key in CASES for case in CASES[key]])
def test_an_experiment_is_compared_with_the_papers(key, case, tmp_path):
    content, changes = content_of(key), dict(case)
    [kind] = {*EVIDENCE} & {*changes}
    words = changes.pop(kind)
    demo = content["scales"]["demo"] = {}
    for name, value in changes.items():
        if name.startswith("samples."):
            demo["measure"] = {"samples": dict(content["measure"]["samples"])}
            set_key(demo["measure"], name, value)
        else:
            demo[name] = value
    if key == "vision-zoo":  # each scale has its own networks
        content["scales"]["demo"] = {**content["scales"]["paper"], **demo}
    path = written(tmp_path, key, content)
    assert judged(load(path, "demo"), load(path, "paper")) == (kind, words)


def test_each_setting_is_compared_with_its_own(tmp_path):
    """Two settings that swap a value have the same values together, and yet differ."""
    content = content_of("mlp-grid")
    rates = {"slow": 0.05, "fast": 0.2}
    content["settings"] = [{"name": name, "lr": lr, "batch_size": 20} for name, lr in rates.items()]
    swapped = [{"name": "slow", "lr": 0.2}, {"name": "fast", "lr": 0.05}]
    content["scales"]["demo"] = {"settings": [each | {"batch_size": 20} for each in swapped]}
    path = written(tmp_path, "mlp-grid", content)
    ours, theirs = (load(path, scale) for scale in ("demo", "paper"))
    words = "learning rate: 0.2 or 0.05 instead of 0.05 or 0.2"
    assert judged(ours, theirs) == ("reduced", [words])


def kinds_at(scale, **config):
    chosen = plan.Plan({"scale": scale, **config})
    return {
        key: judged(experiment, chosen.as_published[key])
        for key, experiment in chosen.experiments.items()
    }


def test_at_scale_paper_everything_is_the_papers_own():
    assert {*map(repr, kinds_at("paper").values())} == {repr(("own", []))}


def test_the_demo_has_all_three_kinds():
    found = kinds_at("demo")
    assert {key: kind for key, (kind, _) in found.items() if kind != "stand-in"} == {
        "dln-grid": "reduced",
        "linear-grid": "own",
        "locally-constant-labels": "reduced",
        "regression-gaussian-grid": "reduced",
        "regression-relu-grid": "reduced",
        "representativeness": "reduced",
    }
    assert {found[key][0] for key in ("mlp-grid", "vgg-grid", "lenet-grid")} == {"stand-in"}
    assert found["regression-relu-grid"][1] == [
        "mlp (width 64) instead of mlp (width 256)",
        "initialization steps: 3,000 instead of 10,000",
        "5,000 epochs instead of 100,000",
        "10 of 20 networks",
    ]
    assert found["vision-zoo"][1] == ["local-zoo instead of timm-zoo", "60 images instead of 100"]
    assert all(bool(differs) == (kind != "own") for kind, differs in found.values())


def test_the_short_scale_reduces_the_papers_experiments():
    found = kinds_at("short", stand_ins={"cifar10": "cifar10-jpeg"})
    jpeg, fewer = "images of cifar10 re-encoded as JPEG", "60,000 iterations instead of 750,000"
    assert found["input-scale-grid"] == ("reduced", [jpeg])
    assert found["lenet-grid"] == ("reduced", [jpeg, fewer, "57 of 100 networks"])
    assert found["dln-grid"] == ("own", [])
    assert {found[f"joint-{network}-grid"][0] for network in ("mlp", "lenet")} == {"reduced"}
    assert all(bool(differs) == (kind != "own") for kind, differs in found.values())


def test_another_set_of_images_than_the_re_encoded_is_a_stand_in():
    ours = load("mlp-grid", "short").with_stand_ins({"fashion-mnist": "cifar10-jpeg"})
    kind, [words, *_] = judged(ours, load("mlp-grid", "paper"))
    assert (kind, words) == ("stand-in", "cifar10-jpeg instead of fashion-mnist")


def test_packs_that_are_not_measured_reduce_a_grid():
    whole = load("mlp-grid", "paper")
    packs = {
        key: whole.packs[key] for key in ("lr0.05-b20-s0-4", "lr0.1-b8-s0-4", "lr0.1-b8-s16-19")
    }
    part = replace(whole, packs=packs, missing_networks=86)
    assert judged(part, whole) == ("reduced", ["2 of 5 settings", "14 of 100 networks"])
