"""Geometry of sequences of tokens, against all derivatives by plain autograd."""

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab import MeasureError
from tests.networks.transformer import LENGTH, transformer


def jacobians(model, tokens):
    """Of each sequence, in all parameters and in the output of the embedding: (n, N, ...)."""
    theta = [*model.parameters()]
    in_theta, in_embedded = [], []
    for sequence in tokens:
        embedded = model.embedding(sequence[None])
        outputs = model.behind(embedded).flatten()
        rows = [torch.autograd.grad(f, [*theta, embedded], retain_graph=True) for f in outputs]
        in_theta.append(torch.stack([torch.cat([g.flatten() for g in row[:-1]]) for row in rows]))
        in_embedded.append(torch.stack([row[-1].flatten() for row in rows]))
    return torch.stack(in_theta), torch.stack(in_embedded)


@pytest.mark.parametrize("tied", [False, True])
def test_derivatives_are_in_the_output_of_the_first_embedding(tied):
    model, tokens = transformer(tied)
    in_theta, in_embedded = jacobians(model, tokens)
    report = flatlab.measure(model, tokens)
    s = in_theta.square().sum((1, 2))
    assert report["sharpness_per_sample"].values == pytest.approx(s.numpy(), rel=1e-10)
    assert report["sharpness_per_token"] == pytest.approx(float(s.mean()) / LENGTH, rel=1e-10)
    assert report["g"] == pytest.approx(float(in_embedded.square().sum((1, 2)).mean()), rel=1e-10)
    norms = torch.linalg.matrix_norm(in_embedded, 2)
    assert report["mls_per_sample"].values == pytest.approx(norms.numpy(), rel=1e-10)
    embedded = model.embedding(tokens).flatten(1).norm(dim=1).detach()
    normalized = float((embedded * norms).square().mean())
    assert report["normalized_mls"] == pytest.approx(normalized, rel=1e-10)
    assert "'embedding'" in report.attrs["derivatives_with_respect_to"]


@pytest.mark.parametrize("tied", [False, True])
def test_estimates_of_sequences_lie_within_four_standard_errors(tied):
    model, tokens = transformer(tied)
    exact, report = (flatlab.measure(model, tokens, accuracy=each) for each in ("exact", 0.05))
    for key in ("sharpness", "sharpness_per_token", "g", "local_dimension"):
        assert abs(report[key] - exact[key]) <= 4 * report[f"{key}_error"], key
    for key in ("mls", "nmls", "normalized_mls"):
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key


def test_blocks_of_outputs_of_sequences_are_the_same():
    model, tokens = transformer()
    exact, report = flatlab.measure(model, tokens), flatlab.measure(model, tokens, memory=10**6)
    for key in exact:
        assert np.allclose(exact[key], report[key], rtol=1e-8, atol=1e-10, equal_nan=True), key


def test_integers_without_an_embedding_are_refused():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(x.float())

    with pytest.raises(MeasureError, match="real numbers"):
        flatlab.measure(Rounded(), torch.arange(6).view(2, 3))
