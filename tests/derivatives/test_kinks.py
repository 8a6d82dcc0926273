"""At a kink differences say nothing: a derivative there is neither right nor wrong."""

import pytest
import torch
from torch import nn

from flatlab.derivatives.derivative_check import check_derivatives
from flatlab.derivatives.differences import STEPS, VALUE_STEPS, Point, compared
from flatlab.losses import loss_of


@pytest.mark.parametrize("claimed", [0.0, 2.0, 1.0])
def test_a_derivative_of_a_side_of_a_kink_is_neither_right_nor_wrong(claimed):
    """|x| + x has the derivatives 0 and 2 at 0, and all central differences are 1."""
    x = torch.zeros(1, dtype=torch.float64)
    quotient = Point([x]).quotient(lambda: x.abs() + x, [torch.ones_like(x)])
    result = compared(torch.full((1,), claimed, dtype=torch.float64), quotient)
    assert result.agrees == (claimed == 1.0)
    assert result.agrees or result.step is None


class AtKinks(nn.Module):
    """A residual block whose branch begins at 0, as torchvision's do: zeros reach the ReLU."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(30, 30), nn.Linear(30, 30)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        x = x.relu()
        return (x + self.last(self.first(x).relu())).relu()


@pytest.mark.parametrize("outputs", [1, 3, 40])
def test_many_kinks_whose_jumps_cancel_are_not_called_wrong(outputs):
    kinds = ("gradient", "hessian", "gauss-newton", "inputs")
    loss = loss_of({"loss": "half-mse" if outputs == 1 else "cross-entropy"})
    for seed in range(40):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(20, 30), AtKinks(), AtKinks(), nn.Linear(30, outputs))
        x, y = torch.randn(1 + seed % 3, 20), torch.eye(outputs)[[0] * (1 + seed % 3)]
        verdict = check_derivatives(model, x, lambda outputs, y=y: y, loss, kinds)
        assert "kinks" in verdict.notes["derivatives_not_checked"]


@pytest.mark.parametrize("claimed", [1.0, 1 + 7e-5, 1 + 1e-3])
def test_small_kinks_of_both_kinds_are_not_called_wrong(claimed):
    """Autograd says 1, the sides are 1 + 3e-5 and 1 + 4e-5: closer to each other than to it."""
    x = torch.zeros(1, dtype=torch.float64)
    one = torch.ones_like(x)
    quotient = Point([x]).quotient(lambda: x + 4e-5 * x.relu() - 3e-5 * (-x).relu(), [one])
    for steps in (STEPS, VALUE_STEPS):
        result = compared(claimed * one, quotient, steps)
        assert not result.agrees
        assert (result.step is not None) == (claimed == 1 + 1e-3)


def test_differences_at_a_kink_stand_in_for_no_derivative():
    """All central differences of |x| at 0 agree with each other: they are 0."""
    x = torch.zeros(1, dtype=torch.float64)
    at_kink = Point([x]).quotient(x.abs, [torch.ones_like(x)])
    assert compared(None, at_kink).step is None
    beside = torch.ones(1, dtype=torch.float64)
    assert compared(None, Point([beside]).quotient(beside.abs, [torch.ones_like(x)])).step == 1e-7
