"""Neural collapse where it is easily mistaken: dead layers, equal means, few samples."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab


def measured(model, inputs, labels, **options):
    options = {"representations": ["collapse", "linear-share"], **options}
    return flatlab.measure(model, inputs, labels, families="representations", **options)


def identity(width, outputs):
    """A network whose second layer reads its inputs as they are."""
    torch.manual_seed(0)
    first, last = nn.Linear(width, width, bias=False), nn.Linear(width, outputs)
    nn.init.eye_(first.weight)
    return nn.Sequential(first, last).double()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_dead_layer_has_no_collapse_but_a_count(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    model[0].bias.data.fill_(-1e3)
    inputs, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 2
    found = measured(model, inputs, labels, dtype=dtype)
    assert found.collapse_within.notnull().values.tolist() == [True, False]
    assert found.collapse_deficient.values.tolist() == [0, 1]
    assert found.collapse_means_rank.values.tolist() == [1, 0]
    for name in ("collapse_norms", "collapse_angles", "linear_share", "linear_share_within"):
        assert np.isnan(found[name][1]), name
    assert np.isnan(found.representation_dimension[1]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_class_means_are_no_collapse_either(dtype):
    """They differ in rounding alone: without a floor NC1 is 1e31."""
    torch.manual_seed(0)
    half = torch.randn(30, 4, dtype=torch.float64)
    inputs = torch.cat([half, half.flip(0) * 1.0]) + 3.7
    labels = torch.arange(60) // 30
    found = measured(identity(4, 2), inputs, labels, dtype=dtype)
    assert found.collapse_within.isnull().all()
    assert found.collapse_deficient.values.tolist() == [1, 1]


def test_two_means_that_agree_lower_the_rank():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    inputs = torch.cat([means, means[:1], means + 0.1, means[:1] + 0.1])
    found = measured(identity(4, 4), inputs, torch.arange(8) % 4)
    assert found.collapse_means_rank.values.tolist() == [2, 2]
    assert np.isnan(found.collapse_within).all()


def test_few_samples_look_like_collapse_and_half_of_them_more_so():
    """NC1 of one distribution in 500 dimensions grows with the samples of a class."""
    generator = torch.Generator().manual_seed(0)
    means = 0.3 * torch.randn(10, 500, generator=generator, dtype=torch.float64)
    values = []
    for count in (3, 10, 50):
        labels = torch.arange(10 * count) % 10
        noise = torch.randn(10 * count, 500, generator=generator, dtype=torch.float64)
        found = measured(
            identity(500, 10), means[labels] + noise, labels, representations=["collapse"]
        )
        values.append(float(found.collapse_within[1]))
        assert found.collapse_within_half[1] < found.collapse_within[1]
        assert found.collapse_samples_measured == 10 * count
    assert values == sorted(values)


def test_the_half_is_the_first_of_each_class():
    torch.manual_seed(0)
    inputs = torch.randn(11, 3, dtype=torch.float64)
    labels = torch.tensor([2, 0, 0, 2, 1, 1, 0, 2, 1, 1, 0])
    found = measured(identity(3, 3), inputs, labels)
    kept = [0, 1, 2, 3, 4, 5]  # of 4, 4 and 3 samples 2 each
    part = measured(identity(3, 3), inputs[kept], labels[kept])
    for name in ("within", "norms", "angles", "nearest", "duality"):
        whole, half = part[f"collapse_{name}"].values, found[f"collapse_{name}_half"].values
        assert half == pytest.approx(whole), name


def test_a_simplex_has_collapsed_and_is_dual_to_its_head():
    """NC1 to NC4 of features at the corners of a simplex, with W_L in their directions."""
    corners = torch.eye(4, dtype=torch.float64) - 0.25
    first, last = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    nn.init.eye_(first.weight)
    model = nn.Sequential(first, last).double()
    last.weight.data = 3 * corners
    labels = torch.arange(12) % 4
    found = measured(model, 7 * corners[labels], labels)
    for name in ("within", "norms", "angles", "nearest"):
        assert found[f"collapse_{name}"].values == pytest.approx(0, abs=1e-12), name
    assert found.collapse_duality == pytest.approx(0, abs=1e-12)
    assert found.representation_dimension.sel(covariance="means").values == pytest.approx(3)


def test_duality_needs_outputs_that_are_the_classes_present():
    torch.manual_seed(0)
    inputs = torch.randn(12, 3, dtype=torch.float64)
    for labels, outputs in ((torch.arange(12) % 3, 4), (2 * (torch.arange(12) % 2), 3)):
        assert np.isnan(measured(identity(3, outputs), inputs, labels).collapse_duality)
    found = measured(identity(3, 2), inputs, torch.arange(12) % 3)
    assert np.isnan(found.collapse_nearest).all()
    assert found.collapse_within.notnull().all()


def test_classes_of_different_size_have_equal_weight():
    """As in the definition of Sigma_W, the mean over the classes."""
    torch.manual_seed(0)
    inputs = torch.randn(9, 3, dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1])
    x = inputs.numpy()
    parts = [x[:6], x[6:]]
    within = np.mean([np.cov(part.T, bias=True) for part in parts], 0)
    means = np.stack([part.mean(0) for part in parts])
    between = np.cov(means.T, bias=True)
    expected = np.trace(within @ np.linalg.pinv(between)) / 2
    found = measured(identity(3, 2), inputs, labels)
    assert found.collapse_within[0] == pytest.approx(expected)
