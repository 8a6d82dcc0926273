"""Weights of a network as torch and safetensors save them."""

import argparse
import copy
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_model
from torch import nn

import flatlab
from flatlab.data import DataError
from flatlab.networks import _timm
from flatlab.networks._weights import load_into, load_state
from tests.refusals import refusal, refused


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def of_training(state):
    return {"epoch": 3, "best": torch.tensor(0.5), "state_dict": state}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


def named(state, prefix):
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def averaged(model):
    return torch.optim.swa_utils.AveragedModel(model).state_dict()


WAYS = {
    "a.safetensors": lambda model: model.state_dict(),
    "A.PT": lambda model: model.state_dict(),
    "a.pth.tar": lambda model: of_training(model.state_dict()),
    "lightning.ckpt": lambda model: of_training(named(model.state_dict(), "model.")),
    "nested.pt": lambda model: {"model": {"weights": model.state_dict()}, "epoch": 3},
    "arguments.pt": lambda model: (
        of_training(model.state_dict())
        | {"args": argparse.Namespace(lr=0.1), "best": np.float64(0.5), "count": np.int64(3)}
    ),
    "optimizer.pt": lambda model: {
        "model": model.state_dict(),
        "optimizer": torch.optim.Adam(model.parameters()).state_dict(),
    },
    "parallel.pth": lambda model: named(model.state_dict(), "module."),
    "compiled.pt": lambda model: named(model.state_dict(), "module._orig_mod."),
    "compiled inside.pt": lambda model: {
        name.replace("0.", "0._orig_mod."): tensor for name, tensor in model.state_dict().items()
    },
    "averaged.pt": averaged,
    "averaged, parallel.pt": lambda model: averaged(nn.DataParallel(model)),
    "half.pt": lambda model: copy.deepcopy(model).bfloat16().state_dict(),
    "double.pt": lambda model: copy.deepcopy(model).double().state_dict(),
}


@pytest.mark.parametrize("build", [made, Tied])
@pytest.mark.parametrize("name", WAYS)
def test_weights_are_read_however_they_are_saved(name, build, tmp_path):
    torch.manual_seed(1)
    given, other = build(), build()
    content = WAYS[name](given)
    if name.endswith("safetensors"):
        save_model(given, str(tmp_path / name))  # without one of what is tied
    else:
        torch.save(content, tmp_path / name)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    load_into(other, load_state(tmp_path / name))
    rel = 1e-2 if "half" in name else 0
    for (key, ours), right in zip(
        other.state_dict().items(), given.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(ours, right.to(ours), rtol=rel, atol=rel, msg=key)
        assert ours.dtype == (torch.float64 if "double" in name and ours.ndim else ours.dtype)
    if build is Tied:
        assert other.head.weight is other.embedding.weight


def test_a_file_from_before_archives_is_read(tmp_path):
    state = made().state_dict()
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert {*load_state(tmp_path / "old.pt")} == {*state}


@pytest.mark.parametrize("wrap", [nn.DataParallel, averaged, torch.compile, copy.deepcopy])
def test_distances_are_from_an_initial_network_however_it_is_wrapped(wrap):
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model, initial = copy.deepcopy(start), wrap(start)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5)
    x, y = torch.randn(6, 3), torch.arange(6) % 2
    report = flatlab.measure(
        model, x, y, families="capacity", initial=initial, loss="cross-entropy"
    )
    assert float(report["parameter_distance"]) == pytest.approx(0.5 * 26**0.5, rel=1e-6)


def test_complex_weights_are_no_real_ones():
    state = {name: tensor + 0j for name, tensor in nn.Linear(2, 2).state_dict().items()}
    with pytest.raises(RuntimeError, match="is complex"):
        load_into(nn.Linear(2, 2), state)


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
    (tmp_path / "empty.safetensors").write_bytes(b"")
    (tmp_path / "broken.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not json at all")
    for name, content, words in (
        ("model.pt", None, "model.pt does not exist"),
        ("module.pt", made(), "more than tensors"),
        ("numbers.pt", {"epoch": 3}, "no state dictionary"),
        ("list.pt", [torch.ones(2)], "no state dictionary"),
        ("two.pt", {"model": state, "ema": state}, "several state dictionaries, model, ema"),
        ("model.h5", None, "weights are in a file .safetensors, .pt"),
        *((name, None, name) for name in ("broken.pt", "empty.safetensors", "broken.safetensors")),
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


def test_networks_by_pattern_and_list_or_why_they_cannot_be_built(tmp_path):
    chosen = _timm.wanted(["test_vit.*", "resnet18"], tmp_path)
    assert chosen[0] == "resnet18"
    assert len(chosen) > 1
    assert "no .safetensors files" in refusal(DataError, _timm.wanted, "folder", tmp_path)
    with pytest.raises(DataError, match=r"vit_nothing cannot be built: .*nknown model"):
        _timm.build("vit_nothing")
