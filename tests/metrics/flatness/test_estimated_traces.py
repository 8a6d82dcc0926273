"""Traces of the Hessian by random signs, until an accuracy is reached."""

import pytest
import torch

import flatlab
from tests.networks.many_outputs import many_outputs


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
