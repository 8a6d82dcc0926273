"""Class weights of the cross-entropy: torch's weighted mean, in every quantity that has a loss."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional as F

import flatlab
from tests.networks.masked_cases import Case, largest, mean
from tests.networks.users import LABELS, Plain, X, hessian_of, measured, seeded
from tests.refusals import refusal

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
    total = float(TENSOR[LABELS].sum())
    generator = torch.Generator().manual_seed(0)
    expected = 0.0
    named_p = {name: p.detach() for name, p in model.named_parameters()}
    for start in range(0, len(X), 4):
        here = slice(start, start + 4)
        seed = int(torch.randint(2**62, (), generator=generator))
        draws = torch.Generator().manual_seed(seed)
        changes = []
        for _ in range(3):
            noise = torch.empty(sum(p.numel() for p in named_p.values())).double()
            parts = noise.normal_(generator=draws).split([p.numel() for p in named_p.values()])
            moved = {
                n: p + 0.1 * part.view_as(p)
                for (n, p), part in zip(named_p.items(), parts, strict=True)
            }
            f, g = functional_call(model, moved, (X[here],)), model(X[here]).detach()
            after, before = (loss(o, LABELS[here], reduction="sum") for o in (f, g))
            changes.append((after - before) / total)
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
    pairs = case.measured(
        "spectrum", class_weights=weights, matrices=["gauss-newton"], largest=1, residual=1e-9
    )
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
    for family, how in {"hessian": {}, "flatness": {}, "capacity": {}}.items():
        plain = measured(family, model, X, LABELS, **how)
        equal = measured(family, model, X, LABELS, class_weights=torch.full((4,), 3.0), **how)
        for name in plain.data_vars:
            ours, theirs = equal[name].values, plain[name].values
            if "residual" not in name:
                assert ours == pytest.approx(theirs, rel=1e-9, nan_ok=True), name


def test_what_has_no_closed_form_with_weights_is_refused_in_a_sentence():
    model = seeded(Plain)
    refused = refusal(flatlab.MeasureError, weighted, "geometry", model)
    assert "class weights" in refused
    assert "relative_flatness_loss=" in refused
    for how in ({"relative_flatness_loss": "half-mse"}, {"quantities": ["sharpness"]}):
        assert float(weighted("geometry", model, **how)["sharpness"]) > 0
    fisher = refusal(flatlab.MeasureError, weighted, "spectrum", model, matrices=["fisher"])
    assert "negative log-likelihood" in fisher
    linear = nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).double()
    assert "class weights" in refusal(flatlab.MeasureError, weighted, "linear", linear)


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"class_weights": WEIGHTS, "loss": "half-mse"}, "cross-entropy"),
        ({"class_weights": WEIGHTS, "loss": F.cross_entropy}, "cross-entropy"),
        ({"class_weights": WEIGHTS[:3]}, "class_weights"),
        ({"class_weights": [*WEIGHTS, 1.0]}, "5 class weights and 4 outputs"),
        ({"class_weights": [1.0, -1.0, 1.0, 1.0]}, ">= 0"),
        ({"class_weights": [0.0] * 4}, "0 for the classes"),
        ({"class_weights": "balanced"}, "class_weights"),
    ],
)
def test_weights_that_do_not_fit_are_refused(given, about):
    how = {"families": "hessian", "loss": "cross-entropy"} | given
    labels = torch.where(LABELS == 3, 3, LABELS)
    labels[0] = 3
    assert about in refusal(flatlab.MeasureError, flatlab.measure, seeded(Plain), X, labels, **how)


def test_torchs_own_weighted_mean_is_refused_with_the_option_that_has_it():
    message = refusal(
        flatlab.MeasureError,
        measured,
        "hessian",
        seeded(Plain),
        X,
        LABELS,
        loss=nn.CrossEntropyLoss(weight=TENSOR),
    )
    assert "class_weights=" in message
