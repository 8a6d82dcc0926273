"""The rules: gradients of all outputs with respect to a layer's parameters, sample by sample.

A linear layer or a convolution applies one matrix W to many columns: with U (D, positions) its
inputs and Gamma_k (O, positions) the derivatives of output k, the gradient is Gamma_k U^T. A
fully connected layer has one position; with sequences, images and repeated uses it has several.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.derivatives.per_sample.convolution import CONVOLUTIONS, patches
from flatlab.derivatives.per_sample.hooks import Use
from flatlab.derivatives.per_sample.singular_values import block
from flatlab.derivatives.per_sample.stack import cat, networks_of

MATRICES = (nn.Linear, *CONVOLUTIONS)
RULED = (
    *MATRICES,
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    *(nn.LayerNorm, nn.GroupNorm),
)


def base_of(module: nn.Module) -> Any:
    """The class whose rule applies to a module, whatever forward its own class defines."""
    return next(kind for kind in RULED if isinstance(module, kind))


def columns(use: Use, gamma: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """U (samples, groups, D, positions) and Gamma (samples, groups, N, O, positions) of one use.

    gamma: (N, rows, ...), the derivatives with respect to the output of the layer.
    """
    outputs = len(gamma)
    if isinstance(use.module, nn.Linear):
        u = use.x.reshape(samples, 1, -1, use.x.shape[-1]).transpose(2, 3)
        g = gamma.reshape(outputs, samples, -1, gamma.shape[-1]).permute(1, 0, 3, 2)
        return u, g[:, None]
    groups, each = use.module.groups, len(use.x) // samples  # rows of one sample
    u = patches(use.x, use.module)
    u = u.reshape(samples, each, *u.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3)
    g = gamma.reshape(outputs, samples, each, groups, gamma.shape[2] // groups, -1)
    return u, g.permute(1, 3, 0, 4, 2, 5).flatten(4)


@dataclass(frozen=True)
class Squares:
    """For each sample, (samples,), summed over the outputs k.

    plain: ||df_k/dW||_F^2.
    adaptive: the sum of W_od^2 (df_k/dW_od)^2, or None.
    gamma: ||Gamma_k||_F^2.
    rows: the squares of Gamma_k, (samples, O), if there is one position.
    """

    plain: Tensor
    adaptive: Tensor | None
    gamma: Tensor
    rows: Tensor | None = None


def weight_squares(u: Tensor, g: Tensor, weights: Sequence[Tensor], adaptive: bool) -> Squares:
    """The squares of the gradients Gamma_k U^T of a matrix, in the cheapest way.

    u: (samples, groups, D, P).  g: (samples, groups, N, O, P).
    weights: of each network that has its part of the samples, (groups x O, ...).
    """
    groups, width, positions = u.shape[1:]
    outputs, out = g.shape[2:4]
    if adaptive and positions > 1 and (count := len(weights)) > 1:
        each = zip(u.chunk(count), g.chunk(count), weights, strict=True)
        parts = [weight_squares(of_u, of_g, [weight], adaptive) for of_u, of_g, weight in each]
        sums = ((part.plain, part.adaptive, part.gamma) for part in parts)
        return Squares(*(torch.cat(same) for same in zip(*sums, strict=True)))
    of_weights = (weight.detach().reshape(groups, out, width) for weight in weights)
    of_networks = [weight.square() for weight in of_weights] if adaptive else None
    if positions == 1:
        return _outer(u[..., 0], g[..., 0], of_networks)
    squared = of_networks[0] if of_networks else None
    direct = outputs * out * width * (positions + 32)  # 32: to write and read them
    gram = positions**2 * (width + outputs * out)
    pairs = out * width * positions * (positions + 1) / 2
    if squared is None:
        return _gram(u, g) if gram < direct else _direct(u, g, None)
    if groups == 1 and pairs + gram < direct:
        return replace(_gram(u, g), adaptive=_pairs(u, g, squared[0]))
    return _direct(u, g, squared)


def _outer(u: Tensor, g: Tensor, squared: Sequence[Tensor] | None) -> Squares:
    """One position: the gradients are outer products."""
    g2, u2 = g.square().sum(2), u.square()  # (samples, groups, O), (samples, groups, D)
    by_group, adaptive = g2.sum(2), None
    if squared is not None:
        each = zip(g2.chunk(len(squared)), squared, strict=True)
        products = [torch.matmul(of_g.transpose(0, 1), weight) for of_g, weight in each]
        adaptive = (cat(products, 1).transpose(0, 1) * u2).sum((1, 2))
    return Squares((by_group * u2.sum(2)).sum(1), adaptive, by_group.sum(1), g2.flatten(1))


def _gram(u: Tensor, g: Tensor) -> Squares:
    """<U^T U, Gamma^T Gamma>, without forming a gradient."""
    samples, groups, _, positions = u.shape
    plain, gamma = u.new_empty(samples), u.new_empty(samples)
    step = block(u, groups * positions**2)
    for start in range(0, samples, step):
        here = slice(start, start + step)
        of_u = u[here].flatten(0, 1)
        of_g = g[here].reshape(len(of_u), -1, positions)
        of_u, of_g = torch.bmm(of_u.mT, of_u), torch.bmm(of_g.mT, of_g)
        gamma[here] = of_g.diagonal(dim1=1, dim2=2).reshape(len(gamma[here]), -1).sum(1)
        plain[here] = of_g.mul_(of_u).view(-1, groups * positions**2).sum(1)
    return Squares(plain.clamp_(min=0), None, gamma)  # positions may cancel, up to rounding


def _direct(u: Tensor, g: Tensor, squared: Tensor | None) -> Squares:
    """The gradients Gamma_k U^T themselves, a few rows of all outputs at a time in one buffer."""
    samples, groups, width, positions = u.shape
    outputs, out = g.shape[2:4]
    rows = min(out, block(u, groups * outputs * width))
    step = min(samples, block(u, groups * outputs * rows * max(width, positions)))
    plain, adaptive, gamma = u.new_zeros(3, samples)
    buffer = u.new_empty(step * groups * outputs * rows * width)
    for start in range(0, samples, step):
        here = slice(start, start + step)
        columns = u[here].flatten(0, 1).mT
        for row in range(0, out, rows):
            left = g[here, :, :, row : row + rows]
            shape = len(columns), outputs * left.shape[3], width
            left = left.reshape(*shape[:2], positions)
            gamma[here] += torch.linalg.vector_norm(
                left.view(-1, groups, *left.shape[1:]), dim=(1, 2, 3)
            ).square()
            product = buffer[: shape[0] * shape[1] * shape[2]].view(shape)
            torch.bmm(left, columns, out=product)
            product = product.view(-1, groups, outputs, shape[1] // outputs * width)
            if squared is None:
                plain[here] += torch.linalg.vector_norm(product, dim=(1, 2, 3)).square()
                continue
            product.square_()
            plain[here] += product.sum((1, 2, 3))
            factor = squared[:, row : row + rows].reshape(groups, -1, 1)
            adaptive[here] += torch.matmul(product, factor).sum((1, 2, 3))
    return Squares(plain, None if squared is None else adaptive, gamma)


def _pairs(u: Tensor, g: Tensor, squared: Tensor) -> Tensor:
    """Sum over o, p, q of (sum_k Gamma_kop Gamma_koq) (sum_d W_od^2 U_dp U_dq): (samples,).

    Cheaper than the gradients themselves if there are few positions.
    """
    samples, _, width, positions = u.shape
    out = g.shape[3]
    first, second = torch.triu_indices(positions, positions, device=u.device)
    twice = torch.where(first == second, 1.0, 2.0).to(u)
    of_u = u.new_zeros(out, samples * len(first))
    step = min(width, block(u, samples * len(first)))
    for start in range(0, width, step):
        part = u[:, 0, start : start + step].transpose(0, 1)
        products = (part[:, :, first] * part[:, :, second]).flatten(1)
        of_u.addmm_(squared[:, start : start + step], products)
    of_g = g[:, 0].permute(0, 2, 3, 1)  # (samples, O, P, N)
    of_g = torch.matmul(of_g, of_g.mT)[..., first, second] * twice
    return (of_g * of_u.view(out, samples, -1).transpose(0, 1)).sum((1, 2)).clamp_(min=0)


def vector_gradients(use: Use, gamma: Tensor, samples: int) -> dict[str, Tensor]:
    """df_k/dbias, and of normalizations df_k/dweight, for each sample: (N, samples, numbers)."""
    matrix, weight = isinstance(use.module, MATRICES), use.module.weight
    if matrix and use.module.bias is None:
        return {}
    channel = -1 if isinstance(use.module, nn.Linear | nn.LayerNorm) else 2
    numbers = len(weight) if matrix else weight.numel()
    g = gamma.movedim(channel, -1).reshape(len(gamma), samples, -1, numbers)
    if matrix:
        return {"bias": g.sum(2)}
    networks = networks_of(use.module)
    parts = zip(networks, use.x.chunk(len(networks)), strict=True)
    normalized = cat([_normalized(network, x) for network, x in parts], 0)
    x = normalized if channel == -1 else normalized.movedim(1, -1)
    return {"weight": (g * x.reshape(g.shape[1:])).sum(2), "bias": g.sum(2)}


def _normalized(module: Any, x: Tensor) -> Tensor:
    """What a normalization does before it scales and shifts."""
    bare = copy.copy(module)
    bare._parameters = dict.fromkeys(bare._parameters)
    normalized: Tensor = base_of(bare).forward(bare, x)
    return normalized
