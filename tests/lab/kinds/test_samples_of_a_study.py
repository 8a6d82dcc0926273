"""Samples of a study in files: several inputs, masks, targets by position, and what is meant."""

import importlib

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.cli import main
from flatlab.core import store
from flatlab.core.studies import use_studies
from flatlab.lab import plan
from tests.lab.kinds.studies import declare, made, planned, table_of
from tests.networks.sources import SEVERAL_INPUTS

MINE = f"""{SEVERAL_INPUTS}

def tagger():
    return Tagger()


def two(width=4):
    return Two(width)


def train(width, seed):
    torch.manual_seed(seed)
    return two(width).state_dict()
"""
FIGURES = """
from flatlab.lab.plan import Matrix, Paper

PAPER = Paper(title="Mine", citation="mine", cited="Mine")
FIGURES = {
    "fig1": Matrix("mine-nets", quantities=("mls", "sharpness"), title="mine", caption="Mine."),
}
"""
FILES = {"kind": "networks", "from": "files", "title": "Mine", "files": "checkpoints/*.pt"}
GENERATOR = np.random.default_rng(0)
WEIGHTS = [1.0, 2.0, 0.5]
SEEDS = (0, 1)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study with networks of two inputs, which is the working folder; it holds no experiment."""
    with made(tmp_path / "mine", monkeypatch, mine=MINE, figures=FIGURES) as folder:
        (folder / "checkpoints").mkdir()
        use_studies(["."], "")
        yield importlib.import_module("flatlab.papers.mine.mine")


def save(build):
    """Networks with these seeds, one file each."""
    networks = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        networks.append(build())
        torch.save(networks[-1].state_dict(), f"checkpoints/s{seed}.pt")
    return networks


def sentences(count=12, length=5):
    """Tokens, masks and labels of each position, of which one is left out."""
    lengths = GENERATOR.integers(2, length + 1, count)
    labels = GENERATOR.integers(0, 4, (count, length))
    labels[0, 0] = -100
    mask = (np.arange(length) < lengths[:, None]).astype(np.uint8)
    tokens = GENERATOR.integers(0, 11, (count, length))
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def pairs(count):
    """Two inputs and three classes."""
    image, text = (GENERATOR.normal(size=(count, n)).astype(np.float32) for n in (5, 3))
    return {"image": image, "text": text, "y": np.arange(count) % 3}


def as_tensors(arrays):
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def built(key):
    """The rows of an experiment's table."""
    assert main(["run", key]) == 0
    table = table_of(key)
    assert not table["diverged"].any(), table["failure"].values
    return table.isel(checkpoint=0, samples=0)


def test_two_inputs_and_class_weights_are_those_of_a_program(study):
    networks = save(study.two)
    parts = {"train": pairs(20), "test": pairs(30)}
    np.savez("two.npz", **{f"{n}_{p}": x for p, part in parts.items() for n, x in part.items()})
    measure = {"families": ["geometry", "hessian"], "samples": "all", "class_weights": WEIGHTS}
    measure["relative_flatness_loss"] = "half-mse"  # what weights classes has no closed form there
    declare("mine-nets", {**FILES, "model": "mine:two", "data": "two.npz", "measure": measure})
    rows = built("mine-nets")
    assert rows.sizes["run"] == len(networks)
    for place, network in enumerate(networks):
        row = rows.isel(run=place)
        inputs = as_tensors(parts["train"])
        y = inputs.pop("y")
        theirs = flatlab.measure(network, inputs, y, families="geometry")
        assert float(row["mls"]) == pytest.approx(float(theirs["mls"]), rel=1e-6)
        outputs = network(**inputs)
        loss = nn.functional.cross_entropy(outputs, y, torch.tensor(WEIGHTS))
        assert float(row["train_loss"]) == pytest.approx(loss.item(), rel=1e-5)
        top = largest_eigenvalue(network, inputs, y)
        assert float(row["hessian_lambda_max"]) == pytest.approx(top, rel=1e-4)
        tested = as_tensors(parts["test"])
        wrong = network(tested["image"], tested["text"]).argmax(1) != tested["y"]
        assert float(row["test_error"]) == pytest.approx(100 * wrong.double().mean().item())


def largest_eigenvalue(network, inputs, y):
    """Of the Hessian of the weighted cross-entropy, all of which is written out."""
    names, values = zip(*network.named_parameters(), strict=True)
    flat = torch.cat([value.detach().flatten() for value in values])

    def loss(theta):
        parts = theta.split([value.numel() for value in values])
        given = {n: p.view_as(v) for n, p, v in zip(names, parts, values, strict=True)}
        outputs = torch.func.functional_call(network, given, kwargs=inputs)
        return nn.functional.cross_entropy(outputs, y, torch.tensor(WEIGHTS))

    return torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, flat))[-1].item()


def test_padded_sequences_have_the_losses_of_their_positions(study):
    networks = save(study.tagger)
    arrays = sentences()
    np.savez("sentences.npz", **arrays)
    measure = {"families": ["geometry"], "samples": "all"}
    files = {**FILES, "model": "mine:tagger", "data": "sentences.npz"}
    declare("mine-nets", {**files, "measure": measure})
    meant = {"output": "hidden", "parameters": ["embedding"]}
    declare("mine-hidden", {**files, "measure": {**measure, **meant}})
    rows, hidden = built("mine-nets"), built("mine-hidden")
    batch = as_tensors(arrays)
    batch["attention_mask"] = batch["attention_mask"].long()
    for place, network in enumerate(networks):
        outputs = network(batch["input_ids"], batch["attention_mask"])["logits"].flatten(0, 1)
        labels = batch["labels"].masked_fill(batch["attention_mask"] == 0, -100).flatten()
        loss = nn.functional.cross_entropy(outputs, labels)
        row = rows.isel(run=place)
        assert float(row["train_loss"]) == pytest.approx(loss.item(), rel=1e-5)
        right = (outputs.argmax(1) == labels)[labels != -100].double().mean().item()
        assert float(row["train_accuracy"]) == pytest.approx(100 * right)
        theirs = flatlab.measure(network, [batch], **meant)
        ours = hidden["sharpness"].isel(run=place)
        assert float(ours) == pytest.approx(float(theirs["sharpness"]), rel=1e-5)
        assert float(ours) != pytest.approx(float(row["sharpness"]), rel=1e-2)


def test_a_class_that_is_ignored_does_not_count_in_runs_of_a_loop(study):
    arrays = pairs(21)
    np.savez("two.npz", **arrays)
    measure = {"families": ["geometry"], "samples": 10, "ignore_index": 2}
    loop = {
        "kind": "networks",
        "from": "function",
        "title": "Mine",
        "train": "mine:train",
        "seeds": [0],
    }
    loop |= {"model": "mine:two", "data": "two.npz", "settings": {"width": [4, 5]}}
    declare("mine-nets", {**loop, "measure": measure})
    rows = built("mine-nets")
    kept = arrays["y"] != 2
    inputs = as_tensors({name: array[kept] for name, array in arrays.items()})
    y = inputs.pop("y")
    for place, width in enumerate((4, 5)):
        weights, _ = store.load_weights(
            f"results/demo/models/mine-nets/width{width}-s0.safetensors"
        )
        network = study.two(width)
        network.load_state_dict(as_tensors(weights))
        loss = nn.functional.cross_entropy(network(**inputs), y).item()
        assert float(rows["train_loss"].isel(run=place)) == pytest.approx(loss, rel=1e-5)


def test_other_samples_in_the_file_measure_again_and_nothing_else(study):
    save(study.two)
    measure = {"families": ["geometry"], "class_weights": WEIGHTS}
    content = {**FILES, "model": "mine:two", "data": "two.npz", "measure": measure}
    np.savez("two.npz", **pairs(20))
    declare("mine-nets", content)
    first = planned().experiment("mine-nets").measuring("s0", "geometry")
    assert first.inputs == {"weights": "checkpoints/s0.pt", "data": "two.npz"}
    declare("mine-nets", {**content, "measure": {**measure, "class_weights": [1.0, 2.0, 0.25]}})
    again = planned().experiment("mine-nets").measuring("s0", "geometry")
    assert (again.code, again.inputs) == (first.code, first.inputs)
    assert again.settings != first.settings


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"class_weight": WEIGHTS}, "unknown key 'class_weight'; did you mean 'class_weights'?"),
        ({"class_weights": "heavy"}, "class_weights"),
        ({"ignore_index": "none"}, "ignore_index"),
    ],
)
def test_what_is_wrongly_meant_is_told_when_it_is_planned(study, change, sentence):
    save(study.two)
    np.savez("two.npz", **pairs(20))
    measure = {"families": ["geometry"], **change}
    declare("mine-nets", {**FILES, "model": "mine:two", "data": "two.npz", "measure": measure})
    with pytest.raises(plan.PlanError) as refusal:
        planned()
    assert sentence in str(refusal.value)
    assert "experiments/mine-nets.yaml" in str(refusal.value)
    assert "\n" not in str(refusal.value)
