"""Sharpness-aware minimization: the gradient is taken uphill, at w + rho g / |g|.

g is the gradient at w on the same minibatch, without weight decay, |g| its Euclidean norm over all
parameters of a network. Statistics of batch norm are those of the first pass, at w. Source: Foret
et al. (2021), "Sharpness-aware minimization for efficiently improving generalization", Eq. 2.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor

from flatlab.core.schema import Strict, means

STRENGTH = "sam_radius"
EPSILON = 1e-12


class Options(Strict, frozen=True):
    sam_radius: Annotated[float, means("rho, the length of the step uphill; 0: none", ge=0)]


def uphill(gradients: list[Tensor], training: Mapping[str, Any], runs: int) -> Tensor:
    """rho / (|g| + 1e-12) of each run."""
    norms = [torch.linalg.vector_norm(g.reshape(runs, -1), dim=1) for g in gradients]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    return training["sam_radius"] / (norm + EPSILON)
