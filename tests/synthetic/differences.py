"""Second derivatives of a network by differences of plain gradients: slow, and independent."""

from __future__ import annotations

import torch
from torch.nn import functional as F

STEP = 1e-6


def hessian_by_differences(model, x, targets):
    """H and G of the mean cross-entropy, in all parameters: (P, P) each, from first derivatives.

    model: in float64; its parameters are moved and restored.
    x: (samples, ...).
    targets: probabilities (samples, N).
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    theta = torch.cat([p.detach().flatten() for p in parameters])

    def move(vector):
        with torch.no_grad():
            parts = vector.split([p.numel() for p in parameters])
            for p, part in zip(parameters, parts, strict=True):
                p.copy_(part.view_as(p))

    def gradient(vector):
        move(vector)
        loss = F.cross_entropy(model(x), targets)
        rows = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return torch.cat([row.flatten() for row in rows])

    def outputs(vector):
        move(vector)
        with torch.no_grad():
            return model(x)

    rows, columns = [], []
    for place in range(len(theta)):
        step = torch.zeros_like(theta)
        step[place] = STEP
        rows.append((gradient(theta + step) - gradient(theta - step)) / (2 * STEP))
        columns.append((outputs(theta + step) - outputs(theta - step)) / (2 * STEP))
    p = outputs(theta).softmax(1)
    curvature = p.diag_embed() - p[:, :, None] * p[:, None, :]
    jacobian = torch.stack(columns, -1)
    hessian = torch.stack(rows)
    gauss_newton = (jacobian.mT @ curvature @ jacobian).mean(0)
    return (hessian + hessian.T) / 2, gauss_newton
