"""Relative flatness and representativeness of linear models: what must hold for every one."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flatlab.simulations._ridge import LOSSES, Linear, loss_nearby, normalized, relative_flatness
from tests.laws.relations import law

seeds = st.integers(0, 10_000)
factors = arrays(float, 4, elements=st.floats(0.1, 10))


def model(seed):
    """Weight (3, 4), features (20, 4) and positive semidefinite curvature (20, 3, 3)."""
    generator = np.random.default_rng(seed)
    roots = generator.normal(size=(20, 3, 3))
    weight, features = generator.normal(size=(3, 4)), 1 + generator.normal(size=(20, 4))
    return weight, features, roots @ roots.transpose(0, 2, 1)


@law(seed=seeds, factor=st.floats(0.1, 10))
def test_rescaling_the_layer_against_its_features_changes_nothing(seed, factor):
    weight, features, curvature = model(seed)
    assert relative_flatness(weight / factor, features * factor, curvature) == pytest.approx(
        relative_flatness(weight, features, curvature)
    )


@law(seed=seeds)
def test_it_is_not_negative_where_the_loss_is_convex(seed):
    assert relative_flatness(*model(seed)) >= 0


def rescaled_in_units(seed, factors, unit):
    """The flatness of a layer and of its rescaled neurons, with features in a unit."""
    weight, features, curvature = model(seed)
    return [
        relative_flatness(*normalized(w, phi, unit)[:2], curvature)
        for w, phi in ((weight, features), (weight / factors, features * factors))
    ]


@law(seed=seeds, factors=factors)
def test_over_the_deviation_it_is_invariant_under_rescalings_of_neurons(seed, factors):
    """All of them, the last layer's features included."""
    before, after = rescaled_in_units(seed, factors, "deviation")
    assert before == pytest.approx(after)


def test_over_the_variance_it_is_not():
    before, after = rescaled_in_units(0, np.array([25.0, 1, 1, 1]), "variance")
    assert abs(before / after - 1) > 1e-3


@law(seed=seeds, name=st.sampled_from(["squared", "cross-entropy"]), delta=st.floats(0.01, 1))
def test_the_loss_nearby_exceeds_the_loss_where_that_is_convex(seed, name, delta):
    """Jensen's inequality; and it grows with the neighbourhood."""
    weight, features, _ = model(seed)
    labels = np.where(np.arange(20) % 2, 1.0, -1.0)
    linear, loss = Linear(weight[0], 0.3), LOSSES[name]
    here = loss.value(linear(features), labels)
    near, further = (
        loss_nearby(loss, linear, features, labels, part) for part in (delta / 2, delta)
    )
    assert (near >= here - 1e-12).all()
    assert (further >= near - 1e-12).all()
