"""Norms of Jacobians, sharpness and lambda_max of networks of nine kinds, in both precisions."""

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import flatlab
from flatlab.derivatives.lanczos import RESIDUAL
from flatlab.losses import loss_of
from tests.networks.small_networks import LINEAR, LOSSES, small, targets_for

EXACT, SINGLE = 1e-9, 1e-4


def jacobians(model, inputs):
    """Of each sample: (samples, outputs, inputs), one backward pass each."""
    x = inputs.clone().requires_grad_()
    rows = [torch.autograd.grad(f.sum(), x, retain_graph=True)[0] for f in model(x).unbind(1)]
    return torch.stack(rows, 1).flatten(2)


def largest(matrices):
    return torch.linalg.matrix_norm(matrices, 2).max().item()


@pytest.mark.parametrize("name", LINEAR)
def test_norms_are_those_of_whole_jacobians(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families=["jacobian", "geometry"])
    single = flatlab.measure(model, inputs, families=["jacobian", "geometry"], dtype="float32")
    whole = jacobians(model, inputs)
    softmaxed = jacobians(torch.nn.Sequential(model, torch.nn.Softmax(1)), inputs)
    parameters = [p for p in model.parameters() if p.requires_grad]
    squares = [
        sum(g.square().sum() for g in torch.autograd.grad(f, parameters, retain_graph=True))
        for outputs in model(inputs)
        for f in outputs
    ]
    of_samples = torch.linalg.matrix_norm(softmaxed, 2).numpy()
    np.testing.assert_allclose(found.softmax_jacobian_norm_per_sample, of_samples, rtol=EXACT)
    expected = {
        "jacobian_norm": largest(whole),
        "softmax_jacobian_norm": largest(softmaxed),
        "output_norm": model(inputs).detach().norm().item(),
        "mls": torch.linalg.matrix_norm(whole, 2).mean().item(),
        "sharpness": float(sum(squares)) / len(inputs),
    }
    for key, value in expected.items():
        assert found[key].item() == pytest.approx(value, rel=EXACT), key
        assert single[key].item() == pytest.approx(value, rel=SINGLE), key


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *((name, loss) for name in ("lenet",) for loss in LOSSES),
        *((name, "cross-entropy") for name in ("vgg", "resnet", "simple-vit")),
    ],
)
def test_lambda_max_is_that_of_the_whole_hessian(name, loss):
    model, inputs, labels = small(name)
    targets, chosen = targets_for(loss, labels), loss_of(LOSSES[loss])
    theta = [p for p in model.parameters() if p.requires_grad]
    with sdpa_kernel(SDPBackend.MATH):
        total = chosen.of_batch(chosen.values(model(inputs), targets))
        slope = torch.cat(
            [g.flatten() for g in torch.autograd.grad(total, theta, create_graph=True)]
        )
        rows = [
            torch.cat([g.flatten() for g in torch.autograd.grad(each, theta, retain_graph=True)])
            for each in slope
        ]
    expected = np.linalg.eigvalsh(torch.stack(rows).numpy())[-1]
    found = flatlab.measure(model, inputs, targets, families=["hessian"], **LOSSES[loss])
    assert found.hessian_lambda_max.item() == pytest.approx(expected, rel=RESIDUAL)


def test_fused_attention_is_differentiated_twice():
    """Which its fused form cannot be: against the eigenvalue of products by finite differences."""
    model, inputs, labels = small("timm")
    given = {"families": ["hessian"], "loss": "cross-entropy", "curvature": ["hessian"]}
    found = flatlab.measure(model, inputs, labels, **given)
    assert found.hessian_converged.item() == 1
    theta = [p for p in model.parameters() if p.requires_grad]

    def slope():
        total = torch.nn.functional.cross_entropy(model(inputs), labels)
        return torch.cat([g.flatten() for g in torch.autograd.grad(total, theta)])

    with torch.no_grad():
        start = torch.nn.utils.parameters_to_vector(theta)
    vector = torch.ones_like(start) / len(start) ** 0.5
    for _ in range(60):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                torch.nn.utils.vector_to_parameters(start + sign * 1e-5 * vector, theta)
            ends.append(slope())
        product = (ends[0] - ends[1]) / 2e-5
        value, vector = float(vector @ product), product / product.norm()
    assert found.hessian_lambda_max.item() == pytest.approx(value, rel=1e-2)
