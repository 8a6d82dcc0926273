"""Laws of relative flatness, of representativeness and of the capacity measures."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flatlab
from flatlab.families.capacity import MARGINS
from flatlab.families.capacity import QUANTITIES as CAPACITY
from flatlab.families.flatness import QUANTITIES as FLATNESS
from flatlab.networks._transformations import pairs, transformed
from flatlab.simulations import _ridge
from tests.laws.relations import FACTORS, law
from tests.networks.small_networks import LOSSES, hessian, small, targets_for, total_loss

seeds = st.integers(0, 10_000)
SAME = 1e-6

COUNTS = {"features", "features_constant"}
ERRORS = {"hessian_trace_error", "hessian_trace_per_layer_error"}  # 0 where it is exact
DRAWN = {name for name in CAPACITY if name.startswith("pac_bayes")}
OF_THE_FUNCTION = {"margin", "inverse_margin", "fisher_rao", "output_norm"}
NORMALIZED = {name for name in FLATNESS if name.startswith("normalized")}
KAPPAS = {"kappa_trace", "kappa_max"}
OF_PRODUCTS = {
    *{name for name in MARGINS if name.startswith(("log_spectral_p", "log_frob"))},
    *("log_spectral_product", "log_frobenius_product"),
    *("frobenius_over_spectral", "log_spectral_complexity"),
}
INITIAL = {"parameter_distance"}
ALWAYS = {*COUNTS, *ERRORS, *OF_THE_FUNCTION}
KEPT = {
    # by transformation: what it leaves alone; all other quantities change
    "layers": {*ALWAYS, "path_norm", *NORMALIZED, *KAPPAS, *OF_PRODUCTS},
    "neurons": {*ALWAYS, "path_norm", *NORMALIZED},
    "batch-norm": {*ALWAYS, "path_norm", *NORMALIZED, *KAPPAS},
    "permutation": {*FLATNESS, *CAPACITY} - INITIAL - DRAWN,
}


def measured(model, x, labels, loss="cross-entropy", **how):
    how = {"families": ["flatness"], "flatness": ["exact", "maximal", "traces"], **how}
    return flatlab.measure(model, x, labels, loss=loss, **how)


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *itertools.product(["mlp-relu", "lenet"], ["layers", "neurons", "permutation"]),
        *itertools.product(["vgg", "resnet"], ["layers", "permutation", "batch-norm"]),
        ("preact-resnet", "batch-norm"),
        ("mlp-tanh", "permutation"),
    ],
)
@law(4, seed=seeds)
def test_what_claims_to_be_invariant_is_and_nothing_else(name, kind, seed):
    """Under changes of the parameters that leave the function as it is."""
    model, x, _ = small(name, seed)
    labels = model(x).argmax(1)
    other = transformed(model, kind, seed)
    torch.testing.assert_close(other(x), model(x), rtol=1e-9, atol=1e-9)
    how = {"families": ["flatness", "capacity"], "initial": small(name, seed + 1)[0]}
    before, after = (measured(net, x, labels, **how) for net in (model, other))
    kept = KEPT[kind] & {*before}
    if name in ("vgg", "resnet") and kind == "layers":
        kept -= OF_PRODUCTS - {"frobenius_over_spectral"}  # the scale of the norm takes the factor
    for key in kept:
        np.testing.assert_allclose(after[key], before[key], SAME, 1e-9, err_msg=key)
    for key in {*before} - kept - DRAWN:
        assert not np.allclose(after[key], before[key], SAME, 0, equal_nan=True), key


@law(15, seed=seeds, neuron=st.integers(0, 5), factor=FACTORS)
def test_only_a_layers_own_features_matter_and_deviations_remove_that(seed, neuron, factor):
    """Multiplying a neuron of fc1 changes kappa of fc2, whose feature it is, and of no other."""
    model, x, labels = small("mlp-relu", seed)
    before = measured(model, x, labels)
    factors = torch.ones(6, dtype=torch.float64)
    factors[neuron] = factor
    pairs(model)[0].scale(factors)
    after = measured(model, x, labels)
    alive = before.features_constant[1] == 0 or bool(torch.relu(model.fc1(x))[:, neuron].std() > 0)
    for key in ("kappa_trace", "kappa_max"):
        changed = after[key].values / before[key].values
        assert changed[[0, 2]] == pytest.approx(1, rel=SAME)
        assert not alive or changed[1] != pytest.approx(1, rel=1e-9)
    for key in NORMALIZED:
        assert after[key].values == pytest.approx(before[key].values, rel=SAME)


@pytest.mark.parametrize("loss", ["half-mse", "cross-entropy", "logistic"])
@pytest.mark.parametrize("name", ["mlp-relu", "mlp-tanh"])
def test_the_mean_over_rotations_of_the_features_is_kappa_over_their_number(name, loss):
    """E_A sum <w_s A, H_st (w_t A)^T> = kappa_Tr / m over the signed permutations A.

    These have the second moments of all orthogonal matrices.
    """
    model, x, labels = small(name)
    model.fc2 = torch.nn.Linear(6, 3).double()
    model.fc3 = torch.nn.Linear(3, 3).double()
    targets = targets_for(loss, labels)
    found = flatlab.measure(model, x, targets, families=["flatness"], **LOSSES[loss])
    function = total_loss(model, x, targets, loss)
    blocks = hessian(model, "fc3.weight", function)
    weight, values = model.fc3.weight.detach().numpy(), []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product([-1, 1], repeat=3):
            turned = weight @ (np.eye(3)[list(order)] * signs)
            values.append(np.einsum("sa,satb,tb", turned, blocks, turned))
    assert np.mean(values) == pytest.approx(found.kappa_trace[2].item() / 3, rel=1e-10)


@law(15, seed=seeds)
def test_linear_models_have_the_closed_forms(seed):
    """Squared error, and the trace of softmax regression."""
    model, x, labels = small("linear", seed)
    weight, squares = model.fc.weight.detach(), x.square().sum(1)
    found = measured(model, x, labels, "half-mse")
    largest, size = torch.linalg.eigvalsh(x.T @ x / len(x))[-1], weight.square().sum()
    expected = {"kappa_trace": squares.mean() * size, "kappa_max": size * largest}
    for name, value in {**expected, "hessian_trace": 3 * squares.mean()}.items():
        assert found[name].values.flat[0] == pytest.approx(float(value), rel=1e-10), name
    p = model(x).detach().softmax(1)
    found = measured(model, x, labels)
    trace = float((squares * (1 - p.square().sum(1))).mean())
    assert found.hessian_trace.item() == pytest.approx(trace, rel=1e-10)
    means = p @ weight
    expected = squares * (p @ weight.square().sum(1) - means.square().sum(1))
    assert found.kappa_trace[0].item() == pytest.approx(float(expected.mean()), rel=1e-10)


@law(15, seed=seeds)
def test_flatness_of_convex_losses_is_not_negative_and_exceeds_its_part(seed):
    """kappa, with the largest of m eigenvalues of each block, is at most sum |w_s|^2 Tr H_ss."""
    model, x, labels = small("lenet", seed)
    found = measured(model, x, labels)
    linear = slice(2, None)
    assert (found.kappa_trace[linear] >= -1e-12).all()
    assert (found.kappa_max[linear] >= -1e-12).all()
    largest = torch.stack([model[place].weight.detach().square().sum(1).max() for place in (6, 8)])
    bound = found.hessian_trace_per_layer[linear].values * largest.numpy()
    assert (found.kappa_max[linear].values <= bound * (1 + 1e-9)).all()


@law(15, seed=seeds, name=st.sampled_from(["mlp-relu", "lenet"]))
def test_fisher_rao_is_the_derivative_along_the_weights_without_biases(seed, name):
    """sqrt(mean <theta, dl/dtheta>^2): outputs are homogeneous in the weights of each layer."""
    model, x, labels = small(name, seed)
    for key, parameter in model.named_parameters():
        if key.endswith("bias"):
            parameter.data.zero_()
    squares = []
    for sample, label in zip(x, labels, strict=True):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(sample[None]), label[None]).backward()
        along = sum(float((p.detach() * p.grad).sum()) for p in model.parameters())
        squares.append(along**2)
    how = {"families": "capacity", "capacity": ["fisher-rao"], "loss": "cross-entropy"}
    found = flatlab.measure(model, x, labels, **how)
    assert found.fisher_rao.item() == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-9)


factors = arrays(float, 4, elements=st.floats(0.1, 10))


def linear_model(seed):
    """Weight (3, 4), features (20, 4) and positive semidefinite curvature (20, 3, 3)."""
    generator = np.random.default_rng(seed)
    roots = generator.normal(size=(20, 3, 3))
    weight, features = generator.normal(size=(3, 4)), 1 + generator.normal(size=(20, 4))
    return weight, features, roots @ roots.transpose(0, 2, 1)


@law(seed=seeds, factor=st.floats(0.1, 10))
def test_rescaling_the_layer_against_its_features_changes_nothing(seed, factor):
    weight, features, curvature = linear_model(seed)
    before = _ridge.relative_flatness(weight, features, curvature)
    after = _ridge.relative_flatness(weight / factor, features * factor, curvature)
    assert after == pytest.approx(before)


@law(seed=seeds)
def test_it_is_not_negative_where_the_loss_is_convex(seed):
    assert _ridge.relative_flatness(*linear_model(seed)) >= 0


def rescaled_in_units(seed, factors, unit):
    """The flatness of a layer and of its rescaled neurons, with features in a unit."""
    weight, features, curvature = linear_model(seed)
    return [
        _ridge.relative_flatness(*_ridge.normalized(w, phi, unit)[:2], curvature)
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
    weight, features, _ = linear_model(seed)
    labels = np.where(np.arange(20) % 2, 1.0, -1.0)
    linear, loss = _ridge.Linear(weight[0], 0.3), _ridge.LOSSES[name]
    here = loss.value(linear(features), labels)
    given = loss, linear, features, labels
    near, further = (_ridge.loss_nearby(*given, part) for part in (delta / 2, delta))
    assert (near >= here - 1e-12).all()
    assert (further >= near - 1e-12).all()
