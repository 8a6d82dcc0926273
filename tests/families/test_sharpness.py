"""Average-case and worst-case sharpness against copies of the network, and closed forms."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import flatlab
from flatlab.families.sharpness import SMALLEST_RADII, normalized
from tests.refusals import refused

AVERAGES = [name for name in SMALLEST_RADII if name.startswith("average")]
WORST = [name for name in SMALLEST_RADII if name.startswith("worst")]


def sharpness(model, x, y, radii="resnet", **options):
    return flatlab.measure(model, x, y, families=["sharpness"], sharpness_radii=radii, **options)


def values(*arguments, **options):
    return sharpness(*arguments, **options)["sharpness_at_radius"]


@pytest.fixture(scope="module")
def case(mlp, normal):
    """A perceptron, ten samples of it and their classes."""
    return mlp((4, 6, 3)), normal(10, 4), torch.arange(10) % 3


def loss_of_copy(model, change, x, y, logits):
    """The loss of a copy of the network whose parameters are w + change."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        vector_to_parameters(parameters_to_vector(other.parameters()) + change, other.parameters())
        return float(cross_entropy(logits(other(x)), y))


SMALLEST = """
average-standard-l2     0.05    0.005
average-standard-linf   0.1     0.01
average-adaptive-l2     0.05    0.1
average-adaptive-linf   0.1     0.1
average-normalized-l2   0.05    0.1
average-normalized-linf 0.1     0.1
worst-standard-l2       0.25    0.025
worst-standard-linf     0.0005  0.00001
worst-adaptive-l2       0.25    0.5
worst-adaptive-linf     0.001   0.0005
worst-normalized-l2     0.25    0.25
worst-normalized-linf   0.001   0.0005
"""


def test_the_radii_are_those_of_tables_3_and_4(case):
    """Of ResNets and of ViTs; the others are 2, 4 and 8 times as large as the smallest."""
    table = [row.split() for row in SMALLEST.strip().splitlines()]
    for column, network in enumerate(("resnet", "vit"), 1):
        found = sharpness(*case, radii=network, sharpness_steps=1).sharpness_radius
        assert found.definition.values.tolist() == [name for name, *_ in table]
        expected = [[k * float(row[column]) for k in (1, 2, 4, 8)] for row in table]
        assert found.values == pytest.approx(np.array(expected), rel=1e-15)


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_those_of_copies_of_the_network_with_the_same_draws(case, name):
    """Of batches of 4, 4 and 2 samples; the mean is weighted by their sizes."""
    model, x, y = case
    _, scale, norm = name.split("-")
    logits = normalized if scale == "normalized" else lambda f: f
    weights = parameters_to_vector(model.parameters()).detach()
    seeds = torch.Generator().manual_seed(5)
    mean = variance = 0.0
    for xs, ys in zip(x.split(4), y.split(4), strict=True):
        draws = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=seeds)))
        changes = []
        for _ in range(6):
            noise, of = torch.empty_like(weights), {"generator": draws}
            noise = noise.normal_(**of) if norm == "l2" else noise.uniform_(-1, 1, **of)
            d = 0.3 * noise * (1 if scale == "standard" else weights)
            changes.append(loss_of_copy(model, d, xs, ys, logits))
        before = loss_of_copy(model, 0.0, xs, ys, logits)
        mean += len(xs) / 10 * (np.mean(changes) - before)
        variance += (len(xs) / 10) ** 2 * np.var(changes, ddof=1) / 6
    how = {"sharpness_batch": 4, "sharpness_draws": 6, "seed": 5}
    found = sharpness(*case, radii={name: [0.3]}, **how)
    assert found.sharpness_at_radius.item() == pytest.approx(mean, rel=1e-10, abs=1e-14)
    assert found.sharpness_at_radius_error.item() == pytest.approx(variance**0.5, rel=1e-10)


def test_a_definition_is_the_same_alone_and_among_the_others(case):
    whole = sharpness(*case, sharpness_start="random")
    for name in ("average-adaptive-linf", "worst-normalized-l2"):
        radii = whole.sharpness_radius.sel(definition=name).values.tolist()
        alone = sharpness(*case, radii={name: radii}, sharpness_start="random")
        for variable in whole.data_vars:
            expected = whole[variable].sel(definition=[name]).values
            np.testing.assert_allclose(alone[variable].values, expected, rtol=1e-12)


def test_radii_of_different_number_leave_gaps(case):
    found = sharpness(*case, radii={"worst-standard-l2": [0.1], "average-standard-l2": [0.1, 0.2]})
    assert found.sharpness_radius.values.tolist()[1] == [0.1, 0.2]
    assert np.isnan(found.sharpness_radius.values[0, 1])
    assert np.isnan(found.sharpness_at_radius.values).tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("start", ["zero", "random"])
@pytest.mark.parametrize("bias", [True, False])
def test_worst_cases_of_linear_classifiers_are_those_of_the_closed_form(normal, start, bias):
    """With one sample in a batch; the family `linear` has the closed form."""
    torch.manual_seed(0)
    model, x = nn.Linear(5, 1, bias=bias).double(), normal(6, 5)
    y = torch.tensor([1.0, -1, 1, 1, -1, -1])[:, None].double()
    radii = {name: [0.1, 0.25, 0.5] for name in ("worst-adaptive-l2", "worst-adaptive-linf")}
    how = {"loss": "logistic", "sharpness_loss": None, "sharpness_batch": 1}
    both = {"families": ["linear", "sharpness"], "sharpness_start": start}
    found = flatlab.measure(model, x, y, sharpness_radii=radii, **both, **how)
    for norm in ("l2", "linf"):
        exact = found.worst_sharpness.sel(neighbourhood=f"adaptive-{norm}", logits="plain")
        ours = found.sharpness_at_radius.sel(definition=f"worst-adaptive-{norm}")
        np.testing.assert_allclose(ours.values, exact.values, rtol=1e-7)
    standard = sharpness(model, x, y, radii={"worst-standard-l2": [0.2]}, **how)
    seen = nn.functional.pad(x, (0, 1), value=1.0) if bias else x
    margin = (y * model(x))[:, 0].detach()
    grown = nn.functional.softplus(-margin + 0.2 * seen.norm(dim=1))
    exact = float((grown - nn.functional.softplus(-margin)).mean())
    assert standard.sharpness_at_radius.item() == pytest.approx(exact, rel=1e-9)


def test_worst_cases_of_a_linear_regression_that_fits_its_data(normal):
    """There the gradient is zero, and the largest eigenvalue remains."""
    torch.manual_seed(0)
    model, x = nn.Linear(5, 1, bias=False).double(), normal(8, 5)
    scale = model.weight.detach()[0].abs()
    gram = scale[:, None] * (x.T @ x / 8) * scale
    exact = 0.3**2 / 2 * torch.linalg.eigvalsh(gram)[-1].item()
    how = {"sharpness_loss": None, "sharpness_start": "random", "sharpness_steps": 60}
    found = values(model, x, model(x).detach(), radii={"worst-adaptive-l2": [0.3]}, **how)
    assert found.item() == pytest.approx(exact, rel=1e-5)


@pytest.mark.more
@pytest.mark.parametrize(("norm", "factor"), [("l2", 1 / 2), ("linf", 1 / 6)])
def test_averages_of_a_linear_regression_are_within_four_standard_errors(normal, norm, factor):
    """The closed form holds at every radius; at least 99 of 100 seeds."""
    torch.manual_seed(0)
    model, x, y = nn.Linear(5, 1, bias=False).double(), normal(8, 5), normal(8, 1, seed=1)
    exact = factor * 0.5**2 * float((model.weight.detach() * x).square().sum(1).mean())
    how = {"sharpness_loss": None, "sharpness_batch": 4}
    how["radii"] = {f"average-adaptive-{norm}": [0.5]}
    found = [sharpness(model, x, y, seed=seed, **how) for seed in range(100)]
    means = np.array([each.sharpness_at_radius.item() for each in found])
    errors = np.array([each.sharpness_at_radius_error.item() for each in found])
    assert sum(abs(means - exact) > 4 * errors) <= 1
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(ddof=1), rel=0.25)


def test_cross_entropy_of_normalized_logits_has_its_range():
    """The extremes are ln(1 + (N - 1) exp(-r sqrt(N/(N - 1)))) and that of the worst order."""
    right = torch.tensor([[1.0] + [0.0] * 9], dtype=torch.float64)
    label = torch.tensor([0])
    for logits, extreme in ((right, 0.278439), (-right, 5.534514)):
        assert float(cross_entropy(normalized(logits), label)) == pytest.approx(extreme, abs=1e-6)
    torch.testing.assert_close(normalized(right), normalized(7 * right))
    same = torch.full((2, 3), 0.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(normalized(same).log_softmax(1)[:, 0].sum(), same)
    assert gradient.isfinite().all()


@pytest.mark.more
def test_twenty_steps_in_the_box_reach_what_two_hundred_do(normal):
    """On a perceptron that fits its data. In ellipsoids ascents may end in different maxima."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).double()
    x, y = normal(40, 8), torch.arange(40) % 3
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    assert (model(x).argmax(1) == y).all()
    radii = {name: [0.001, 0.004] for name in WORST if name.endswith("linf")}
    twenty, many = (sharpness(model, x, y, radii, sharpness_steps=steps) for steps in (20, 200))
    assert float((twenty / many).sharpness_at_radius.min()) > 0.95
    assert (many.sharpness_at_radius > 0).all()
    assert float(twenty.sharpness_settled.min()) > 0.9
    assert float(twenty.sharpness_settled.max()) <= 1


def test_one_output_has_no_normalized_logits(normal):
    model, y = nn.Linear(3, 1).double(), torch.tensor([[1.0], [-1], [1], [-1]]).double()
    found = values(model, normal(4, 3), y, loss="logistic", sharpness_loss=None)
    missing = [name for name in SMALLEST_RADII if "normalized" in name]
    assert np.isnan(found.sel(definition=missing)).all()
    assert np.isfinite(found.drop_sel(definition=missing)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": torch.rand(10, 3)}, "neither classes nor probabilities"),
        ({"y": torch.full((10,), 7)}, "label 7"),
        ({"radii": {"worst-standard-l2": [0.1, 0.0]}}, "> 0"),
        ({"radii": {"worst-case": [1.0]}}, "'worst-case' is not a definition"),
        ({"radii": "resnet50"}, "did you mean 'resnet'?"),
        ({"sharpness_loss": None, "loss": "logistic"}, "+1 and -1"),
        ({"model": nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()}, "training mode"),
        ({"model": nn.Linear(4, 1).double(), "y": torch.zeros(10).long()}, "of one output is 0"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(case, change, words):
    given = dict(zip(("model", "x", "y"), case, strict=True)) | change
    refused(words, sharpness, **given)
