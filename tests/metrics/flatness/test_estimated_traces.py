"""Traces of the Hessian by random signs, until an accuracy is reached."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import flatlab
from tests.networks.many_outputs import many_outputs
from tests.networks.transformer import transformer


@pytest.mark.parametrize(  # curved, and piecewise linear
    ("name", "loss"), [("perceptron", "half-mse"), ("vgg", "half-mse"), ("vgg", "cross-entropy")]
)
def test_traces_reach_the_accuracy_and_lie_within_four_standard_errors(name, loss):
    model, x = many_outputs(name)
    classes = torch.arange(len(x))
    how = {"families": "flatness", "flatness": ["traces"], "loss": loss}
    exact = flatlab.measure(model, x, classes, hessian_traces="exact", **how)
    report = flatlab.measure(model, x, classes, accuracy=0.05, **how)
    assert 0 < report["hessian_trace_error"] <= 0.05 * abs(report["hessian_trace"])
    off = abs(report["hessian_trace"] - exact["hessian_trace"])
    assert off <= 4 * report["hessian_trace_error"]
    off = abs(report["hessian_trace_per_layer"] - exact["hessian_trace_per_layer"])
    slack = 1e-9 * abs(exact["hessian_trace"])
    assert (off <= 4 * report["hessian_trace_per_layer_error"] + slack).all()
    assert report.attrs["hessian_probes"] >= 30


def test_traces_of_sequences_are_of_the_mean_loss_over_tokens():
    model, tokens = transformer(samples=2)
    classes = tokens.roll(1, 1)
    how = {"families": "flatness", "flatness": ["traces"], "loss": "cross-entropy"}
    exact = flatlab.measure(model, tokens, classes, hessian_traces="exact", **how)
    theta = [*model.parameters()]
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        outputs = model(tokens).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(outputs, classes.flatten())
    slopes = torch.autograd.grad(loss, theta, create_graph=True)
    flat = torch.cat([slope.flatten() for slope in slopes])
    trace = 0.0
    for place in range(len(flat)):
        row = torch.autograd.grad(flat[place], theta, retain_graph=True, materialize_grads=True)
        trace += float(torch.cat([part.flatten() for part in row])[place])
    assert exact["hessian_trace"] == pytest.approx(trace, rel=1e-8)
    report = flatlab.measure(model, tokens, classes, accuracy=0.1, **how)
    assert abs(report["hessian_trace"] - trace) <= 4 * report["hessian_trace_error"]
