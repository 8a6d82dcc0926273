"""What is wrong with derivatives is found before anything is measured; kinks say nothing."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

import flatlab
from flatlab.core.registry import imported, keys_of, measures_samples
from flatlab.derivatives.checks import derivative_check
from flatlab.derivatives.checks.derivative_check import check_derivatives
from flatlab.derivatives.checks.differences import STEPS, VALUE_STEPS, Point, compared
from flatlab.losses import loss_of
from tests.networks.written import Written
from tests.refusals import refused
from tests.synthetic.differences import hessian_by_differences

KINDS = {"function", "gradient", "hessian", "gauss-newton", "inputs"}
CLOSED_FORMS = {"linear", "diagonal"}
"""They read the weights of one layer, and call no network."""


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()


class OnceDifferentiable(Sine):
    """Its backward pass has no derivative."""

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class WrongTwice(Sine):
    """Its backward pass is right and is differentiated wrongly."""

    @staticmethod
    def backward(ctx, gradient):
        cos = ctx.saved_tensors[0].cos()
        return gradient * (2 * cos - cos.detach().clone())


class WrongOnce(Sine):
    """With the gradient of 1.1 sin."""

    @staticmethod
    def backward(ctx, gradient):
        return 1.1 * gradient * ctx.saved_tensors[0].cos()


def network(function=torch.sin, dtype=torch.float64):
    torch.manual_seed(0)
    act = Written(lambda net, x: function(x))
    return nn.Sequential(nn.Linear(6, 5), act, nn.Linear(5, 3)).to(dtype).eval()


def samples(count=12, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=generator, dtype=dtype)
    return x, torch.randint(3, (count,), generator=generator)


def measured(model, x, y, *families, **options):
    return flatlab.measure(model, x, y, families=families, loss="cross-entropy", **options)


TRACES = {"flatness": ["traces"], "hessian_traces": "exact"}
CURVATURE = ("hessian_lambda_max", "gauss_newton_lambda_max", "hessian_trace")


def true_values(model, x, y):
    both = hessian_by_differences(model, x, F.one_hot(y, 3).to(x))
    return [*(float(torch.linalg.eigvalsh(each)[-1]) for each in both), float(both[0].trace())]


@pytest.mark.parametrize("family", keys_of("families"))
def test_every_family_says_which_derivatives_it_takes(family):
    checks = imported("families", family).CHECKS
    assert {*checks} <= KINDS
    if measures_samples(family):
        assert bool(checks) == (family not in CLOSED_FORMS)


FAMILIES = [f for f in keys_of("families") if measures_samples(f) and f not in CLOSED_FORMS]


def takes_gradients(family):
    """A check named "function" alone is of a family that evaluates networks and no more."""
    return {*imported("families", family).CHECKS} != {"function"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_function_is_refused_by_every_family(family):
    model = network(lambda x: F.dropout(x, 0.5))
    refused("draws at random", measured, model, *samples(), family)


def test_draws_that_are_rare_are_found(monkeypatch):
    """One unit in a thousand is dropped: two passes of four samples are mostly equal."""
    model = network(lambda x: F.dropout(x, 0.02))
    torch.manual_seed(3)
    x, y = samples()
    passes = [model(x[:4]) for _ in range(2)]
    assert torch.equal(*passes)
    torch.manual_seed(3)
    refused("draws at random", measured, model, x, y, "hessian")


@pytest.mark.parametrize("family", [f for f in FAMILIES if takes_gradients(f)])
def test_a_wrong_gradient_is_refused_by_every_family_that_takes_one(family):
    words = ["layer '1' (Written)", "gradients"]
    refused(words, measured, network(WrongOnce.apply), *samples(), family)


def test_the_derivatives_of_a_large_network_are_compared_on_one_sample(monkeypatch):
    monkeypatch.setattr(derivative_check, "LARGE", 10)
    sizes = []

    def counted(x):
        sizes.append(len(x))
        return x.sin()

    measured(network(counted, torch.float32), *samples(dtype=torch.float32), "hessian")
    assert 1 in sizes
    assert sizes[0] > 1  # whether samples are mixed needs more
    wrong = network(WrongOnce.apply)
    refused("layer '1' (Written)", measured, wrong, *samples(), "hessian")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("function", "dtype"),
    [(OnceDifferentiable.apply, torch.float64), (WrongTwice.apply, torch.float32)],
)
def test_second_derivatives_that_are_wrong_or_missing_are_differences_of_gradients(function, dtype):
    x, y = samples(dtype=dtype)
    report = measured(network(function, dtype), x, y, "hessian", "flatness", **TRACES)
    expected = true_values(network(torch.sin, dtype).double(), x.double(), y)
    digits = 1e-5 if dtype == torch.float32 else 1e-7
    assert [float(report[name]) for name in CURVATURE] == pytest.approx(expected, rel=digits)
    assert "differences of gradients (relative error" in report.attrs["derivatives"]
    assert "layer '1' (Written)" in report.attrs["derivatives"]
    assert "derivatives" not in measured(network(), *samples(), "hessian").attrs


def test_products_with_the_jacobian_are_differences_of_outputs_then():
    x, y = samples()
    right = measured(network(), x, y, "adaptive", outputs="network", draws=2)
    ours = measured(network(OnceDifferentiable.apply), x, y, "adaptive", outputs="network", draws=2)
    assert np.allclose(ours["mls_per_sample"], right["mls_per_sample"], rtol=1e-7)
    assert "differences of outputs" in ours.attrs["derivatives"]


def test_relative_flatness_behind_such_a_layer_is_refused_by_name():
    x, y = samples()
    model = network(OnceDifferentiable.apply)
    refused("layer '0'", measured, model, x, y, "flatness")
    last, right = (measured(m, x, y, "flatness", flatness_layers=["2"]) for m in (model, network()))
    assert last["kappa_trace"].values[-1] == right["kappa_trace"].values[-1]


@pytest.mark.more
def test_a_sample_at_a_kink_is_no_error():
    """Every unit of the first layer is exactly at its kink for a sample of zeros."""
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 3)).double()
    x, y = samples()
    x[0] = 0
    first = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    nn.init.zeros_(first[0].bias)
    for network_ in (model, first):
        how = {"sharpness_radii": {"worst-standard-l2": [0.1]}, "draws": 2}
        report = measured(network_, x, y, "hessian", "sharpness", "adaptive", **how)
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
    refused(["cannot be replaced by", "layer '1' (Hardsigmoid)"], measured, model, x, y, "hessian")


def both_ways(x):
    """With the derivatives 0 and 2 at 0, where all central differences are 1."""
    return x.abs() + x


def slightly(x):
    """Autograd says 1 at 0, and the sides 1 + 3e-5 and 1 + 4e-5, which are closer to each other."""
    return x + 4e-5 * x.relu() - 3e-5 * (-x).relu()


@pytest.mark.parametrize(
    ("function", "at", "claimed", "agrees", "differences"),
    [
        *((torch.exp, 1.0, claimed, False, True) for claimed in (2.0, None)),
        (both_ways, 0.0, 1.0, True, True),
        *((both_ways, 0.0, claimed, False, False) for claimed in (0.0, 2.0)),
        *((slightly, 0.0, claimed, False, False) for claimed in (1.0, 1 + 7e-5)),
        (slightly, 0.0, 1 + 1e-3, False, True),
        # all central differences of |x| at 0 agree with each other: they are 0
        (torch.abs, 0.0, None, False, False),
        (torch.abs, 1.0, None, False, True),
    ],
)
def test_what_is_smooth_is_settled_and_a_side_of_a_kink_is_neither_right_nor_wrong(
    function, at, claimed, agrees, differences
):
    """A step says that differences stand in for the derivative."""
    x = torch.full((1,), at, dtype=torch.float64)
    quotient = Point([x]).quotient(lambda: function(x), [torch.ones_like(x)])
    derivative = None if claimed is None else torch.full_like(x, claimed)
    for steps in (STEPS, VALUE_STEPS):
        result = compared(derivative, quotient, steps)
        assert result.agrees == agrees
        assert result.step == (steps[0] if differences else None)


def at_kinks():
    """A residual block whose branch begins at 0, as torchvision's do: zeros reach the ReLU."""
    parts = {"first": nn.Linear(30, 30), "last": nn.Linear(30, 30)}
    nn.init.zeros_(parts["last"].weight)
    nn.init.zeros_(parts["last"].bias)
    branch = lambda net, x: net.last(net.first(x).relu())  # noqa: E731
    return nn.Sequential(nn.ReLU(), Written(lambda net, x: (x + branch(net, x)).relu(), **parts))


@pytest.mark.first(1)
@pytest.mark.parametrize("outputs", [1, 40])
def test_many_kinks_whose_jumps_cancel_are_not_called_wrong(outputs):
    kinds = ("gradient", "hessian", "gauss-newton", "inputs")
    loss = loss_of({"loss": "half-mse" if outputs == 1 else "cross-entropy"})
    for seed in range(12):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(20, 30), at_kinks(), at_kinks(), nn.Linear(30, outputs))
        x, y = torch.randn(1 + seed % 3, 20), torch.eye(outputs)[[0] * (1 + seed % 3)]
        verdict = check_derivatives(model, x, lambda outputs, y=y: y, loss, kinds)
        assert "kinks" in verdict.notes["derivatives_not_checked"]
