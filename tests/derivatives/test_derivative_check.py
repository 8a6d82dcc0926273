"""What is wrong with derivatives is found before anything is measured."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

import flatlab
from flatlab.core.registry import imported, keys_of, measures_samples
from flatlab.derivatives import derivative_check
from flatlab.derivatives.derivative_check import check_derivatives
from flatlab.derivatives.differences import Point, compared
from flatlab.losses import loss_of
from tests.refusals import refusal
from tests.synthetic.differences import hessian_by_differences

KINDS = {"function", "gradient", "hessian", "gauss-newton", "inputs"}
CLOSED_FORMS = {"linear", "diagonal"}
"""They read the weights of one layer, and call no network."""


class OnceDifferentiable(torch.autograd.Function):
    """sin, whose backward pass has no derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


class WrongTwice(torch.autograd.Function):
    """sin, whose backward pass is right and is differentiated wrongly."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        cos = x.cos()
        return gradient * (2 * cos - cos.detach().clone())


class WrongOnce(torch.autograd.Function):
    """sin with the gradient of 1.1 sin."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 1.1 * gradient * x.cos()


class Activation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def network(function=torch.sin, dtype=torch.float64):
    torch.manual_seed(0)
    act = Activation(function)
    return nn.Sequential(nn.Linear(6, 5), act, nn.Linear(5, 3)).to(dtype).eval()


def samples(count=12, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=generator, dtype=dtype)
    return x, torch.randint(3, (count,), generator=generator)


def measured(model, x, y, *families, **options):
    return flatlab.measure(model, x, y, families=families, loss="cross-entropy", **options)


def true_values(model, x, y):
    hessian, gauss_newton = hessian_by_differences(model, x, F.one_hot(y, 3).to(x))
    return (
        float(torch.linalg.eigvalsh(hessian)[-1]),
        float(torch.linalg.eigvalsh(gauss_newton)[-1]),
        float(hessian.trace()),
    )


@pytest.mark.parametrize("family", keys_of("metrics"))
def test_every_family_says_which_derivatives_it_takes(family):
    checks = imported("metrics", family).CHECKS
    assert {*checks} <= KINDS
    if measures_samples(family):
        assert bool(checks) == (family not in CLOSED_FORMS)


FAMILIES = [f for f in keys_of("metrics") if measures_samples(f) and f not in CLOSED_FORMS]


def takes_gradients(family):
    """A check named "function" alone is of a family that evaluates networks and no more."""
    return {*imported("metrics", family).CHECKS} != {"function"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_function_is_refused_by_every_family(family):
    model = network(lambda x: F.dropout(x, 0.5))
    assert "draws at random" in refusal(flatlab.MeasureError, measured, model, *samples(), family)


def test_draws_that_are_rare_are_found(monkeypatch):
    """One unit in a thousand is dropped: two passes of four samples are mostly equal."""
    model = network(lambda x: F.dropout(x, 0.02))
    torch.manual_seed(3)
    x, y = samples()
    passes = [model(x[:4]) for _ in range(2)]
    assert torch.equal(*passes)
    torch.manual_seed(3)
    assert "draws at random" in refusal(flatlab.MeasureError, measured, model, x, y, "hessian")


@pytest.mark.parametrize("family", [f for f in FAMILIES if takes_gradients(f)])
def test_a_wrong_gradient_is_refused_by_every_family_that_takes_one(family):
    message = refusal(flatlab.MeasureError, measured, network(WrongOnce.apply), *samples(), family)
    assert "layer '1' (Activation)" in message
    assert "gradients" in message


def test_the_derivatives_of_a_large_network_are_compared_on_one_sample(monkeypatch):
    monkeypatch.setattr(derivative_check, "LARGE", 10)
    sizes = []

    def counted(x):
        sizes.append(len(x))
        return x.sin()

    measured(network(counted, torch.float32), *samples(dtype=torch.float32), "hessian")
    assert 1 in sizes
    assert sizes[0] > 1  # whether samples are mixed needs more
    refused = refusal(
        flatlab.MeasureError, measured, network(WrongOnce.apply), *samples(), "hessian"
    )
    assert "layer '1' (Activation)" in refused


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("function", [OnceDifferentiable.apply, WrongTwice.apply])
def test_second_derivatives_that_are_wrong_or_missing_are_differences_of_gradients(function, dtype):
    x, y = samples(dtype=dtype)
    report = measured(
        network(function, dtype),
        x,
        y,
        "hessian",
        "flatness",
        flatness=["traces"],
        hessian_traces="exact",
    )
    largest, gauss_newton, trace = true_values(network(), *samples())
    if dtype == torch.float32:
        largest, gauss_newton, trace = true_values(
            network(torch.sin, dtype).double(), x.double(), y
        )
    digits = 1e-5 if dtype == torch.float32 else 1e-7
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=digits)
    assert float(report["gauss_newton_lambda_max"]) == pytest.approx(gauss_newton, rel=digits)
    assert float(report["hessian_trace"]) == pytest.approx(trace, rel=digits)
    assert "differences of gradients (relative error" in report.attrs["derivatives"]
    assert "layer '1' (Activation)" in report.attrs["derivatives"]
    assert "derivatives" not in measured(network(), *samples(), "hessian").attrs


def test_products_with_the_jacobian_are_differences_of_outputs_then():
    x, y = samples()
    right = measured(network(), x, y, "adaptive", outputs="network", draws=2)
    ours = measured(network(OnceDifferentiable.apply), x, y, "adaptive", outputs="network", draws=2)
    assert np.allclose(ours["mls_per_sample"], right["mls_per_sample"], rtol=1e-7)
    assert "differences of outputs" in ours.attrs["derivatives"]


def test_relative_flatness_behind_such_a_layer_is_refused_by_name():
    x, y = samples()
    message = refusal(
        flatlab.MeasureError, measured, network(OnceDifferentiable.apply), x, y, "flatness"
    )
    assert "layer '0'" in message
    last = measured(network(OnceDifferentiable.apply), x, y, "flatness", flatness_layers=["2"])
    right = measured(network(), x, y, "flatness", flatness_layers=["2"])
    assert last["kappa_trace"].values[-1] == right["kappa_trace"].values[-1]


def test_a_sample_at_a_kink_is_no_error():
    """Every unit of the first layer is exactly at its kink for a sample of zeros."""
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 3)).double()
    x, y = samples()
    x[0] = 0
    first = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    nn.init.zeros_(first[0].bias)
    for network_ in (model, first):
        report = measured(network_, x, y, "hessian", "sharpness", "adaptive", draws=2)
        assert bool(report["hessian_converged"])
    assert "kinks" in report.attrs["derivatives_not_checked"]


def test_jumps_are_not_called_converged_without_a_word():
    """A function with a jump at the weights themselves has no difference quotient."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    model[0].weight.data.fill_(1.0)
    model.register_forward_pre_hook(lambda module, x: (x[0] + module[0].weight[0].floor(),))
    report = measured(model, *samples(), "hessian")
    assert "do not agree" in report.attrs["derivatives_not_checked"]


def test_without_differences_that_settle_there_is_no_eigenvalue():
    """hardsigmoid has no second derivative, and no difference on a sample at its kink."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Hardsigmoid(), nn.Linear(5, 3)).double()
    nn.init.constant_(model[0].bias, 3.0)
    x, y = samples()
    x[0] = 0
    message = refusal(flatlab.MeasureError, measured, model, x, y, "hessian")
    assert "do not settle" in message
    assert "layer '1' (Hardsigmoid)" in message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrap", [nn.utils.parametrizations.weight_norm, nn.utils.weight_norm])
def test_weight_normalization_is_measured_rightly(wrap):
    torch.manual_seed(1)
    model = nn.Sequential(wrap(nn.Linear(6, 5)), nn.Tanh(), wrap(nn.Linear(5, 3))).double().eval()
    x, y = samples()
    how = {"flatness": ["traces"], "hessian_traces": "exact"}
    report = measured(model, x, y, "hessian", "flatness", **how)
    largest, gauss_newton, trace = true_values(model, x, y)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
    assert float(report["gauss_newton_lambda_max"]) == pytest.approx(gauss_newton, rel=1e-6)
    assert float(report["hessian_trace"]) == pytest.approx(trace, rel=1e-7)
    assert not {"derivatives", "derivatives_not_checked"} & {*report.attrs}


def test_the_network_is_left_alone_by_a_check():
    model = network(WrongTwice.apply)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    x, y = samples()
    targets = F.one_hot(y, 3).double()
    kinds = ("gradient", "hessian", "gauss-newton", "inputs")
    loss = loss_of({"loss": "cross-entropy"})
    verdict = check_derivatives(model, x, lambda outputs: targets, loss, kinds)
    assert verdict.step is not None
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_wrong_derivative_of_a_smooth_function_is_settled():
    x = torch.ones(1, dtype=torch.float64)
    quotient = Point([x]).quotient(x.exp, [torch.ones_like(x)])
    result = compared(torch.full((1,), 2.0, dtype=torch.float64), quotient)
    assert (result.agrees, result.step) == (False, 1e-7)
    assert compared(None, quotient).step == 1e-7
