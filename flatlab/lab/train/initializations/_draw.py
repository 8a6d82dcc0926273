"""Drawing initial weights."""

from collections.abc import Callable

from torch import Tensor, nn

from flatlab.core.registry import imported
from flatlab.networks._build import drawing_from
from flatlab.networks._modules import ZeroConv2d


def draw(model: nn.Module, scheme: str, seed: int) -> None:
    """Draw initial weights from a seed; the global generator is left as it was."""
    with drawing_from(seed):
        imported("train/initializations", scheme).draw(model)


def reset(model: nn.Module, weights: Callable[[Tensor], object] | None = None) -> None:
    """Draw the weights of each module as the framework does, then its matrices by `weights`.

    With `weights` the biases start at 0. A `ZeroConv2d` starts at zero.
    """
    for module in model.modules():
        if reset_parameters := getattr(module, "reset_parameters", None):
            reset_parameters()
        parameters = dict(module.named_parameters(recurse=False))
        if isinstance(module, ZeroConv2d):
            for parameter in parameters.values():
                nn.init.zeros_(parameter)
        elif weights and "weight" in parameters and parameters["weight"].ndim >= 2:
            weights(parameters["weight"])
            if "bias" in parameters:
                nn.init.zeros_(parameters["bias"])
