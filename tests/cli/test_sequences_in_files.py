"""Sequences with padding, and several inputs, in files: `flatlab measure` and `flatlab table`."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.cli import main
from flatlab.core import store
from tests.networks.sources import SEVERAL_INPUTS

GENERATOR = np.random.default_rng(0)


@pytest.fixture
def two(tmp_path, monkeypatch):
    """A network of each kind, in files."""
    (tmp_path / "mine.py").write_text(SEVERAL_INPUTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    torch.manual_seed(0)
    for kind in (mine.Tagger, mine.Two):
        torch.save(kind().state_dict(), f"{kind.__name__}.pt")
    yield mine
    sys.modules.pop("mine", None)


def sentences(count=12, length=5):
    """Tokens, masks and labels of each position."""
    tokens = GENERATOR.integers(0, 11, (count, length))
    lengths = GENERATOR.integers(2, length + 1, count)
    mask = (np.arange(length) < lengths[:, None]).astype(np.uint8)
    labels = GENERATOR.integers(0, 4, (count, length))
    labels[0, 0] = -100
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def network(module, kind):
    model = getattr(module, kind)()
    model.load_state_dict(torch.load(f"{kind}.pt"))
    return model


def table(kind, *options):
    command = ["table", f"{kind}.pt", "--model", f"mine:{kind}", "--data", "d.npz"]
    assert main([*command, *options, "--out", "t.zarr.zip"]) == 0
    rows = store.load_dataset("t.zarr.zip")
    assert not rows["diverged"].any(), rows["failure"].values
    return rows.isel(run=0, checkpoint=0, samples=0)


HOW = ["--samples", "all", "--loss", "cross-entropy", "--family", "geometry", "hessian"]


@pytest.mark.parametrize("by", ["measure", "table"])
def test_padded_sequences_in_a_file_are_those_of_a_program(two, by):
    arrays = sentences()
    np.savez("d.npz", **arrays)
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    batch["attention_mask"] = batch["attention_mask"].long()
    families = ["geometry", "hessian"]
    theirs = flatlab.measure(
        network(two, "Tagger"), [batch], families=families, loss="cross-entropy"
    )
    if by == "table":
        ours = table("Tagger", *HOW)
    else:
        command = ["measure", "Tagger.pt", "--model", "mine:Tagger", "--data", "d.npz"]
        assert main([*command, *HOW, "--out", "r.zarr.zip"]) == 0
        ours = store.load_dataset("r.zarr.zip")
        assert ours.attrs["positions_ignored"] == theirs.attrs["positions_ignored"] > 1
    for name in ("sharpness", "sharpness_per_token", "hessian_lambda_max"):
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-4), name


def test_losses_and_errors_of_sequences_are_those_of_their_positions(two):
    train, test = sentences(), sentences(300)
    parts = {"train": train, "test": test}
    np.savez("d.npz", **{f"{n}_{p}": x for p, part in parts.items() for n, x in part.items()})
    row = table("Tagger")
    model = network(two, "Tagger")
    for name, part in parts.items():
        tokens, mask = (torch.from_numpy(part[key]) for key in ("input_ids", "attention_mask"))
        outputs = model(tokens, mask)["logits"]
        labels = torch.from_numpy(part["labels"]).masked_fill(mask == 0, -100).flatten()
        loss = nn.functional.cross_entropy(outputs.flatten(0, 1), labels)
        right = (outputs.argmax(2).flatten() == labels)[labels != -100].double().mean()
        assert float(row[f"{name}_loss"]) == pytest.approx(loss.item(), rel=1e-5)
        assert float(row[f"{name}_accuracy"]) == pytest.approx(100 * right.item())
    assert float(row["error_gap"]) == pytest.approx(float(row["test_error"] - row["train_error"]))


def test_two_inputs_by_name_in_a_file_and_by_place_from_a_loader(two):
    image, text = (GENERATOR.normal(size=(20, n)).astype(np.float32) for n in (5, 3))
    y = np.arange(20) % 3
    np.savez("d.npz", image=image, text=text, y=y)
    program = """
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

def loader():
    file = np.load("d.npz")
    parts = (torch.from_numpy(file[name]) for name in ("image", "text", "y"))
    return DataLoader(TensorDataset(*parts), 7)
"""
    Path("samples.py").write_text(program)
    by_name = table("Two", "--samples", "all")
    by_place = table("Two", "--samples", "all", "--data", "samples:loader")
    sys.modules.pop("samples", None)
    inputs = {"image": torch.from_numpy(image), "text": torch.from_numpy(text)}
    theirs = flatlab.measure(network(two, "Two"), inputs, y)
    for name in ("sharpness", "mls", "train_loss"):
        assert float(by_name[name]) == pytest.approx(float(by_place[name]), rel=1e-6), name
    assert float(by_name["mls"]) == pytest.approx(float(theirs["mls"]), rel=1e-5)


def test_what_is_meant_of_a_network_is_that_of_a_program(two):
    arrays = sentences()
    np.savez("d.npz", **arrays)
    row = table("Tagger", "--output", "hidden", "--parameters", "embedding", "--samples", "all")
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    batch["attention_mask"] = batch["attention_mask"].long()
    meant = {"output": "hidden", "parameters": "embedding"}
    theirs = flatlab.measure(network(two, "Tagger"), [batch], **meant)
    assert float(row["sharpness"]) == pytest.approx(float(theirs["sharpness"]), rel=1e-5)


def test_class_weights_are_in_the_loss_of_a_table(two):
    image, text = (GENERATOR.normal(size=(20, n)).astype(np.float32) for n in (5, 3))
    y = np.arange(20) % 3
    np.savez("d.npz", image=image, text=text, y=y)
    row = table("Two", "--class-weights", "1", "2", "0.5", "--family", "hessian")
    outputs = network(two, "Two")(torch.from_numpy(image), torch.from_numpy(text))
    weights = torch.tensor([1, 2, 0.5])
    loss = nn.functional.cross_entropy(outputs, torch.from_numpy(y), weights)
    assert float(row["train_loss"]) == pytest.approx(loss.item(), rel=1e-5)


def test_a_network_of_this_project_takes_one_input(two, capsys):
    np.savez("d.npz", image=np.zeros((4, 5)), text=np.zeros((4, 3)), y=[0, 1, 0, 1])
    assert main(["measure", "Two.pt", "--model", "mlp", "--data", "d.npz"]) == 1
    assert capsys.readouterr().err == "flatlab: --model mlp takes one input, and --data has 2\n"
