"""Zoos of a grid's networks, measured by any families; sharpness of networks of tokens."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.data._tensors import prepare
from flatlab.data.corruptions import test_set as corrupted_images
from flatlab.families import accuracy
from flatlab.losses import loss_of
from flatlab.measuring.dataset import Row
from flatlab.measuring.networks import _joined
from flatlab.measuring.quantity import settings_of
from flatlab.networks import build
from tests.lab.kinds.surveys import FAMILIES, SHARPNESS, networks_of_a_grid, surveyed
from tests.lab.train import packs
from tests.lab.train.packs import DATA

STRIPES = {**DATA, "set": "made-up"}


@pytest.fixture
def of_grid(stripes, tmp_path):
    """What a zoo reads of a grid's three networks, trained for a few steps; and its settings."""
    stripes = stripes.assign(
        odd_inputs=stripes["test_inputs"] + 3, odd_labels=stripes["test_labels"]
    )
    asked = packs.settings("mlp", (1, 2, 4), data=STRIPES, loss="cross-entropy", iterations=9)
    asked["network"]["options"]["width"] = 5
    asked["training"] |= {"precision": "float32", "lr": {"low": 0.01, "high": 0.1}}
    chosen, files, weights = networks_of_a_grid(
        tmp_path, stripes, asked, (4, 1), augmentation="none"
    )
    noisy = {"corruptions": ["gaussian-noise"], "severity": 5, "size": 7}
    noisy |= {"source": "made", "seed": 0}
    sets = {"noisy": {"corrupted": noisy, "part": None}, "odd": {"corrupted": None, "part": "odd"}}
    settings = {
        **{"samples": 6, "seed": 3, "families": FAMILIES, "test_sets": sets},
        **{"from": "grid", "networks": chosen},
        **{"hyperparameters": {"lr": "lr", "strength": "augmentation"}},
        "levels": {"strength": ["weak", "none"]},
    }
    return settings, files, weights, stripes


def test_networks_of_a_grid_are_measured_by_the_same_code(of_grid, tmp_path):
    settings, files, (arrays, about), raw = of_grid
    table = surveyed(settings, tmp_path, files)
    assert table["test_set"].values.tolist() == ["test", "noisy", "odd"]
    assert table["strength"].values.tolist() == [1, 1]
    further = {
        "noisy": corrupted_images(
            raw, settings["test_sets"]["noisy"]["corrupted"], "all", tmp_path
        ),
        "odd": (raw["odd_inputs"].values, raw["odd_labels"].values),
    }
    splits = prepare(raw, STRIPES, None, torch.float32, further=further)
    network = build(settings["networks"][0]["network"], (1, 4, 4), 3)
    how = settings_of("accuracy", FAMILIES["accuracy"], loss_of({"loss": "cross-entropy"}))
    subset = splits.train.subset(6, 3)
    for run in ("s4", "s1"):
        place, row = about["runs"].index(run), table.sel(run=run)
        network.load_state_dict({n: torch.tensor(a[place, -1]) for n, a in arrays.items()})
        network.eval()
        measured = accuracy.measure_splits(network, splits, how).values
        report = flatlab.measure(
            network, subset.inputs, subset.labels, families=["sharpness"], seed=3, **SHARPNESS
        )
        for name in ("test_set_error", "test_set_loss", "test_set_error_gap", "train_error"):
            np.testing.assert_array_equal(row[name].values, measured[name])
        found = row["sharpness_at_radius"].values
        np.testing.assert_array_equal(found, report["sharpness_at_radius"].values)
        assert float(row["lr"]) == about["lr"][place]


def test_networks_with_other_layers_stand_in_one_table():
    """Each layer has a place, and a network that lacks it a missing value there."""
    rows = []
    for number, layers in enumerate((["fc1", "fc2"], ["conv", "fc2"], [])):
        about = {"network": "some", "failure": "", "parameters": 1, "pixels": 2}
        about |= {"run": f"n{number}", "hyperparameters": {}, "coordinates": {"layer": layers}}
        found = {"weight_norm": np.arange(len(layers)) + 10.0 * number, "mls": np.array(number)}
        rows.append(Row(found if layers else {}, about))
    table = _joined(rows, {"families": ["geometry"]})
    assert table["layer"].values.tolist() == ["fc1", "fc2", "conv"]
    nan = np.nan
    expected = [[0, 1, nan], [nan, 11, 10], [nan, nan, nan]]
    np.testing.assert_array_equal(table["weight_norm"].values, expected)
    np.testing.assert_array_equal(table["mls"].values, [0, 1, nan])
    assert "norm_share" not in table


def test_a_part_that_is_not_there_is_named(of_grid, tmp_path):
    settings, files, *_ = of_grid
    settings["test_sets"]["odd"]["part"] = "even"
    (reason, _) = surveyed(settings, tmp_path, files)["failure"].values
    assert reason == "DataError: test_sets.odd: stripes has no part 'even'"


def test_tokens_have_the_sharpness_of_their_one_hot_vectors():
    """An embedding is a linear map of one-hot vectors; a mean over places mixes no samples."""

    class OfTokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 3)

        def forward(self, tokens):
            return self.head(self.embed(tokens).mean(1).tanh())

    class OfVectors(OfTokens):
        def forward(self, x):
            return self.head((x @ self.embed.weight).mean(1).tanh())

    torch.manual_seed(0)
    tokens, labels = torch.randint(7, (9, 5)), torch.arange(9) % 3
    one, two = OfTokens(), OfVectors()
    two.load_state_dict(one.state_dict())
    vectors = nn.functional.one_hot(tokens, 7).float()
    reports = [
        flatlab.measure(model, x, labels, families=["sharpness"], **SHARPNESS)
        for model, x in ((one, tokens), (two, vectors))
    ]
    values = [report["sharpness_at_radius"].values for report in reports]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-7)
    with pytest.raises(flatlab.MeasureError, match=r"inputs are torch\.int64"):
        flatlab.measure(one, tokens, labels, families=["sharpness", "representations"], **SHARPNESS)


def test_tokens_of_samples_that_are_mixed_are_refused():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 3)

        def forward(self, tokens):
            found = self.embed(tokens).mean(1)
            return found - found.mean(0)

    with pytest.raises(flatlab.MeasureError, match="depend on"):
        flatlab.measure(
            Mixing(), torch.randint(7, (9, 5)), torch.arange(9) % 3, families=["sharpness"]
        )
