"""Several networks that are measured at once have the numbers of each alone.

To the bit on eight samples: parts of batches begin where memory is aligned.
"""

import numpy as np
import pytest
import torch

from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.families import geometry
from flatlab.losses._base import loss_of
from flatlab.measuring.quantity import SampleSet, settings_of
from tests.families.geometry.architectures import GENERIC, ZOO, network
from tests.measurement.comparing import ALL_COSTLY

COUNT = 4


def eight(name):
    """A network and eight samples."""
    model, inputs = network(name)
    return model, torch.cat([inputs, 2 * inputs, -inputs])[:8]


def states_of(model):
    """Weights of networks that are a little unlike each other; those that are one stay one."""

    def changed(tensor, number):
        random = np.random.default_rng([number, tensor.numel()]).random(tensor.shape)
        return tensor * torch.from_numpy(np.asarray(1 + 0.1 * random)).to(tensor)

    state = model.state_dict()
    return [{k: changed(tensor, n) for k, tensor in state.items()} for n in range(COUNT)]


def both(model, inputs, states):
    """What is measured of all networks at once, and of one after the other."""
    settings = settings_of("geometry", {"costly": ALL_COSTLY}, loss_of({"loss": "half-mse"}))
    samples = SampleSet(inputs)
    with preserving_state(model) as begin_anew:
        alone = []
        for state in states:
            begin_anew(state)
            settings.norms.clear()
            alone.append(geometry.measure(model, samples, settings))
        begin_anew(states[0])
        norms = [{} for _ in states]
        several = geometry.measure_several(model, states, samples, settings, norms)
    assert not any({"networks", "forward"} & vars(module).keys() for module in model.modules())
    return several, alone


def equal(one, other):
    values = one.values.items()
    return (one.values.keys(), one.notes) == (other.values.keys(), other.notes) and all(
        np.array_equal(value, other.values[name], equal_nan=True) for name, value in values
    )


@pytest.mark.parametrize("name", ZOO)
def test_networks_measured_at_once_have_the_numbers_of_each_alone(name):
    model, inputs = eight(name)
    several, alone = both(model, inputs, states_of(model))
    if name in GENERIC:
        assert several == []
    else:
        assert len(several) == COUNT
        assert all(map(equal, several, alone))
        assert not equal(several[0], alone[1])


def test_a_network_that_is_not_finite_is_measured_alone():
    model, inputs = eight("perceptron")
    states = states_of(model)
    states[2]["0.weight"][0] = np.nan
    several, alone = both(model, inputs, states)
    assert several == []
    assert [one.finite for one in alone] == [True, True, False, True]
