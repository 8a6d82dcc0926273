"""Simulations of petzka2021: measures of linear models, data and tables."""

import numpy as np
import pytest
import torch
import xarray as xr
from msgspec.structs import replace
from scipy import integrate, stats

from flatlab.core.options import options_of
from flatlab.core.schema import describe
from flatlab.lab import plan
from flatlab.simulations import _ridge, locally_constant_labels, representativeness
from flatlab.simulations._data import RANGE, Extractor, Mixture, draw, mixture, rescaled
from flatlab.simulations._ridge import (
    LOSSES,
    Linear,
    approximated_bound,
    loss_nearby,
    normalized,
    one_coordinate,
    relative_flatness,
    ridge,
)
from tests.networks.small_networks import flatness

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(40, 5)) * [1, 2, 0.5, 1, 3] + [0, 1, 0, -2, 0]
TARGETS = np.where(RNG.random(40) < 0.5, -1.0, 1.0)
WEIGHT = RNG.normal(size=(3, 5))
MODEL = Linear(0.4 * RNG.normal(size=5), 0.1)


def by_definition(weight, features, targets, loss):
    """With H from automatic differentiation."""
    inputs, targets = torch.tensor(features), torch.tensor(targets)
    given = (lambda w: loss(inputs @ w.T, targets)), torch.tensor(weight)
    kappa_trace, *_ = flatness(weight, torch.autograd.functional.hessian(*given).numpy())
    return kappa_trace


def test_relative_flatness_is_that_of_the_explicit_hessian():
    outputs = FEATURES @ WEIGHT.T
    targets = RNG.normal(size=outputs.shape)
    identity = np.broadcast_to(2 * np.eye(3), (40, 3, 3))
    explicit = by_definition(WEIGHT, FEATURES, targets, lambda f, y: ((f - y) ** 2).sum(1).mean())
    assert relative_flatness(WEIGHT, FEATURES, identity) == pytest.approx(explicit, rel=1e-12)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    curvature = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
    classes = RNG.integers(3, size=40)
    explicit = by_definition(WEIGHT, FEATURES, classes, torch.nn.functional.cross_entropy)
    assert relative_flatness(WEIGHT, FEATURES, curvature) == pytest.approx(explicit, rel=1e-12)


@pytest.mark.parametrize("name", ["squared", "cross-entropy"])
def test_curvatures_are_second_derivatives(name):
    f, h = np.linspace(-3, 3, 7), 1e-4
    value = LOSSES[name].value
    second = (value(f + h, 1.0) - 2 * value(f, 1.0) + value(f - h, 1.0)) / h**2
    assert LOSSES[name].curvature(f) == pytest.approx(second, abs=1e-5)


def test_zero_one_loss_counts_an_output_of_zero_as_an_error():
    value = LOSSES["zero-one"].value
    assert value(np.array([0.2, -0.2, 0.0, 3.0]), np.array([1, 1, 1, -1])).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
def test_ridge_regression_is_that_of_scikit_learn(alpha):
    from sklearn.linear_model import Ridge, RidgeClassifier

    model = ridge(FEATURES, TARGETS, alpha)
    theirs = Ridge(alpha=alpha).fit(FEATURES, TARGETS)
    assert model.weight == pytest.approx(theirs.coef_, rel=1e-9)
    assert model.intercept == pytest.approx(theirs.intercept_, rel=1e-9)
    classifier = RidgeClassifier(alpha=alpha).fit(FEATURES, TARGETS)
    assert model(FEATURES) == pytest.approx(classifier.decision_function(FEATURES), rel=1e-9)


def test_normalization_keeps_the_function_and_gives_unit_deviation():
    scaled, divided, constant = normalized(WEIGHT, FEATURES, "deviation")
    assert divided @ scaled.T == pytest.approx(FEATURES @ WEIGHT.T)
    assert divided.std(axis=0) == pytest.approx(np.ones(5))
    assert not constant.any()
    _, divided, _ = normalized(WEIGHT, FEATURES, "variance")
    assert divided.std(axis=0) == pytest.approx(1 / FEATURES.std(axis=0))


def test_constant_features_are_left_out_and_marked():
    dead = FEATURES.copy()
    dead[:, 2], dead[:, 4] = 0.0, 7.3
    scaled, divided, constant = normalized(WEIGHT, dead, "deviation")
    assert constant.tolist() == [False, False, True, False, True]
    assert np.isfinite(divided).all()
    assert (scaled.shape, divided.shape) == ((3, 3), (40, 3))


@pytest.mark.parametrize(("dimension", "sigma"), [(1, 1.0), (2, 0.7), (3, 1.0), (8, 1.0), (8, 0.3)])
def test_one_coordinate_of_a_truncated_normal_has_the_moments_of_the_integral(dimension, sigma):
    """E|xi|^2/h^2 by the radial integral is m times the second moment of one coordinate."""
    nodes, probabilities = one_coordinate(dimension, sigma)

    def radial(power):
        def density(r):
            return r ** (dimension - 1 + power) * np.exp(-(r**2) / (2 * sigma**2))

        return integrate.quad(density, 0, 1)[0]

    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ nodes == pytest.approx(0, abs=1e-14)
    second = dimension * probabilities @ nodes**2
    assert second == pytest.approx(radial(2) / radial(0), rel=1e-4 if dimension == 2 else 1e-8)


@pytest.mark.parametrize("name", ["squared", "cross-entropy"])
def test_the_loss_nearby_is_that_of_draws_in_all_dimensions(name):
    draws = RNG.normal(size=(400_000, 5))
    inside = draws[np.linalg.norm(draws, axis=1) < 1]
    delta, loss = 0.8, LOSSES[name]
    found = loss_nearby(loss, MODEL, FEATURES[:3], TARGETS[:3], delta)
    for features, label, value in zip(FEATURES[:3], TARGETS[:3], found, strict=True):
        moved = features + delta * np.linalg.norm(features) * inside
        losses = loss.value(MODEL(moved), label)
        assert value == pytest.approx(losses.mean(), abs=5 * losses.std() / len(losses) ** 0.5)


def test_the_squared_loss_nearby_is_the_flatness_term_of_a_sphere_shrunk():
    """It is (f - y)^2 + |w|^2 E|xi|^2 / m, whose mean is delta^2/(2m) kappa where |xi| = h."""
    loss, delta = LOSSES["squared"], 0.1
    rise = loss_nearby(loss, MODEL, FEATURES, TARGETS, delta) - loss.value(MODEL(FEATURES), TARGETS)
    nodes, probabilities = one_coordinate(5)
    curvature = loss.curvature(TARGETS)[:, None, None]
    kappa = relative_flatness(MODEL.weight[None], FEATURES, curvature)
    share = 5 * probabilities @ nodes**2
    assert share < 1
    assert rise.mean() == pytest.approx(share * approximated_bound(delta, 5, kappa, 0.0))


def test_representativeness_is_its_definition_fold_by_fold():
    loss, folds = LOSSES["squared"], np.array_split(np.arange(40), 4)

    def fit(features, labels):
        return ridge(features, labels, 1.0)

    parts = []
    for fold in folds:
        rest = np.setdiff1d(np.arange(40), fold)
        model = fit(FEATURES[rest], TARGETS[rest])
        risk = np.mean([(model(FEATURES[i]) - TARGETS[i]) ** 2 for i in fold])
        near = [loss_nearby(loss, model, FEATURES[[i]], TARGETS[[i]], 0.3)[0] for i in rest]
        parts.append(risk - np.mean(near))
    found = _ridge.representativeness(loss, fit, FEATURES, TARGETS, folds, 0.3)
    assert found == pytest.approx(np.mean(parts), rel=1e-12)
    bound = approximated_bound(0.3, 5, 2.0, found)
    assert bound == pytest.approx(0.09 / 10 * 2.0 + found)


LABELS = locally_constant_labels.Options(
    separations=[0.1, 1.0, 4.0],
    batches={"exact": 2, "inverted": 1, "reversed": 1, "code": 1},
    datasets=3,
    training_size=60,
    test_size=80,
    alpha=1.0,
    flipped=0.001,
    seed=0,
)


def settings_of(name, scale="demo"):
    """The settings of the project's experiment of a simulation."""
    experiment = plan.read_experiment(plan.experiment_files()[name], scale, find=None)
    return dict(experiment.packs["all"])


def representativeness_options(**changes):
    return representativeness.Options(**{**settings_of("representativeness"), **changes})


@pytest.mark.parametrize("name", plan.keys_of("simulations"))
def test_every_simulation_is_an_experiment_and_says_what_its_settings_mean(name):
    keys = describe(options_of("simulations", name))
    assert all(meaning for _, _, meaning in keys)
    for scale in plan.SCALES:
        assert settings_of(name, scale).keys() == {key for key, _, _ in keys}


def test_clusters_lie_at_vertices_and_alternate_in_class():
    """Centres from the means of many points: coordinates +-c, the smallest distance 2c."""
    features, labels = draw(np.random.default_rng(0), 50.0, 4000)
    signs, place = np.unique(np.sign(features[:, :6]), axis=0, return_inverse=True)
    assert len(signs) == 4
    for k in range(4):
        here = place.ravel() == k
        assert here.sum() == 1000
        assert features[here, :6].mean(axis=0) == pytest.approx(50 * signs[k], abs=0.5)
        assert len(set(labels[here])) == 1
    assert labels.sum() == 0


def test_redundant_features_are_combinations_of_the_others():
    features, labels = draw(np.random.default_rng(1), 1.0, 200)
    assert features.shape == (200, 8)
    assert np.linalg.matrix_rank(features) == 6
    assert set(labels) == {-1.0, 1.0}


TWO = Mixture(np.array([[-1.0, 0.5], [1.5, 0.0]]), np.array([[[1.0, 0.5], [0, 0.7]], np.eye(2)]))


@pytest.mark.parametrize("size", [1, 2])
def test_the_bias_constant_is_the_integral_on_a_grid(size):
    known = Mixture(TWO.centres[:, :size], TWO.mixing[:, :size, :size])
    axes = [np.linspace(-9, 9, 601)] * size
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    normals = [stats.multivariate_normal(c, w.T @ w) for c, w in zip(*known, strict=True)]
    product = sum(normal.pdf(grid) for normal in normals) / 2 * (grid**2).sum(-1)
    laplacian = sum(
        np.gradient(np.gradient(product, axis, axis=n), axis, axis=n) for n, axis in enumerate(axes)
    )
    nodes, probabilities = one_coordinate(size)
    expected = probabilities @ nodes**2 / 2 * np.abs(laplacian).sum() * 0.03**size
    points = np.concatenate([normal.rvs(200_000, random_state=0) for normal in normals])
    assert known.bias_constant(points.reshape(-1, size)) == pytest.approx(expected, rel=0.01)


def test_the_bias_constant_is_what_the_mean_of_kernel_estimates_lacks():
    """A point x of a standard normal distribution is moved to x (1 + delta xi)."""
    z, delta, (nodes, probabilities) = np.linspace(-9, 9, 9001), 0.02, one_coordinate(1)
    moved = [stats.norm.pdf(z, scale=1 + delta * node) for node in nodes]
    lacking = np.trapezoid(np.abs(probabilities @ moved - stats.norm.pdf(z)), z)
    constant = Mixture(np.zeros((1, 1)), np.ones((1, 1, 1))).bias_constant(
        stats.norm.ppf(np.linspace(0, 1, 100_001)[1:-1])[:, None]
    )
    assert lacking == pytest.approx(constant * delta**2, rel=0.01)


def test_the_mixture_is_the_one_that_is_drawn():
    centres, mixing = mixture(np.random.default_rng(5), 3.0)
    features = draw(np.random.default_rng(5), 3.0, 40_000)[0][:, :6]
    squares = [np.outer(c, c) + w.T @ w for c, w in zip(centres, mixing, strict=True)]
    assert features.T @ features / 40_000 == pytest.approx(np.mean(squares, axis=0), abs=0.2)


def test_labels_are_drawn_anew_at_the_rate_that_is_asked_for():
    changed = []
    for share in (0.0, 0.2):
        features, labels = draw(np.random.default_rng(2), 50.0, 8000, flipped=share)
        _, place = np.unique(np.sign(features[:, :6]), axis=0, return_inverse=True)
        clusters = [labels[place.ravel() == k] for k in range(4)]
        changed.append(np.mean([min((part > 0).mean(), (part < 0).mean()) for part in clusters]))
    assert changed[0] == 0
    assert changed[1] == pytest.approx(0.1, abs=0.02)  # half of what is drawn anew is as before


def test_inputs_of_an_extractor_have_the_features_that_are_asked_for():
    generator = np.random.default_rng(0)
    features, _ = draw(generator, 1.0, 300)
    extractor = Extractor(generator, 8)
    found, factor = rescaled(extractor, features)
    error = np.linalg.norm(found - factor * features, axis=1)
    assert (error < 1e-3 * np.linalg.norm(factor * features, axis=1)).all()
    first = extractor.inverse((factor * features).astype(np.float32))
    assert np.abs(first).max() <= RANGE
    assert extractor.inverse((features / np.abs(features).max()).astype(np.float32)) is None


def test_an_extractor_that_no_factor_suits_is_drawn_anew_and_counted():
    """Its biases alone lead out of the range: a ladder of factors would have no end."""
    paper = settings_of("locally-constant-labels", "paper")
    options = locally_constant_labels.Options(**paper)
    generator = np.random.default_rng([options.seed, 6, 1, 0])
    sample = locally_constant_labels.make("inverted", generator, 3.0, options)
    assert sample.redrawn == 1
    assert np.isfinite(sample.features).all()
    assert np.abs(sample.features).max() > 0.01
    small = replace(LABELS, separations=[3.0], batches={"inverted": 1}, datasets=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locally_constant_labels, "invertible", lambda *given: (Extractor(*given), 2))
        table = locally_constant_labels.table(small)
    assert table.attrs["extent"].endswith("cannot be inverted, drawn anew: 2")


def test_without_the_tanh_in_the_inverse_the_features_are_others():
    """And they are the ones of a network of linear layers."""
    generator = np.random.default_rng(0)
    features = draw(generator, 1.0, 100)[0].astype(np.float32)
    extractor = Extractor(generator, 8)
    values = extractor.linear_inverse(features)
    linear = values
    for weight, _, bias in extractor.layers:
        linear = linear @ weight.T + bias
    assert linear == pytest.approx(features, abs=1e-3)
    seen = extractor(np.tanh(values))
    assert np.abs(seen - features).mean() > 0.1


def test_the_table_of_labels_has_what_a_loop_over_its_data_finds():
    table = locally_constant_labels.table(LABELS)
    for part in ("3 class separations", "60 training and 80 test", "2 (exact)"):
        assert part in table.attrs["extent"]
    for variant, drawn in (("exact", 4.0), ("reversed", 0.1)):
        features, labels = draw(np.random.default_rng([0, 2, 0, 1]), drawn, 140)
        model = ridge(features[:60], labels[:60], 1.0)
        place = {"variant": variant, "separation": 4.0, "batch": 0, "dataset": 1}
        here = table.sel(variant=variant, separation=4.0).isel(batch=0, dataset=1)
        square = (model(features) - labels) ** 2
        kappa = 2 * (features[:60] ** 2).sum(1).mean() * (model.weight**2).sum()
        values = here.sel(loss="squared")
        assert float(values["risk"]) == pytest.approx(square[60:].mean()), place
        assert float(values["gap"]) == pytest.approx(square[60:].mean() - square[:60].mean())
        found = values["relative_flatness"].sel(normalization="none")
        assert float(found) == pytest.approx(kappa)
        wrong = np.sign(model(features)) != labels
        assert float(here["risk"].sel(loss="zero-one")) == pytest.approx(wrong[60:].mean())
    assert table["drawn_at"].sel(variant="code").values.tolist() == [4.0, 1.0, 0.1]
    assert np.isnan(table["gap"].sel(variant="code").isel(batch=1)).all()
    assert np.isfinite(table["gap"].sel(variant="exact")).all()


def test_the_authors_code_scales_weights_and_not_features():
    sample = locally_constant_labels.make("code", np.random.default_rng(4), 1.0, LABELS)
    kappas, risks = locally_constant_labels.measure(sample, 60, "code")
    inside = sample.features[:60]
    weight = sample.model.weight * inside.var(axis=0)
    expected = 2 * (inside**2).sum(axis=1).mean() * (weight**2).sum()
    assert kappas[0, 2] == pytest.approx(expected)
    assert set(sample.targets) == {0.0, 1.0}
    square = (sample.model(sample.features) - sample.targets) ** 2
    assert risks[0].tolist() == pytest.approx([square[:60].mean(), square[60:].mean()])


def test_the_table_of_representativeness_has_bounds_made_of_its_parts():
    options = representativeness_options(separations=[0.5, 4.0], repeats=2, size=180, inner_folds=4)
    table = representativeness.table(options)
    paper, code = (table.sel(variant=variant) for variant in ("paper", "code"))
    for part, width in ((paper, 8), (code, 5)):
        of_flatness = 0.1**2 / (2 * width) * part["relative_flatness"]
        xr.testing.assert_allclose(part["bound"], of_flatness + part["representativeness"])
    constants = [
        mixture(np.random.default_rng([0, 0, 1, repeat]), 4.0).bias_constant(
            draw(np.random.default_rng([0, 0, 1, repeat]), 4.0, 180)[0][:, :6]
        )
        for repeat in range(2)
    ]
    largest = paper["worst_case"].sel(separation=4.0) / xr.DataArray(constants, dims="repeat")
    assert (abs(largest * 120**0.2 - 5) < 4.9).all()
    assert np.isnan(code["worst_case"]).all()
    assert ((code["representativeness"] <= 1) & (code["representativeness"] > -0.1)).all()
    again = representativeness.table(options)
    xr.testing.assert_identical(table, again)


def test_folds_are_a_partition():
    parts = representativeness.partition(np.random.default_rng(0), 10, 3)
    assert sorted(np.concatenate(parts)) == list(range(10))
    assert [len(part) for part in parts] == [4, 3, 3]


def test_the_gap_of_representativeness_is_that_of_a_model_of_the_other_folds():
    options = representativeness_options()
    generator = np.random.default_rng(0)
    features, labels = draw(generator, 1.0, 90)
    test, rest = np.arange(30), np.arange(30, 90)
    gap, *_, worst_case = representativeness.in_paper(
        generator, representativeness.Sample(features, labels, test, rest, 2.0), options
    )
    model = ridge(features[30:], labels[30:], 1.0)
    square = LOSSES["squared"].value(model(features), labels)
    assert gap == pytest.approx(square[:30].mean() - square[30:].mean())
    assert worst_case == pytest.approx(2 * square.max() * 60**-0.2)
