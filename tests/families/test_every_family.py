"""What holds of every family: it leaves the network alone, repeats, and stands infinite weights."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.core.registry import imported, keys_of
from tests.measurement.comparing import Spy, assert_same_state, same, state
from tests.networks.small_networks import small
from tests.networks.written import Written
from tests.refusals import refused

OPTIONS = {
    "geometry": {},
    "jacobian": {},
    "hessian": {},
    "adaptive": {"draws": 3},
    "flatness": {"flatness": ["exact", "maximal", "traces"]},
    "capacity": {"capacity": ["margin", "path-norm", "fisher-rao", "pac-bayes"]},
    "sharpness": {"sharpness_radii": {"worst-adaptive-l2": [0.01], "average-standard-linf": [0.1]}},
    "representations": {},
    "feature-robustness": {"robustness_draws": 3},
    "representativeness": {"representativeness_draws": 3, "representativeness_folds": 3},
    "linear": {},
    "ma-ying": {},
    "normalized-sharpness": {},
    "output-scale": {},
    "redrawn": {"redraws": 2},
    "uniform-robustness": {"uniform_steps": 2, "robustness_deltas": [0.1]},
    "spectrum": {"largest": 3, "smallest": 2, "density_probes": 2, "density_steps": 9},
}
WITHOUT_TARGETS = ("geometry", "jacobian", "ma-ying", "output-scale", "redrawn", "representations")
KNOWN = {
    "spectrum": {"eigenvalue_products", "largest_converged", "smallest_converged"},
    # of a network whose weights or outputs are not finite
    "geometry": {"finite", "shared", "samples_measured", "layers_left_out"},
    "hessian": {"hessian_converged", "hessian_products"}
    | {"gauss_newton_converged", "gauss_newton_products"},
    "adaptive": {"finite", "dropped", "samples_measured", "not_converged", "norm_iterations"},
    "flatness": {"features"},
    "sharpness": {"sharpness_radius"},
}
DRAWN_BY_BATCH = {
    "adaptive": ("elementwise_adaptive_trace", "sharpness", "slope"),
    "geometry": ("linear_stability_ratio",),
}
"""Random signs, starts of ascents and the ends of iterations are those of a batch."""


def measured(family, model, x, labels, **options):
    options = {"loss": "cross-entropy"} | OPTIONS[family] | options
    return flatlab.measure(model, x, labels, families=[family], **options)


def case(family):
    """A network with convolutions and what changes in each pass, its inputs and classes."""
    model, x, labels = small("linear" if family == "linear" else "lenet")
    if family != "linear":
        model[-1].bias.requires_grad_(False)
    return model, x, labels


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("family", OPTIONS)
def test_the_network_and_torch_are_left_as_they_were(family, fails):
    model, x, labels = case(family)
    if fails and family in WITHOUT_TARGETS:
        model.insert(2, Spy(lambda: pytest.fail("on purpose")))
    elif fails:
        labels[-1] = 9
    before = state(model)
    errors = (flatlab.MeasureError, pytest.fail.Exception)
    raised = pytest.raises(errors, match=r"on purpose|label 9|class 9") if fails else nullcontext()
    with raised:
        measured(family, model, x, labels)
    assert_same_state(before, state(model))


ESTIMATES = ("geometry", {"accuracy": 0.9}), ("representations", {"representations_accuracy": 0.2})


@pytest.mark.parametrize(("family", "how"), [*((name, {}) for name in OPTIONS), *ESTIMATES])
def test_the_same_call_gives_the_same_bits_and_batches_change_the_last_digits_alone(family, how):
    model, x, labels = case(family)
    whole = measured(family, model, x, labels, **how)
    torch.rand(7)
    assert same(whole, measured(family, model, x, labels, **how))
    parts = measured(family, model, x, labels, **how, batch_size=4)
    left_out = DRAWN_BY_BATCH.get(family, ())
    for name in (n for n in whole if not any(part in n for part in left_out)):
        rel = 1e-4 if how else 1e-6
        close = pytest.approx(whole[name].values, rel=rel, abs=rel / 100, nan_ok=True)
        assert parts[name].values == close, name


OF_A_LOSS = sorted(OPTIONS.keys() - {*WITHOUT_TARGETS, "normalized-sharpness"})


@pytest.mark.parametrize("family", OF_A_LOSS)
def test_what_is_of_a_loss_needs_targets(family):
    model, x, _ = case(family)
    refused("targets", measured, family, model, x, None)


def with_weight(model, x, value):
    next(m for m in model.modules() if isinstance(m, nn.Linear)).weight.data[0, 0] = value
    return model


def with_unused(model, x, value):
    model.register_parameter("unused", nn.Parameter(torch.tensor([value])))
    return model


def constant(model, x, value):
    return Written(
        lambda net, x: net.inside(x).masked_fill(x.new_ones(1).bool(), value), inside=model
    )


def of_one_sample(model, x, value):
    last = lambda x, of=x[-1]: (x == of).flatten(1).all(1, keepdim=True)  # noqa: E731
    where = lambda net, x: torch.where(last(x), value, net.inside(x))  # noqa: E731
    return Written(where, inside=model)


@pytest.mark.parametrize("family", sorted(OPTIONS.keys() - {"linear"}))
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("spoil", [with_weight, with_unused, constant, of_one_sample])
def test_weights_or_outputs_that_are_not_finite_are_a_result(spoil, family, bad):
    """No numbers, though derivatives may be: those of a constant are 0."""
    model, x, labels = case(family)
    found = measured(family, spoil(model, x, bad), x, labels)
    assert {n for n in found if found[n].notnull().any()} == KNOWN.get(family, set())
    judged = {n for n in found if n.endswith("converged")} - {"not_converged"}
    assert not any((found[n] > 0).any() for n in found if n == "finite" or n in judged)


def test_one_name_is_one_quantity():
    """Families that share a name share its units, and say the same with and without an estimate."""
    units = {}
    for family in keys_of("families"):
        for name, quantity in imported("families", family).QUANTITIES.items():
            units.setdefault(name, set()).add(quantity.units)
    assert {name for name, of_name in units.items() if len(of_name) > 1} == set()
