"""The family `capacity` against its definitions, written out."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import flatlab
from flatlab.families import capacity
from flatlab.families.capacity import DISTANCES, DROP, QUANTITIES, TOLERANCE, noise_tolerance
from flatlab.measuring.grid import measure_pack
from flatlab.networks import build
from tests.networks.small_networks import (
    DIAGONAL,
    LINEAR,
    LOSSES,
    PIECEWISE_LINEAR,
    small,
    targets_for,
)
from tests.refusals import refused
from tests.synthetic.packs import about, asked, networks, weights_of


def measured(model, inputs, targets, loss="cross-entropy", **options):
    return flatlab.measure(model, inputs, targets, families=["capacity"], **LOSSES[loss], **options)


def fitting(name, seed=0):
    """A network, inputs, and the classes that it gives them, so that all margins are positive."""
    model, inputs, _ = small(name, seed)
    return model, inputs, model(inputs).argmax(1)


def weights(model):
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    return [layer.weight.detach().flatten(1).numpy() for layer in layers]


@pytest.mark.parametrize("name", LINEAR)
def test_norms_and_distances_are_as_defined(name):
    """By singular value decompositions of the matrices, for networks of every kind."""
    model, inputs, labels = fitting(name)
    initial = small(name, seed=5)[0]
    found = measured(model, inputs, labels, initial=initial, capacity=["margin"])
    ours = weights(model)
    spectral = np.array([np.linalg.svd(w)[1][0] ** 2 for w in ours])
    frobenius = np.array([(w**2).sum() for w in ours])
    values = {n: p.detach().numpy() for n, p in model.named_parameters()}
    outputs = model(inputs).detach().numpy()
    gaps = [np.delete(row, y).max() for row, y in zip(outputs, labels, strict=True)]
    gamma2 = np.quantile(outputs[np.arange(len(labels)), labels] - gaps, 0.1) ** 2
    both = zip(model.parameters(), initial.parameters(), strict=True)
    steps = [float((p - q).detach().square().sum()) for p, q in both]
    product, over = math.prod(spectral), math.prod(spectral) / gamma2
    frobenius_over = math.prod(frobenius) / gamma2
    expected = {
        "squared_norm": sum((v**2).sum() for n, v in values.items() if not n.endswith("bias")),
        "squared_norm_per_layer": frobenius,
        "spectral_norm_per_layer": spectral**0.5,
        "log_spectral_product": math.log(product),
        "log_frobenius_product": math.log(math.prod(frobenius)),
        "frobenius_over_spectral": (frobenius / spectral).sum(),
        "parameter_distance": math.sqrt(sum(steps)),
        "margin": math.sqrt(gamma2),
        "inverse_margin": 1 / gamma2,
        "log_spectral_product_over_margin": math.log(over),
        "log_frobenius_product_over_margin": math.log(frobenius_over),
        "log_spectral_complexity": math.log(over * (frobenius / spectral).sum()),
        "output_norm": np.linalg.norm(outputs),
    }
    assert {*expected} == {*found}
    for key, value in expected.items():
        assert found[key].values == pytest.approx(value, rel=1e-9), key
    how = {"initial": initial.state_dict(), "capacity": ["margin"], "dtype": "float32"}
    single = measured(model, inputs, labels, **how)
    for key in expected:
        assert single[key].values == pytest.approx(found[key].values, rel=1e-4, abs=1e-4), key


def test_the_path_norm_is_a_sum_over_paths():
    """From an input or a bias to an output, each with the product of its squared weights."""
    model, inputs, labels = fitting("mlp-relu")
    w = [module.weight.detach().numpy() ** 2 for module in (model.fc1, model.fc2, model.fc3)]
    b = [module.bias.detach().numpy() ** 2 for module in (model.fc1, model.fc2, model.fc3)]
    total = b[2].sum() + sum(w[2][o, j] * b[1][j] for o, j in itertools.product(range(3), range(6)))
    for o, j, i in itertools.product(range(3), range(6), range(6)):
        total += w[2][o, j] * w[1][j, i] * (b[0][i] + sum(w[0][i]))
    found = measured(model, inputs, labels)
    assert found.path_norm.item() == pytest.approx(total, rel=1e-12)


def test_the_path_norm_sees_batch_norm_as_the_affine_map_that_it_is():
    """Folded into the convolution in front of it, batch norm has the same paths."""
    model, inputs, _ = small("vgg")
    folded = copy.deepcopy(model)
    for number in (1, 2):
        model.get_submodule(f"conv{number}").bias.data.zero_()  # a path of its own, if not
        convolution = folded.get_submodule(f"conv{number}")
        convolution.bias.data.zero_()
        fused = nn.utils.fuse_conv_bn_eval(convolution, folded.get_submodule(f"norm{number}"))
        setattr(folded, f"conv{number}", fused)
        setattr(folded, f"norm{number}", nn.Identity())
    torch.testing.assert_close(folded(inputs), model(inputs))
    found = [measured(net, inputs, None, capacity=["path-norm"]) for net in (model, folded)]
    assert found[0].path_norm.item() == pytest.approx(found[1].path_norm.item(), rel=1e-9)


@pytest.mark.parametrize("name", LINEAR)
def test_only_piecewise_linear_networks_have_paths(name):
    model, inputs, _ = small(name)
    found = measured(model, inputs, None, capacity=["path-norm"])
    assert ("path_norm" in found) == (name in PIECEWISE_LINEAR)
    assert any("piecewise" in why for why in found.capacity_left_out) != ("path_norm" in found)


@pytest.mark.parametrize(("name", "loss"), DIAGONAL)
def test_the_fisher_rao_norm_is_as_defined(name, loss):
    """L sqrt(mean <dl/df, f>^2), one sample at a time by autograd."""
    model, inputs, labels = small(name)
    targets = targets_for(loss, labels)
    chosen = flatlab.losses.loss_of(LOSSES[loss])
    squares = []
    for x, y in zip(inputs, targets, strict=True):
        f = model(x[None]).detach().requires_grad_()
        (slope,) = torch.autograd.grad(chosen.values(f, y[None]).sum(), f)
        squares.append(float((slope * f.detach()).sum()) ** 2)
    root = math.sqrt(np.mean(squares))
    assert root != pytest.approx(np.mean(np.sqrt(squares)), rel=1e-3)  # the root of the mean
    expected = len(weights(model)) * root
    found = measured(model, inputs, targets, loss, capacity=["fisher-rao"])
    assert found.fisher_rao.item() == pytest.approx(expected, rel=1e-10)
    single = measured(model, inputs, targets, loss, dtype="float32", capacity=["fisher-rao"])
    assert single.fisher_rao.item() == pytest.approx(expected, rel=1e-4)


def shifted(deviation):
    """Classifier of (n, 1) into two classes, of which noise on its bias decides the error."""
    model = nn.Linear(1, 2).double()
    model.weight.data = torch.tensor([[0.0], [1000.0]], dtype=torch.float64)
    model.bias.data = torch.zeros(2, dtype=torch.float64)
    inputs = deviation / 1000 * (torch.arange(1, 2001, dtype=torch.float64) / 1000 - 1)[:, None]
    return model, inputs, (model(inputs)[:, 1] > 0).long()


def test_noise_endured_is_found_by_bisection_and_grows_with_the_margins(monkeypatch):
    monkeypatch.setattr(capacity, "DRAWS", 30)
    found = {}
    for scale in (1.0, 2.0):
        model, inputs, labels = shifted(scale)
        report = measured(model, inputs, labels, capacity=["pac-bayes"])
        found[scale] = sigma = report.pac_bayes_sigma.item()
        assert report.pac_bayes_converged == 1
        assert abs(report.pac_bayes_drop - 0.1) < 0.01
        norm, count = report.squared_norm.item(), len(inputs)
        expected = norm / (4 * sigma**2) + math.log(count / sigma) + 10
        assert report.pac_bayes.item() == pytest.approx(expected, rel=1e-12)
        assert report.pac_bayes_flatness.item() == pytest.approx(sigma**-2, rel=1e-12)
    # mean |b_1 - b_0| / (2 scale) = 0.1 for a standard normal difference times sqrt(2) sigma
    assert found[1.0] == pytest.approx(0.2 / math.sqrt(2) / math.sqrt(2 / math.pi), rel=0.2)
    assert found[2.0] == pytest.approx(2 * found[1.0], rel=0.25)


def test_noise_that_is_endured_may_not_be_found():
    model, inputs, labels = shifted(1.0)
    _, hopeless = noise_tolerance(model, [(inputs, 1 - labels)])
    assert abs(hopeless - DROP) > TOLERANCE


def test_seeds_matter_and_what_is_missing_is_said():
    model, inputs, labels = fitting("lenet")
    first, other = (measured(model, inputs, labels, seed=seed) for seed in (1, 2))
    assert first.pac_bayes != other.pac_bayes
    assert {*first} == {*QUANTITIES} - {*DISTANCES}
    assert first.capacity_left_out == ["distances: there are no initial weights"]


def test_margins_that_are_not_positive_have_no_inverse():
    model, inputs, labels = fitting("mlp-relu")
    found = measured(model, inputs, (labels + 1) % 3)
    assert found.margin < 0
    for key in ("inverse_margin", "log_spectral_complexity"):
        assert np.isnan(found[key]), key


def test_a_grid_measures_distances_from_checkpoint_zero(stripes):
    network = {"name": "mlp", "options": {"activation": "relu", "width": 5, "depth": 2}}
    arrays = weights_of(networks(network, (1, 4, 4), 3))  # two runs, two checkpoints
    options = {"capacity": {"capacity": []}, "flatness": {}, "accuracy": {}}
    settings = asked("capacity+flatness+accuracy", network, options=options)
    settings["loss"] = {"loss": "cross-entropy"}

    def distances(iterations):
        found = measure_pack([(arrays, about(iterations))], stripes, settings)
        return found[[name for name in DISTANCES if name in found]]

    assert not distances([3, 7])
    assert {*DISTANCES} == {*distances([0, 7])}
    found = distances([0, 7]).parameter_distance[..., 0].values
    for run in range(2):
        steps = (values[run, 1] - values[run, 0] for values in arrays.values())
        moved = sum((step**2).sum() for step in steps) ** 0.5
        assert found[run] == pytest.approx([0.0, moved])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targets": None}, "targets"),
        ({"targets": None, "capacity": ["margin"]}, "margin is for classifiers"),
        ({"targets": "values", "capacity": ["pac-bayes"]}, "pass targets (samples,) of classes"),
        ({"capacity": ["distances"]}, "pass initial="),
        ({"initial": {}}, "fc1.weight is missing"),
        ({"initial": "wider"}, "fc1.weight is of shape (9, 5)"),
        ({"loss": "logistic"}, "+1 and -1"),
        ({"train": True}, "drops at random"),
    ],
)
def test_what_is_missing_is_named_in_a_sentence(options, words):
    model, inputs, labels = small("mlp-relu")
    options = dict(options)
    targets = options.pop("targets", labels)
    if options.pop("train", False):
        model = nn.Sequential(model, nn.Dropout()).train()
    if isinstance(targets, str):
        targets = targets_for("half-mse", labels)
        targets = (targets + targets.roll(1, 1)) / 2  # not one-hot
    if options.get("initial") == "wider":
        network = {"name": "mlp", "options": {"activation": "relu", "width": 9, "depth": 3}}
        options["initial"] = build(network, (5,), 3)
    loss = options.pop("loss", "cross-entropy")
    refused(words, measured, model, inputs, targets, loss, **options)
