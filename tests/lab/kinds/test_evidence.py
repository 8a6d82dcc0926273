"""Own, reduced or stand-in: how an experiment differs from the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flatlab.lab import plan
from tests.lab.kinds.experiments import content_of, load, written



def judged(experiment: plan.Experiment, published: plan.Experiment) -> tuple[str, list[str]]:
    about = experiment.tabulating(published).settings["about"]
    return about["evidence"], about["differs"]


def changed(folder: Path, key: str, **changes: Any) -> tuple[str, list[str]]:
    """What an experiment is whose scale `demo` changes these keys of the paper's."""
    content = content_of(key)
    content["scales"]["demo"] = changes
    path = written(folder, key, content)
    return judged(load(path, "demo"), load(path, "paper"))


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "own", []),
        ({"data": {"set": "digits"}}, "stand-in", ["digits instead of cifar10"]),
        ({"data": {"set": "cifar10-jpeg"}}, "reduced", ["images of cifar10 re-encoded as JPEG"]),
        ({"network": {"name": "lenet5"}}, "stand-in", ["lenet5 instead of vgg"]),
        (
            {"network": {"hidden": [64], "padding": 2}},
            "reduced",
            ["vgg (hidden 64, padding 2) instead of vgg"],
        ),
        ({"network": {"outputs": 10}}, "reduced", ["outputs: 10 instead of classes"]),
        ({"data": {"classes": "all"}}, "reduced", ["classes: all instead of 0, 1"]),
        ({"data": {"samples": 5000}}, "reduced", ["5,000 training samples instead of all"]),
        ({"training": {"iterations": 60000}}, "reduced", ["60,000 iterations instead of 750,000"]),
        (
            {"training": {"iterations": None, "epochs": 5}},
            "reduced",
            ["5 epochs instead of 750,000 iterations"],
        ),
        ({"training": {"momentum": 0.9}}, "reduced", ["momentum: 0.9 instead of 0"]),
        ({"training": {"optimizer": "adam"}}, "reduced", ["optimizer: adam instead of sgd"]),
        ({"training": {"mode": "loop", "precision": "tf32"}}, "own", []),
        ({"measure": {"precision": "float32"}}, "own", []),
        ({"seeds": ["0-4"]}, "reduced", ["25 of 100 networks"]),
        ({"seeds": ["0-4", "5-39"]}, "own", []),
        (
            {"settings": [{"lr": 0.1, "batch_size": 20}, {"lr": 0.1, "batch_size": 8}]},
            "reduced",
            ["2 of 5 settings", "40 of 100 networks"],
        ),
        (
            {"settings": [{"lr": 0.3, "batch_size": 20}]},
            "reduced",
            [
                "learning rate: 0.3 instead of 0.05 or 0.1 or 0.2",
                "0 of 5 settings",
                "20 of 100 networks",
            ],
        ),
        (
            {"training": {"iterations": 9}, "data": {"set": "digits"}},
            "stand-in",
            ["digits instead of cifar10", "9 iterations instead of 750,000"],
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_grid_is_compared_with_the_papers(
    changes: dict[str, Any], kind: str, words: list[str], tmp_path: Path
) -> None:
    assert changed(tmp_path, "vgg-grid", **changes) == (kind, words)


SAMPLES = content_of("vgg-grid")["measure"]["samples"]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (
            SAMPLES | {"test": {"split": "test", "size": 50, "seed": 0}},
            ["50 test samples measured instead of 100"],
        ),
        (SAMPLES | {"test": {"split": "test", "size": 500, "seed": 0}}, []),
        (
            SAMPLES | {"test": {"split": "train", "size": 500, "seed": 0}},
            ["other test samples measured"],
        ),
        (
            SAMPLES | {"train": {"split": "train", "size": 100, "seed": 1}},
            ["other train samples measured"],
        ),
        (
            {"train": SAMPLES["train"]},
            ["no test samples measured", "no misclassified samples measured"],
        ),
    ],
)
def test_samples_are_compared(samples: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    found = changed(tmp_path, "vgg-grid", measure={"samples": samples})
    assert found == ("reduced" if words else "own", words)


def test_each_setting_is_compared_with_its_own(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"datasets": 30}, ["datasets: 30 instead of 100"]),
        ({"alpha": 0.5}, ["alpha: 0.5 instead of 1"]),
        ({"separations": [0.1, 5.0]}, ["2 of 9 separations"]),
        ({"separations": [7.0]}, ["separations: 7 instead of 0.1, 0.5, 0.8, 1, 1.5, 2, 3, 4, 5"]),
        (
            {"batches": {"exact": 3, "inverted": 2, "reversed": 2, "code": 1}},
            ["batches, exact: 3 instead of 10", "batches, code: 1 instead of 2"],
        ),
    ],
)
def test_a_simulation_is_reduced_by_any_setting(
    changes: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    found = changed(tmp_path, "locally-constant-labels", settings=changes)
    assert found == ("reduced" if words else "own", words)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "own", []),
        ({"samples": 60}, "reduced", ["60 images instead of 100"]),
        ({"samples": 200, "jobs": 3}, "own", []),
        ({"name": "local-zoo"}, "stand-in", ["local-zoo instead of timm-zoo"]),
    ],
)
def test_a_zoo_under_another_name_is_a_stand_in(
    changes: dict[str, Any], kind: str, words: list[str], tmp_path: Path
) -> None:
    names = {
        key: content_of("vision-zoo")["scales"]["paper"][key] for key in ("name", "pretrained")
    }
    assert changed(tmp_path, "vision-zoo", **{**names, **changes}) == (kind, words)


def kinds_at(scale: str, **config: Any) -> dict[str, tuple[str, list[str]]]:
    chosen = plan.Plan({"scale": scale, **config})
    return {
        key: judged(experiment, chosen.as_published(key))
        for key, experiment in chosen.experiments.items()
    }


def test_at_scale_paper_everything_is_the_papers_own() -> None:
    assert {*map(repr, kinds_at("paper").values())} == {repr(("own", []))}


def test_the_demo_has_all_three_kinds() -> None:
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


def test_the_short_scale_reduces_the_papers_experiments() -> None:
    found = kinds_at("short", stand_ins={"cifar10": "cifar10-jpeg"})
    jpeg, fewer = "images of cifar10 re-encoded as JPEG", "60,000 iterations instead of 750,000"
    assert found["input-scale-grid"] == ("reduced", [jpeg])
    assert found["lenet-grid"] == ("reduced", [jpeg, fewer, "57 of 100 networks"])
    samples, longer = "10,000 training samples instead of all", fewer.replace("60,", "120,")
    assert found["mlp-grid"] == ("reduced", [samples, longer, "50 of 100 networks"])
    kind, [first, narrow, *rest] = found["vgg-grid"]
    assert (kind, first, rest) == ("reduced", jpeg, [fewer, "25 of 100 networks"])
    assert narrow.startswith("vgg (widths 16-pool-16-pool-32-")
    assert narrow.endswith(" instead of vgg")
    assert found["dln-grid"] == ("own", [])


def test_another_set_of_images_than_the_re_encoded_is_a_stand_in() -> None:
    found = kinds_at("short", stand_ins={"fashion-mnist": "cifar10-jpeg"})
    assert found["mlp-grid"][0] == "stand-in"
    assert found["mlp-grid"][1][0] == "cifar10-jpeg instead of fashion-mnist"


def test_packs_that_are_not_measured_reduce_a_grid() -> None:
    chosen = plan.Plan({"scale": "paper"})
    whole = chosen.experiment("mlp-grid")
    packs = {
        key: whole.packs[key] for key in ("lr0.05-b20-s0-4", "lr0.1-b8-s0-4", "lr0.1-b8-s16-19")
    }
    part = replace(whole, packs=packs, left_out=86)
    assert judged(part, chosen.as_published("mlp-grid")) == (
        "reduced",
        ["2 of 5 settings", "14 of 100 networks"],
    )
