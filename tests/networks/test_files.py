"""Weights of a network as torch and safetensors save them."""

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import flatlab
from flatlab.data import DataError
from flatlab.networks import _timm
from flatlab.networks._files import load_state
from tests.refusals import refusal, refused


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def of_training(state):
    return {"epoch": 3, "best": torch.tensor(0.5), "state_dict": state}


WAYS = {
    "a.safetensors": save_file,
    "a.pt": torch.save,
    "a.pth": torch.save,
    "training.pt": lambda state, path: torch.save(of_training(state), path),
    "parallel.pth": lambda state, path: torch.save(
        {f"module.{n}": t for n, t in state.items()}, path
    ),
    "old.pt": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_state_dictionary_is_read_however_it_is_saved(name, tmp_path):
    state = made().state_dict()
    WAYS[name](state, tmp_path / name)
    found = load_state(tmp_path / name)
    assert {*found} == {*state}
    assert all(torch.equal(found[key], state[key]) for key in state)


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-weights-file",)


@pytest.mark.parametrize("content", [Hostile(), {"state_dict": Hostile()}])
def test_a_file_that_would_run_code_is_refused_and_does_not(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(content, "a.pt")
    with pytest.raises(DataError, match="more than tensors, which could run code; save"):
        load_state(tmp_path / "a.pt")
    assert not (tmp_path / "made-by-a-weights-file").exists()


def test_what_holds_no_weights_is_named(tmp_path):
    state = made().state_dict()
    (tmp_path / "broken.pt").write_bytes(b"not weights")
    for name, content, words in (
        ("model.pt", None, "model.pt does not exist"),
        ("module.pt", made(), "more than tensors"),
        ("numbers.pt", {"epoch": 3}, "no state dictionary"),
        ("list.pt", [torch.ones(2)], "no state dictionary"),
        ("two.pt", {"model": state, "ema": state}, "several state dictionaries"),
        ("model.h5", None, "weights are in a file .safetensors, .pt, .pth or .bin"),
        ("broken.pt", None, "broken.pt"),
    ):
        if content is not None:
            torch.save(content, tmp_path / name)
        assert words in refusal(DataError, load_state, tmp_path / name)


def test_all_families_are_those_that_can_be_had(tmp_path):
    x = torch.randn(6, 3)
    found = flatlab.measure(made().eval(), x, families="all")  # without targets
    assert "geometry" in found.families
    assert "hessian: the sharpness of a loss needs targets" in found.left_out
    refused("unknown", flatlab.measure, made().eval(), x, families="al")


def test_networks_by_pattern_and_list(tmp_path):
    assert _timm.wanted(["test_vit.*", "resnet18"], tmp_path)[0] == "resnet18"
    assert len(_timm.wanted(["test_vit.*", "resnet18"], tmp_path)) > 1
    with pytest.raises(DataError, match=r"no \.safetensors files"):
        _timm.wanted("folder", tmp_path)


def test_networks_that_cannot_be_built_say_why():
    with pytest.raises(DataError, match=r"vit_nothing cannot be built: .*nknown model"):
        _timm.build("vit_nothing")
