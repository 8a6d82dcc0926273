"""Quantities against the derivatives of torch.func, by vmap over samples of jacrev."""

import numpy as np
import pytest
import torch
from torch import nn

SAMPLES = 10
EXACT = 1e-10


def unbatched(function):
    """A function of a batch as one of a single sample."""
    return lambda sample: function(sample[None])[0]


def per_sample(function, x):
    """All derivatives of a function for each sample, as (samples, N, M)."""
    rows = torch.func.vmap(torch.func.jacrev(unbatched(function)))(x)
    return rows.detach().flatten(2).numpy()


def parameter_squares(model, x):
    """||df/dtheta||_F^2 of each parameter tensor, and with theta^2: (samples,) by name each."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def outputs(parameters, sample):
        return torch.func.functional_call(model, parameters, sample[None])[0]

    gradients = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, x)
    plain, weighted = {}, {}
    for name, rows in gradients.items():
        squares = rows.detach().flatten(2).square().sum(1)
        plain[name] = squares.sum(1).numpy()
        weighted[name] = (squares @ parameters[name].flatten().square()).numpy()
    return plain, weighted


def check_parameters(model, x, values):
    """Sharpness of the network, of its layers, and weighted by the parameters' squares."""
    plain, weighted = parameter_squares(model, x)
    total = sum(plain.values())
    assert values.sharpness_per_sample.values == pytest.approx(total, rel=EXACT)
    assert values.sharpness.item() == pytest.approx(total.mean(), rel=EXACT)
    adaptive = sum(weighted.values()).mean()
    assert values.elementwise_adaptive_trace.item() == pytest.approx(adaptive, rel=EXACT)
    for layer in values.layer.values:
        own = values.sel(layer=layer)
        of_weights = plain[f"{layer}.weight"].mean()
        of_biases = plain.get(f"{layer}.bias", np.zeros(1)).mean()
        assert own.sharpness_per_layer.item() == pytest.approx(of_weights, rel=EXACT), layer
        assert own.bias_sharpness_per_layer.item() == pytest.approx(of_biases, rel=EXACT), layer


def check_jacobians(model, x, values):
    """Norms, dimension and volume of J."""
    jacobians, flat = per_sample(model, x), x.flatten(1).numpy()
    gram = jacobians @ jacobians.transpose(0, 2, 1)
    norms = np.linalg.norm(jacobians, 2, axis=(1, 2))
    assert values.mls_per_sample.values == pytest.approx(norms, rel=EXACT)
    assert values.mls.item() == pytest.approx(norms.mean(), rel=EXACT)
    frobenius = np.linalg.norm(jacobians, axis=(1, 2))
    assert values.jacobian_frobenius.values == pytest.approx(frobenius, rel=EXACT)
    assert values.g.item() == pytest.approx((frobenius**2).mean(), rel=EXACT)
    traces = np.trace(gram, axis1=1, axis2=2), np.trace(gram @ gram, axis1=1, axis2=2)
    dimension = values.local_dimension_per_sample.values
    assert dimension == pytest.approx(traces[0] ** 2 / traces[1], rel=EXACT)
    full = np.linalg.matrix_rank(jacobians) == jacobians.shape[1]
    volumes = np.linalg.slogdet(gram[full])[1] / 2
    assert values.samples_rank_deficient.item() == (~full).sum()
    assert values.log_volume_per_sample.values[full] == pytest.approx(volumes, rel=1e-8, abs=1e-8)
    normalized = ((flat**2).sum(1) * norms**2).mean()
    assert values.normalized_mls.item() == pytest.approx(normalized, rel=EXACT)
    invariant = ((jacobians * flat[:, None]) ** 2).sum((1, 2)).mean()
    assert values.input_invariant_mls.item() == pytest.approx(invariant, rel=EXACT)


def check_layers(model, x, values):
    """Sensitivities to the input of each layer of a chain, and what the stability trick says."""
    for layer in values.layer.values:
        place = int(layer)
        before, here = model[:place], model[place]
        inputs = before(x).detach()
        own = values.sel(layer=layer)
        jacobians = per_sample(model[place:], inputs)
        norms = np.linalg.norm(jacobians, 2, axis=(1, 2))
        assert own.sensitivity.values == pytest.approx(norms, rel=EXACT), layer
        assert own.mls_per_layer.item() == pytest.approx(norms.mean(), rel=EXACT), layer
        gammas = per_sample(model[place + 1 :], here(inputs).detach())
        gamma2, x2 = (gammas**2).sum((1, 2)), inputs.flatten(1).square().sum(1).numpy()
        of_weights = parameter_squares(model, x)[0][f"{layer}.weight"]
        ratio = np.sqrt(of_weights / (gamma2 * x2))
        assert own.stability_trick_ratio.values == pytest.approx(ratio, rel=EXACT), layer
        kappa = (x2 * (jacobians**2).sum((1, 2))).mean()
        if own.shared.item():
            assert np.isnan(own.relative_flatness.item()), layer
        else:
            assert own.relative_flatness.item() == pytest.approx(kappa, rel=EXACT), layer


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_network_of_linear_layers_has_the_derivatives_of_torch_func(
    activation, bias, mlp, normal, measure
):
    model, x = mlp((6, 9, 8, 4), seed=2, activation=activation, bias=bias), normal(SAMPLES, 6)
    values = measure(model, x)
    check_parameters(model, x, values)
    check_jacobians(model, x, values)
    check_layers(model, x, values)


def test_a_lenet_has_the_derivatives_of_torch_func(lenet, normal, measure):
    model, x = lenet(), normal(SAMPLES, 1, 10, 10)
    values = measure(model, x)
    check_parameters(model, x, values)
    check_jacobians(model, x, values)
    check_layers(model, x, values)


@pytest.mark.parametrize("pooling", [nn.MaxPool2d, nn.AvgPool2d])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
def test_convolutions_with_batch_norm_have_the_derivatives_of_torch_func(
    activation, pooling, randomized, normal, measure
):
    """Batch norm in evaluation mode, whose weights and biases count as parameters."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        activation(),
        pooling(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        nn.BatchNorm2d(6),
        activation(),
        nn.Flatten(),
        nn.Linear(24, 3),
    )
    model, x = randomized(model), normal(SAMPLES, 2, 8, 8)
    values = measure(model, x)
    check_parameters(model, x, values)
    check_jacobians(model, x, values)
    check_layers(model, x, values)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of vmap
@pytest.mark.parametrize("global_pool", ["token", "avg"])
def test_a_vision_transformer_has_the_derivatives_of_torch_func(
    global_pool, randomized, normal, measure
):
    """Attention, layer norm, positions and a class token, beside linear layers on tokens."""
    timm = pytest.importorskip("timm")
    model = timm.models.VisionTransformer(
        img_size=8,
        patch_size=4,
        in_chans=2,
        num_classes=3,
        embed_dim=8,
        depth=2,
        num_heads=2,
        mlp_ratio=2,
        global_pool=global_pool,
    )
    model, x = randomized(model), normal(SAMPLES, 2, 8, 8)
    values = measure(model, x)
    check_parameters(model, x, values)
    check_jacobians(model, x, values)
    assert values.layer.values[0] == "patch_embed.proj"
    assert values.layer.values[-1] == "head"
    assert values.sizes["layer"] == 2 + 4 * 2  # of each block: qkv, proj, fc1, fc2
    head = np.linalg.norm(model.head.weight.detach().numpy(), 2)
    assert values.mls_per_layer.values[-1] == pytest.approx(head, rel=EXACT)


def test_relative_flatness_of_the_last_layer_is_a_hessian_of_torch_func(lenet, normal, measure):
    """Sum over s, s' of <w_s, w_s'> Tr H_ss' for mean |f - y|^2 / 2, at any residual."""
    model, x = lenet(), normal(SAMPLES, 1, 10, 10)
    features, targets = model[:-1](x).detach(), normal(SAMPLES, 4, seed=9)
    head = model[-1]
    weight, bias = head.weight.detach(), head.bias.detach()

    def half_mse(weight):
        outputs = nn.functional.linear(features, weight, bias)
        return (outputs - targets).square().sum(1).mean() / 2

    def cross_entropy(weight):
        outputs = nn.functional.linear(features, weight, bias)
        return nn.functional.cross_entropy(outputs, targets.argmax(1))

    for name, loss in {"half-mse": half_mse, "cross-entropy": cross_entropy}.items():
        hessian = torch.func.jacrev(torch.func.jacrev(loss))(weight)
        kappa = float(torch.einsum("sa,ta,sbtb->", weight, weight, hessian))
        measured = measure(model, x, loss=name).relative_flatness.values[-1]
        assert measured == pytest.approx(kappa, rel=EXACT), name
