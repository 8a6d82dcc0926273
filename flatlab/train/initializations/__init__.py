"""Initializations: one file each, whose stem is the value of `network.initialization`.

Each file has `draw(model)`, which draws the weights from torch's global generator; the generator is
seeded by the run, and the network was built with the same seed. An initialization that then fits
the weights to something also has a class `Fit(model, steps)`, with `step()`, which takes one step,
and `tensors()`, everything that the remaining steps depend on, by name: the fit is saved and
resumed by these. One of them is `left`, the number of steps that remain, which is an attribute too.
"""

from collections.abc import Callable
from types import ModuleType

from torch import Tensor, nn

from flatlab.networks import ZeroConv2d, drawing_from
from flatlab.plan import module_of
from flatlab.plan.registry import imported


def draw(model: nn.Module, scheme: str, seed: int) -> None:
    """Draw initial weights from a seed; the global generator is left as it was."""
    with drawing_from(seed):
        imported("train/initializations", scheme).draw(model)


def reset(model: nn.Module, weights: Callable[[Tensor], object] | None = None) -> None:
    """Draw the weights of each module as the framework does, then its matrices by `weights`.

    With `weights` the biases start at 0. A `ZeroConv2d` starts at zero.
    """
    for module in model.modules():
        if again := getattr(module, "reset_parameters", None):
            again()
        own = dict(module.named_parameters(recurse=False))
        if isinstance(module, ZeroConv2d):
            for parameter in own.values():
                nn.init.zeros_(parameter)
        elif weights and "weight" in own and own["weight"].ndim >= 2:
            weights(own["weight"])
            if "bias" in own:
                nn.init.zeros_(own["bias"])
