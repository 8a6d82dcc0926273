"""A figure of a zoo: of weights in files, one of which is bad, and of networks trained here."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from safetensors.torch import save_file

from flatlab.core import store
from flatlab.networks import _timm as networks

pytestmark = [pytest.mark.workflow, pytest.mark.more]
ROOT = Path(__file__).resolve().parents[3]
ZOO, GRID = (f"papers/chen2026/experiments/vision-{kind}.yaml" for kind in ("zoo", "grid"))
SOURCES = ("flatlab/families/adaptive.py", ZOO, GRID)
TARGET = "chen2026_fig5"
TABLE = "results/demo/tables/vision-zoo.zarr.zip"
ANALYSIS = ("table vision-zoo", "draw fig5", "verify fig5", TARGET)
ADAPTIVE = {"draws": 2, "trace": "random", "probes": 2, "ascent_steps": 0, "tolerance": 0.1}
GOOD = ("test_convnext", "test_resnet", "test_vit")  # timm's own, for tests: 160 pixels
BAD = "test_efficientnet"


def rewrite(lab, **demo):
    """Give the zoo of a laboratory another demo."""
    content = yaml.safe_load((lab / ZOO).read_text())
    adaptive = {**ADAPTIVE, "drop_above": None}
    content["scales"]["demo"] = {"measure": {"samples": 2, **adaptive}, **demo}
    (lab / ZOO).write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def with_zoo(fresh):
    """The laboratory with one more figure, of a zoo."""
    for path in SOURCES:
        shutil.copy2(ROOT / path, fresh / path)
    fresh.declare("chen2026", "fig5", "figH8")
    return fresh


@pytest.fixture
def with_files(with_zoo):
    """Three networks of timm in files, one file that is damaged, and images of two classes."""
    weights = with_zoo / "own/timm"
    weights.mkdir(parents=True)
    for name in GOOD:
        save_file(networks.build(name).state_dict(), weights / f"{name}.safetensors")
    (weights / f"{BAD}.safetensors").write_bytes(b"not weights")
    generator = np.random.default_rng(0)
    for name in ("n01440764", "n01443537"):
        (with_zoo / "own/imagenet" / name).mkdir(parents=True)
        pixels = generator.integers(0, 255, (160, 160, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(with_zoo / "own/imagenet" / name / "1.png")
    chosen = {"networks": "folder", "images": "imagenet", "classes": 1000, "size_at_most": 384}
    rewrite(with_zoo, name="own-zoo", jobs=2, **{"from": "timm", **chosen})
    return with_zoo


@pytest.fixture
def with_members(with_zoo):
    """A zoo of two networks that a grid trains here, hardly."""
    content = yaml.safe_load((with_zoo / GRID).read_text())
    arguments = {"channels": [4, 4, 8, 8]}
    content["scales"]["demo"] |= {
        "training": {"iterations": 3, "batch_size": 8},
        "settings": [
            {"name": "resnet18", "pixels": 16, "model": "resnet18", "arguments": arguments}
        ],
    }
    (with_zoo / GRID).write_text(yaml.safe_dump(content, sort_keys=False))
    rewrite(with_zoo, name="local-zoo", jobs=1, **{"from": "grid", "grid": "vision-grid"})
    return with_zoo


@pytest.mark.long
def test_a_killed_job_goes_on_and_a_network_that_fails_is_recorded(with_files):
    lab, own = with_files, ("--config", "data_folder=own")
    process = lab.start("--cores", "1", TARGET, *own)
    places = [lab / f"results/demo/metrics/vision-zoo/adaptive/{part}.unfinished" for part in "01"]
    files = [place / f"{name}.safetensors" for place in places for name in GOOD]
    done, *_ = lab.wait(process, lambda: [path for path in files if path.exists()])
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    # What is measured already is not measured again: it has the values that were left of it.
    left, about = store.load_weights(done)
    left["adaptive_sharpness"] = left["adaptive_sharpness"] + 9
    store.save_weights(done, left, about)
    run = lab.snakemake("--cores", "2", "--nolock", "--rerun-incomplete", TARGET, *own)
    surveys = [f"measure vision-zoo adaptive {part}" for part in "01"]
    assert run.jobs == sorted([*surveys, *ANALYSIS])
    assert not any(place.exists() for place in places)
    table = store.load_dataset(lab / TABLE)
    failures = dict(zip(table["run"].values, table["failure"].values, strict=True))
    assert {name for name, failure in failures.items() if failure} == {BAD}
    assert "cannot be read" in failures[BAD]
    sharpness = table["adaptive_sharpness"].sel(run=[*GOOD])
    assert np.isfinite(sharpness).all()
    assert sharpness.sel(run=done.stem).item() == left["adaptive_sharpness"]
    drawn = (lab / "results/demo/figures/chen2026/fig5.csv").read_text()
    assert all(name in drawn for name in GOOD)
    assert BAD not in drawn
    assert "1 could not be measured" in (lab / "results/demo/figures/chen2026/fig5.txt").read_text()
    lab.has_nothing_to_do(TARGET, *own)


def test_weights_of_members_are_kept(with_members):
    lab = with_members
    training = ["prepare digits", "train vision-grid resnet18-s0-1"]
    run = lab.snakemake("--cores", "2", TARGET)
    assert run.jobs == sorted([*training, "measure vision-zoo adaptive 0", *ANALYSIS])
    _, about = store.load_weights(lab / "results/demo/models/vision-grid/resnet18-s0-1.safetensors")
    assert about["runs"] == ["resnet18-s0", "resnet18-s1"]
    # Other settings of the measures train nothing.
    before = (lab / ZOO).read_text()
    (lab / ZOO).write_text(before.replace("draws: 2", "draws: 3"))
    lab.plans_exactly("measure vision-zoo adaptive 0", *ANALYSIS, targets=(TARGET,))
    (lab / ZOO).write_text(before)
