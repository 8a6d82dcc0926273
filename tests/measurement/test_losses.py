"""Losses with class weights and as functions; parts of parameters, precisions and wrappers."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional as F

import flatlab
from flatlab.core.registry import keys_of, measures_samples
from tests.networks.masked import Case, largest, mean
from tests.networks.users import LABELS, Plain, X, hessian_of, measured, same, seeded
from tests.refusals import refused

FAMILIES = ["geometry", "hessian"]
WEIGHTS = [1.0, 2.0, 0.5, 3.0]
TENSOR = torch.tensor(WEIGHTS).double()


class Kinked(Plain):
    def hidden(self, x):
        return torch.relu(self.first(x))


def weighted(family, model, **options):
    return measured(family, model, X, LABELS, class_weights=WEIGHTS, **options)


def loss(f, y=LABELS, **how):
    """Of torch."""
    return F.cross_entropy(f, y, weight=TENSOR, **how)


@pytest.mark.parametrize("kind", [Plain, Kinked])
@pytest.mark.parametrize("size", [1, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_hessian_is_that_of_torchs_weighted_mean(kind, size, smoothing):
    model = seeded(kind)
    exact = hessian_of(model, lambda f: loss(f, label_smoothing=smoothing), X)
    how = {"batch_size": size, "label_smoothing": smoothing}
    report = weighted("hessian", model, **how)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest(exact), rel=1e-6)
    pairs = weighted("spectrum", model, largest=2, residual=1e-9, **how)["largest_eigenvalue"]
    expected = torch.linalg.eigvalsh(exact).flip(0)[:2].numpy()
    assert pairs.values.ravel() == pytest.approx(expected, rel=1e-9)
    traces = {"flatness": ["traces"], "hessian_traces": "exact"}
    traced = weighted("flatness", model, **traces, **how)
    assert float(traced["hessian_trace"]) == pytest.approx(float(exact.trace()), rel=1e-9)


def jacobians(model):
    """df/dtheta of each sample, (N, P)."""
    named = {name: p.detach() for name, p in model.named_parameters()}

    def f(state, x):
        return functional_call(model, state, (x,))[0]

    parts = [jacrev(f)(named, x) for x in X.split(1)]
    return [torch.cat([j.flatten(1) for j in part.values()], 1) for part in parts]


def test_gauss_newton_and_empirical_fisher_are_those_of_weighted_samples():
    model, total, fisher = seeded(Plain), 0, 0
    shares = TENSOR[LABELS] / TENSOR[LABELS].mean()
    for x, y, share, jacobian in zip(X, LABELS, shares, jacobians(model), strict=True):
        p = model(x[None])[0].softmax(0).detach()
        total = total + share * jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian
        slope = share * jacobian.T @ (p - F.one_hot(y, 4))
        fisher = fisher + torch.outer(slope, slope)
    how = {"matrices": ["gauss-newton", "empirical-fisher"], "largest": 1, "residual": 1e-9}
    found = weighted("spectrum", model, **how)["largest_eigenvalue"].values.ravel()
    expected = [largest(total / len(X)), largest(fisher / len(X))]
    assert found == pytest.approx(expected, rel=1e-9)
    report = weighted("hessian", model)
    assert float(report["gauss_newton_lambda_max"]) == pytest.approx(expected[0], rel=1e-6)


@pytest.mark.parametrize("kind", [Plain, Kinked])
def test_relative_flatness_and_feature_robustness_are_of_the_weighted_mean(kind):
    model = seeded(kind)
    kappa = weighted("flatness", model)["kappa_trace"].values
    hessian, start = hessian_of(model, loss, X), 0
    for place, layer in enumerate((model.first, model.last)):
        rows, columns = layer.weight.shape
        here = slice(start, start + rows * columns)
        start = here.stop + rows
        block = hessian[here, here].view(rows, columns, rows, columns)
        traces = block.diagonal(dim1=1, dim2=3).sum(-1)
        exact = float((traces * (layer.weight @ layer.weight.T)).sum().detach())
        assert kappa[place] == pytest.approx(exact, rel=1e-9)
    how = {"robustness_deltas": [0.1], "robustness_draws": 2}
    robust = weighted("feature-robustness", model, **how)
    leading = robust["feature_robustness_leading"].values[:, 0]
    assert leading == pytest.approx(0.01 / np.array([12, 10]) * kappa, rel=1e-9)


def test_fisher_rao_and_losses_at_other_weights_are_of_the_weighted_mean():
    model = seeded(Plain)
    f = model(X).detach()
    shares = TENSOR[LABELS] / TENSOR[LABELS].mean()
    products = shares * ((f.softmax(1) - F.one_hot(LABELS, 4)) * f).sum(1)
    report = weighted("capacity", model, capacity=["fisher-rao"])
    expected = 2 * float(products.square().mean().sqrt())
    assert float(report["fisher_rao"]) == pytest.approx(expected, rel=1e-9)
    how = {"loss": "cross-entropy", "class_weights": WEIGHTS}
    line = flatlab.landscape(model, X, LABELS, points=3, batch_size=3, **how)
    assert float(line["loss"][1]) == pytest.approx(float(loss(f)), rel=1e-9)
    tracker = flatlab.Tracker(model, X, LABELS, families="hessian", **how)
    tracker(0)
    assert float(tracker.table["loss"][0]) == pytest.approx(float(loss(f)), rel=1e-9)
    other = seeded(Kinked)
    height = flatlab.barriers([model, other], X, LABELS, points=3, **how)["barrier"]
    assert height.shape == (2, 2)


def test_sharpness_at_a_radius_is_of_the_weighted_mean_whatever_names_the_loss():
    model = seeded(Plain)
    radii = {"average-standard-l2": [0.1], "worst-standard-l2": [0.1]}
    how = {"sharpness_radii": radii, "sharpness_draws": 3, "sharpness_batch": 4}
    named = weighted("sharpness", model, **how)["sharpness_at_radius"].values
    null = weighted("sharpness", model, sharpness_loss=None, **how)["sharpness_at_radius"].values
    assert named == pytest.approx(null, rel=1e-12)
    theta = nn.utils.parameters_to_vector(model.parameters()).detach()
    generator, moved, expected = torch.Generator().manual_seed(0), seeded(Plain), 0.0
    for x, y in zip(X.split(4), LABELS.split(4), strict=True):
        draws = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        changes = []
        for _ in range(3):
            noise = torch.empty_like(theta).normal_(generator=draws)
            nn.utils.vector_to_parameters(theta + 0.1 * noise, moved.parameters())
            after, before = (loss(m(x).detach(), y, reduction="sum") for m in (moved, model))
            changes.append((after - before) / TENSOR[LABELS].sum())
        expected += mean(changes)
    assert named[0, 0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
@pytest.mark.parametrize("size", [1, None])
def test_weights_and_masks_together_are_torchs_weighted_mean_over_positions(kind, size):
    case = Case(kind)
    weights = [1.0, 3.0, 0.5, 2.0, 0.25][: 5 if kind == "sequences" else 3]
    tensor = torch.tensor(weights).double()
    counted = torch.cat([case.stack.labels[n][case.stack.kept[n]] for n in case.stack])

    def total(theta):
        return case.stack.losses(theta, tensor).sum() / tensor[counted].sum()

    exact = torch.autograd.functional.hessian(total, case.stack.theta)
    report = case.measured("hessian", class_weights=weights, batch_size=size)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest(exact), rel=1e-6)
    how = {"flatness": ["traces"], "hessian_traces": "exact", "batch_size": size}
    traced = case.measured("flatness", class_weights=weights, **how)
    assert float(traced["hessian_trace"]) == pytest.approx(float(exact.trace()), rel=1e-9)
    how = {"matrices": ["gauss-newton"], "largest": 1, "residual": 1e-9}
    pairs = case.measured("spectrum", class_weights=weights, **how)
    found, products = float(pairs["largest_eigenvalue"].squeeze()), 0
    for n, jacobian in enumerate(case.stack.of_weights()):
        p, y = case.stack.f(n).softmax(1), case.stack.labels[n][case.stack.kept[n]]
        blocks = [w * (r.diag() - r.outer(r)) for w, r in zip(tensor[y], p, strict=True)]
        products = products + jacobian.T @ torch.block_diag(*blocks) @ jacobian
    assert found == pytest.approx(largest(products / tensor[counted].sum()), rel=1e-9)


def test_probabilities_are_weighted_by_their_classes():
    model, targets = seeded(Plain), torch.rand(10, 4).double().softmax(1)

    def total(f):
        return -(targets * TENSOR * f.log_softmax(1)).sum() / (targets @ TENSOR).sum()

    exact = hessian_of(model, total, X)
    report = measured("hessian", model, X, targets, class_weights=WEIGHTS)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest(exact), rel=1e-6)


def test_the_pair_bound_holds_for_weighted_losses():
    report = weighted("jacobian", seeded(Plain), pairs=2)
    assert float(report["pairs_below"]) == 0


def test_equal_weights_change_nothing():
    model = seeded(Plain)
    for family in ("hessian", "flatness", "capacity"):
        plain = measured(family, model, X, LABELS)
        equal = measured(family, model, X, LABELS, class_weights=torch.full((4,), 3.0))
        for name in plain.data_vars:
            ours, theirs = equal[name].values, plain[name].values
            if "residual" not in name:
                assert ours == pytest.approx(theirs, rel=1e-9, nan_ok=True), name


def test_what_has_no_closed_form_with_weights_is_refused_in_a_sentence():
    model = seeded(Plain)
    refused(["class weights", "relative_flatness_loss="], weighted, "geometry", model)
    for how in ({"relative_flatness_loss": "half-mse"}, {"quantities": ["sharpness"]}):
        assert float(weighted("geometry", model, **how)["sharpness"]) > 0
    refused("negative log-likelihood", weighted, "spectrum", model, matrices=["fisher"])
    linear = nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).double()
    refused("class weights", weighted, "linear", linear)


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"class_weights": WEIGHTS, "loss": "half-mse"}, "unknown key 'class_weights'"),
        ({"class_weights": WEIGHTS, "loss": F.cross_entropy}, "unknown key 'class_weights'"),
        ({"class_weights": WEIGHTS[:3]}, "class_weights"),
        ({"class_weights": [*WEIGHTS, 1.0]}, "5 class weights and 4 outputs"),
        ({"class_weights": [1.0, -1.0, 1.0, 1.0]}, ">= 0"),
        ({"class_weights": [0.0] * 4}, "0 for the classes"),
        ({"class_weights": "balanced"}, "class_weights"),
        ({"loss": nn.CrossEntropyLoss(weight=TENSOR)}, "class_weights="),  # torch's own mean
    ],
)
def test_weights_that_do_not_fit_are_refused(given, about):
    how = {"families": "hessian", "loss": "cross-entropy"} | given
    labels = torch.where(LABELS == 3, 3, LABELS)
    labels[0] = 3
    refused(about, flatlab.measure, seeded(Plain), X, labels, **how)


LOSSES = {
    "a mean": nn.CrossEntropyLoss(),
    "a function": F.cross_entropy,
    "the user's own": lambda f, y: -f.log_softmax(1).gather(1, y[:, None]).mean(),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("family", ["hessian", "sharpness"])
def test_a_loss_that_is_a_function_gives_what_its_name_gives(family, kind):
    how = {"sharpness_loss": None} if family == "sharpness" else {}
    same_loss = measured(family, seeded(Plain), X, LABELS, **how)
    ours = measured(family, seeded(Plain), X, LABELS, **how, loss=LOSSES[kind])
    for name in same_loss.data_vars:
        assert np.allclose(ours[name], same_loss[name], rtol=1e-6, equal_nan=True), name


def test_class_weights_and_sums_are_functions_too():
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0]).double()

    def weighted(f, y):
        return F.cross_entropy(f, y, weight=weights, reduction="sum")

    model = seeded(Plain)
    report = measured("hessian", model, X, LABELS, loss=weighted)
    exact = hessian_of(model, lambda f: weighted(f, LABELS), X)
    largest = float(torch.linalg.eigvalsh(exact)[-1])
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest, rel=1e-6)
    traces = {"flatness": ["traces"], "hessian_traces": "exact"}
    traced = measured("flatness", model, X, LABELS, loss=weighted, **traces)
    assert float(traced["hessian_trace"]) == pytest.approx(float(exact.trace()), rel=1e-9)


def test_a_loss_with_constants_of_another_precision_is_measured_and_said_not_to_be_checked():
    model, x = seeded(Plain).float(), X.float()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0])
    module = nn.CrossEntropyLoss(weight=weights, reduction="sum")

    def function(f, y):
        return F.cross_entropy(f, y, weight=weights, reduction="sum")

    checked = measured("hessian", model, x, LABELS, loss=module)
    assert "derivatives_not_checked" not in checked.attrs
    report = measured("hessian", model, x, LABELS, loss=function)
    assert "float64" in report.attrs["derivatives_not_checked"]
    same(report, checked)
    how = {"loss": function, "sharpness_loss": None}
    refused("float64", measured, "sharpness", model, x, LABELS, **how)


@pytest.mark.parametrize(
    ("loss", "family", "words"),
    [
        (lambda f, y: F.cross_entropy(f, y) ** 2, "hessian", "neither the mean nor the sum"),
        (F.cross_entropy, "geometry", ["closed form", "cross-entropy"]),
        (partial(F.multi_margin_loss, p=2), "hessian", "no second derivative"),
        (lambda f, y: f / y, "hessian", "the loss"),
    ],
)
def test_a_loss_that_is_no_mean_over_samples_or_has_no_closed_form_is_refused(loss, family, words):
    refused(words, measured, family, seeded(Plain), X, LABELS, loss=loss)


def test_one_matrix_alone_is_had_by_differences_of_gradients():
    how = {"loss": partial(F.multi_margin_loss, p=2), "curvature": ["hessian"]}
    only = measured("hessian", seeded(Plain), X, LABELS, **how)
    assert "differences of gradients" in only.attrs["derivatives"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("named", ["last", "last.*", ["last.weight", "*.bias"]])
def test_theta_is_what_the_pattern_names(family, named):
    model, frozen = seeded(Plain), seeded(Plain)
    frozen.first.weight.requires_grad_(False)
    if named != ["last.weight", "*.bias"]:
        frozen.first.bias.requires_grad_(False)
    same(measured(family, model, X, LABELS, parameters=named), measured(family, frozen, X, LABELS))
    assert all(p.requires_grad for p in model.parameters())


def test_a_pattern_that_names_nothing_is_refused_with_the_nearest_name():
    refused("last", measured, "hessian", seeded(Plain), X, LABELS, parameters="lst")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_half_precision_are_measured_in_float32(family, dtype):
    model = seeded(Plain).to(dtype)
    report = measured(family, model, X, LABELS)
    assert report.attrs["precision"] == "float32"
    same(report, measured(family, seeded(Plain).to(dtype).float(), X.float(), LABELS))
    assert next(model.parameters()).dtype == dtype


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "wrap",
    [lambda m: torch.compile(m, backend="aot_eager"), nn.DataParallel],
    ids=["compiled", "parallel"],
)
def test_what_wraps_a_network_is_measured_without_it(family, wrap):
    whole = measured(family, seeded(Plain), X, LABELS)
    same(measured(family, wrap(seeded(Plain)), X, LABELS), whole)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [k for k in keys_of("metrics") if measures_samples(k)])
@pytest.mark.parametrize("wrap", [torch.jit.script, lambda model: torch.jit.trace(model, X)])
def test_a_scripted_network_is_measured_or_refused_in_a_sentence(family, wrap):
    model = nn.Sequential(nn.Linear(X.shape[1], 8), nn.ReLU(), nn.Linear(8, 3)).to(X)
    try:
        report = measured(family, wrap(model), X, LABELS)
    except flatlab.MeasureError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        plain = measured(family, model, X, LABELS)
        for name in {*report.data_vars} & {"sharpness", "hessian_lambda_max", "mls"}:
            assert float(report[name]) == pytest.approx(float(plain[name]), rel=1e-6)


def test_families_of_other_losses_are_the_same_beside_a_function():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    x, y = torch.randn(12, 6), torch.arange(12) % 3
    for family in ("adaptive", "sharpness"):
        function = flatlab.measure(model, x, y, families=family, loss=F.cross_entropy)
        named = flatlab.measure(model, x, y, families=family, loss="cross-entropy")
        for name in named.data_vars:
            np.testing.assert_array_equal(function[name], named[name], err_msg=name)
    known = flatlab.measure(model, x, y, families="representations", loss=F.cross_entropy)
    assert any(str(name).startswith("collapse") for name in known.data_vars)
