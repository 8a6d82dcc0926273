"""Estimates by random directions and blocks of outputs against exact values; tokens."""

from itertools import cycle

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
import flatlab.derivatives.per_sample.probe
from flatlab.derivatives.per_sample import engine as output_blocks
from flatlab.derivatives.per_sample.memory import RESIDUAL
from flatlab.families.geometry.estimates import ESTIMATED
from tests.networks.small_networks import LENGTH, NETWORKS, OUTPUTS, many_outputs, transformer
from tests.refusals import refused

KINDS = [*NETWORKS, "tied"]


@pytest.mark.first(2)
@pytest.mark.parametrize("name", KINDS)
def test_largest_singular_values_are_found_to_the_square_of_the_residual(name):
    model, x = many_outputs(name)
    exact, report = flatlab.measure(model, x), flatlab.measure(model, x, accuracy=0.9)
    assert report["norm_residual"] <= 1e-2
    for key in ("mls", "mls_per_sample", "sensitivity", "nmls", "normalized_mls", "weighted_mls"):
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key
    for key in ("weight_norm", "reciprocal_input_norm", "shared", "samples_measured"):
        assert report[key].values == pytest.approx(exact[key].values, rel=1e-12), key
    assert report.attrs["directions"] == 30
    assert "log_volume" not in report
    assert "log volumes" in report.attrs["quantities_left_out"]


def test_every_estimate_has_its_standard_error_and_exact_values_have_none():
    model, x = many_outputs("perceptron")
    report = flatlab.measure(model, x, accuracy=0.9)
    with_error = {key for key in report if f"{key}_error" in report}
    assert with_error == set(ESTIMATED)
    assert report["sharpness_error"].attrs["units"] == report["sharpness"].attrs["units"]
    assert report["sensitivity"].dims == ("sample", "layer")
    assert not [key for key in flatlab.measure(model, x) if str(key).endswith("_error")]


def test_directions_are_drawn_until_the_accuracy_is_reached():
    (model, x), accuracy = many_outputs("perceptron"), 0.05
    report = flatlab.measure(model, x, accuracy=accuracy, quantities=["sharpness", "g"])
    for key in ("sharpness", "g"):
        assert report[f"{key}_error"] <= accuracy * report[key]
    assert report.attrs["directions"] % 30 == 0


def test_auto_is_exact_where_a_sample_fits_and_estimates_where_it_does_not():
    model, x = many_outputs("perceptron")
    exact = flatlab.measure(model, x)
    assert flatlab.measure(model, x, accuracy="auto").equals(exact)
    how = {"accuracy": "auto", "memory": 50_000, "quantities": ["sharpness"]}
    with pytest.warns(UserWarning, match="geometry estimates"):
        report = flatlab.measure(model, x, **how)
    assert report["sharpness_error"] <= 0.02 * report["sharpness"]


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "loss"), [*zip(KINDS, cycle(["half-mse", "cross-entropy"]))])
def test_blocks_of_outputs_give_what_all_at_once_give(name, loss, monkeypatch):
    model, x = many_outputs(name)
    costly = ["elementwise-adaptive-trace", "corrected-bound"]
    exact = flatlab.measure(model, x, costly=costly, relative_flatness_loss=loss)
    monkeypatch.setattr(output_blocks, "limit", lambda *_: 0)
    refused("40 outputs need", flatlab.measure, model, x, memory=1, accuracy="exact")
    numbers = flatlab.derivatives.per_sample.probe.probe(model, x)
    rows = 8 * numbers.numbers * 8
    grams = 8 * OUTPUTS * min(OUTPUTS, numbers.numbers) * (len(numbers.layers) + 2)
    monkeypatch.setattr(output_blocks, "limit", lambda *_: grams + 7 * rows)  # blocks of 7
    how = {"costly": costly, "relative_flatness_loss": loss, "accuracy": "exact"}
    report = flatlab.measure(model, x, memory=1, **how)
    assert set(report) == set(exact)
    for key in exact:
        expected = exact[key].values
        assert report[key].values == pytest.approx(expected, rel=1e-8, abs=1e-9, nan_ok=True), key


FEW = [["sharpness"], ["mls", "local_dimension"], ["sharpness", "g", "elementwise_adaptive_trace"]]


@pytest.mark.first(3)
@pytest.mark.parametrize(("name", "quantities"), [*zip(KINDS, cycle(FEW))])
def test_what_is_asked_for_alone_is_the_same_whole_and_in_blocks(name, quantities, monkeypatch):
    model, x = many_outputs(name)
    exact = flatlab.measure(model, x)
    numbers = flatlab.derivatives.per_sample.probe.probe(model, x).numbers
    grams = 16 * OUTPUTS * min(OUTPUTS, numbers) * (quantities != ["sharpness"])
    for memory in (None, 1):
        alone = flatlab.measure(model, x, memory=memory, quantities=quantities, accuracy="exact")
        assert set(alone) == {*quantities, "finite", "samples_measured", "layers_left_out"}
        for key in quantities:
            assert alone[key].values == pytest.approx(exact[key].values, rel=1e-9, nan_ok=True), key
        monkeypatch.setattr(output_blocks, "limit", lambda *_: grams + 7 * 8 * 8 * numbers)


def test_an_unknown_quantity_is_refused():
    refused("sharpnes'", flatlab.measure, *many_outputs("perceptron"), quantities=["sharpnes"])


def test_a_layer_that_does_more_than_its_type_is_left_to_autograd():
    class Scaled(nn.Linear):
        def forward(self, h):
            return 2 * super().forward(h)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), Scaled(6, 50)).double()
    x = torch.ones(4, 3).double() + torch.arange(4)[:, None]
    exact, report = flatlab.measure(model, x), flatlab.measure(model, x, accuracy=0.2)
    assert abs(report["sharpness"] - exact["sharpness"]) <= 4 * report["sharpness_error"]
    assert "2.weight" in report.attrs["parameters_by_generic_gradient"]


SUMS = ("sharpness", "g", "elementwise_adaptive_trace", "local_dimension", "input_invariant_mls")


def close(report, exact, name):
    """Of each number of a quantity, whether it lies within four standard errors."""
    expected, error = exact[name].values, report[f"{name}_error"].values
    slack = 1e-9  # where there is no error, as in the last layer
    if name == "linear_stability_ratio":  # its singular value is of an iteration
        slack = RESIDUAL
    off = np.abs(report[name].values - expected)
    return (off <= 4 * error + slack * np.abs(expected)) | np.isnan(expected)


def of_seeds(count, name, quantities):
    """How often each number of each quantity lies within four standard errors."""
    model, x = transformer() if name == "tokens" else many_outputs(name)
    exact, within = flatlab.measure(model, x), {}
    for seed in range(count):
        report = flatlab.measure(model, x, accuracy=0.9, seed=seed, quantities=quantities)
        assert report.attrs["directions"] >= 30
        for key in ESTIMATED:
            if key in report:
                within[key] = within.get(key, 0) + close(report, exact, key)
    return {key: int(np.min(count)) for key, count in within.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", [*KINDS, "tokens"])
def test_of_100_seeds_99_lie_within_four_standard_errors(name):
    within = of_seeds(100, name, "all")
    # If no rule covers all, and bounds where the first layer does not alone read the inputs.
    bounds = {name for name in ESTIMATED if name.startswith("bound_")}
    missing = {"sharpness_per_sample", *bounds} & ({*ESTIMATED} - within.keys())
    assert within.keys() | missing == {*ESTIMATED}
    assert min(within.values()) >= 99, {k: n for k, n in within.items() if n < 100}


@pytest.mark.more
def test_of_30_seeds_29_sums_of_a_perceptron_lie_within_four_standard_errors():
    within = of_seeds(30, "perceptron", SUMS)
    assert within.keys() == {*SUMS}
    assert min(within.values()) >= 29, within


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


def test_estimates_of_sequences_lie_within_four_standard_errors():
    model, tokens = transformer(tied=True)
    exact, report = (flatlab.measure(model, tokens, accuracy=each) for each in ("exact", 0.2))
    for key in ("sharpness", "sharpness_per_token", "g", "local_dimension"):
        assert abs(report[key] - exact[key]) <= 4 * report[f"{key}_error"], key
    for key in ("mls", "nmls", "normalized_mls"):
        assert report[key].values == pytest.approx(exact[key].values, rel=2e-3), key


def test_blocks_of_outputs_of_sequences_are_the_same():
    model, tokens = transformer()
    exact, report = (
        flatlab.measure(model, tokens, memory=m, accuracy="exact") for m in (None, 10**6)
    )
    for key in exact:
        assert np.allclose(exact[key], report[key], rtol=1e-8, atol=1e-10, equal_nan=True), key


def test_integers_without_an_embedding_are_refused():
    class Rounded(nn.Linear):
        def forward(self, x):
            return super().forward(x.float())

    refused("real numbers", flatlab.measure, Rounded(3, 2), torch.arange(6).view(2, 3))
