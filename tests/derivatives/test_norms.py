"""Norms of weights against dense singular value decompositions."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

from flatlab.derivatives.norms import operator_norm, spectral_norm
from flatlab.lab.train import train_packs
from flatlab.metrics import capacity, geometry
from flatlab.metrics._capacity import norms as of_capacity
from flatlab.metrics._geometry import values as of_geometry
from flatlab.metrics._measure_pack import measure_pack
from tests.synthetic.packs import asked, of_split
from tests.train.packs import images, settings

SHAPES = [(1, 1), (3, 7), (7, 3), (128, 130), (130, 129), (200, 500), (500, 200)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
def test_the_spectral_norm_is_the_largest_singular_value(shape, dtype, digits, normal):
    matrix = normal(*shape)
    expected = float(torch.linalg.svdvals(matrix)[0])
    assert spectral_norm(matrix.to(dtype)) == pytest.approx(expected, rel=digits)


@pytest.mark.parametrize("size", [3, 300])
def test_norms_of_zeros_ones_and_nothing_finite(size):
    assert spectral_norm(torch.zeros(size, size)) == 0
    assert spectral_norm(torch.eye(size)) == pytest.approx(1)
    assert spectral_norm(torch.full((size, size), torch.nan)) != 0
    layer = nn.Conv1d(1, 1, 3, padding=1)
    layer.weight.data.zero_()
    assert operator_norm(layer, (1, size)) == 0
    layer.weight.data.fill_(torch.inf)
    assert torch.tensor(operator_norm(layer, (1, size))).isnan()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(1, 1, 1), (1, 1)),
        (nn.Conv1d(1, 2, 1), (1, 2)),
        (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 6)),
        (nn.Conv2d(3, 4, 3, stride=2, padding=1), (3, 7, 6)),
        (nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding="same"), (4, 5, 5)),
        (nn.Conv3d(2, 3, 2), (2, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_the_operator_norm_is_that_of_the_dense_map(layer, shape, dtype, digits):
    layer = layer.to(torch.float64)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    size = torch.Size(shape).numel()
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        dense = (layer(basis) - layer(torch.zeros_like(basis))).flatten(1)
    expected = float(torch.linalg.svdvals(dense)[0])
    assert operator_norm(layer.to(dtype), shape) == pytest.approx(expected, rel=digits)


CASES = {
    "geometry": (geometry, of_geometry, {"costly": ["operator-norm", "corrected-bound"]}),
    "capacity": (capacity, of_capacity, {"capacity": ["distances"], "capacity_norm": "operator"}),
}


@pytest.mark.parametrize("name", CASES)
def test_norms_of_weights_are_computed_once_for_all_sample_sets_of_a_network(name, monkeypatch):
    """And anew for the next weights, which are loaded into the same tensors."""
    family, module, options = CASES[name]
    raw = images((1, 8, 8))
    training = settings("lenet5", seeds=(0, 1), checkpoints=[0, 20], iterations=40)
    [trained] = train_packs(raw, [training])
    sets = {f"{at}{n}": of_split(at, n) for at in ("train", "test") for n in (3, 6)}
    given = {key: training[key] for key in ("data", "outputs", "seeds")}
    given |= {"loss": {"loss": "cross-entropy"}, "samples": sets, "options": {name: options}}
    job = asked(name, training["network"], **given)
    counts = Counter()

    def counted(key):
        norm = getattr(module, key)

        def count(*given):
            counts[key] += 1
            return norm(*given)

        monkeypatch.setattr(module, key, count)

    for key in ("spectral_norm", "operator_norm"):
        counted(key)

    def measure():
        counts.clear()
        return measure_pack([trained.weights, trained.dense], raw, job), dict(counts)

    found, computed = measure()
    once = family.measure
    monkeypatch.setattr(  # nothing is known of other sample sets
        family, "measure", lambda model, x, how: once(model, x, replace(how, norms={}))
    )
    expected, without = measure()
    assert found.identical(expected)
    assert computed.keys() == {"spectral_norm", "operator_norm"}
    assert without == {key: len(sets) * count for key, count in computed.items()}
