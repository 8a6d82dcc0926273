"""Registries: to add a layer, an optimizer or another rule of training is to add a file."""

import shutil
from pathlib import Path

import pytest

from flatlab.core import registry
from flatlab.lab import plan
from flatlab.lab.plan import keys_of

ROOT = Path(plan.__file__).resolve().parents[3]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """The folder of a copy of the engine, in which keys are looked up."""
    shutil.copytree(ROOT / "flatlab/lab/train", tmp_path / "flatlab/lab/train")
    monkeypatch.setattr("flatlab.core.studies.PACKAGE", tmp_path / "flatlab")
    registry._keys.cache_clear()
    yield tmp_path / "flatlab"
    registry._keys.cache_clear()


@pytest.fixture(scope="module")
def experiment():
    return plan.Plan({}).experiment("mlp-grid")


def test_an_added_rule_is_known_and_a_rule_that_is_not_there_is_refused(experiment, copy):
    for folder in ("optimizers", "regularizers", "augmentations", "initializations", "layers"):
        (copy / f"lab/train/{folder}/new_one.py").write_text("")
        registry._keys.cache_clear()
        assert "new-one" in keys_of(f"train/{folder}")
    (copy / "lab/train/layers/relu.py").rename(copy / "lab/train/layers/relux.py")
    registry._keys.cache_clear()
    with pytest.raises(plan.PlanError, match=r"mlp: layers: .* did you mean 'relux'"):
        experiment.training(next(iter(experiment.packs)))
