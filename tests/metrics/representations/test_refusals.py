"""What cannot be had is left out with its reason, and refused by name."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from tests.networks.small_networks import small


def measured(model, inputs, labels=None, **options):
    return flatlab.measure(model, inputs, labels, families="representations", **options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("preact-resnet", "go around the inputs of block1.body.2"),
        ("simple-vit", "does not alone read the inputs"),
    ],
)
def test_bounds_of_networks_that_have_none(name, reason):
    model, inputs, labels = small(name)
    with pytest.raises(MeasureError, match=f"bounds: .*{reason}.*leave it out"):
        measured(model, inputs, labels, representations=["local", "bounds"])
    found = measured(model, inputs, labels)
    assert any(reason in each for each in found.attrs["representations_left_out"])
    if name == "preact-resnet":  # the others are kept
        around = found.representation_bound.isnull().to_series()
        assert around["block1.body.2"]
        assert not around["fc"]


def test_bounds_without_a_linear_head():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 3), nn.Sigmoid()).double()
    inputs = torch.randn(5, 4, dtype=torch.float64)
    found = measured(model, inputs)
    assert "head_bound" not in found
    assert found.representation_bound.notnull().all()
    with pytest.raises(MeasureError, match="does not end in a linear layer"):
        measured(model, inputs, representations=["bounds"])


@pytest.mark.parametrize("part", ["collapse", "linear-share"])
def test_classes_are_needed(part):
    model, inputs, _ = small("mlp-relu")
    with pytest.raises(MeasureError, match=f"{part}: there are no classes"):
        measured(model, inputs, representations=[part])
    left_out = measured(model, inputs).attrs["representations_left_out"]
    assert f"{part}: there are no classes" in left_out


def test_one_class_has_no_collapse():
    model, inputs, labels = small("mlp-relu")
    with pytest.raises(MeasureError, match="there is one class"):
        measured(model, inputs, 0 * labels, representations=["collapse"])
    found = measured(model, inputs, 0 * labels)
    assert found.collapse_within.isnull().all()
    assert found.representation_dimension.shape == (3, 3)
    assert any("there is one class" in each for each in found.attrs["representations_left_out"])
    assert found.linear_share.notnull().all()


def test_more_samples_than_given_for_collapse():
    model, inputs, labels = small("mlp-relu")
    with pytest.raises(MeasureError, match="collapse_samples=10: there are 9"):
        measured(model, inputs, labels, collapse_samples=10)
    with pytest.raises(MeasureError, match="is for experiments"):
        measured(model, inputs, labels, collapse_samples="split")
    found = measured(model, inputs, labels, collapse_samples=6)
    part = measured(model, inputs[:6], labels[:6])
    for name in (n for n in found if n.startswith(("collapse", "linear", "representation_dim"))):
        assert found[name].values == pytest.approx(part[name].values, nan_ok=True), name


def test_networks_without_layers():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.ones(3, dtype=torch.float64))

        def forward(self, x):
            return x + self.shift

    with pytest.raises(MeasureError, match="none that is called as such a layer"):
        measured(Shifted(), torch.randn(4, 3, dtype=torch.float64))


def test_weights_that_are_shared_may_violate_the_bounds():
    """A kernel whose gradients cancel between two positions of a constant image."""

    class Difference(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 1, 3, bias=False), nn.Linear(1, 1, bias=False)

        def forward(self, x):
            z = self.conv(x)
            return self.head((z[:, :, 0, 0] - z[:, :, 3, 3]).flatten(1))

    torch.manual_seed(0)
    found = measured(Difference().double(), torch.ones(2, 1, 6, 6, dtype=torch.float64))
    assert found.head_bound == pytest.approx(0, abs=1e-12)
    assert found.head_violations == 2
    assert found.representation_violations.values.tolist() == [0, 2]
    assert np.isinf(found.representation_bound[0])
