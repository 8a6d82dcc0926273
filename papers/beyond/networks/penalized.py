"""A perceptron or a LeNet-5 whose training has a penalty on the Jacobian.

Added to the loss of each minibatch is lambda N mean |d(u f)/dx|^2, with one random direction u of
the N outputs, a unit vector, in each step. Its mean over u is lambda times the mean of ||J||_F^2.
Source: Hoffman, Roberts and Yaida (2019), "Robust learning with Jacobian regularization", Sec. 2.3.
"""

from collections import OrderedDict
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function

from flatlab.core.options import Activation, Convolutional
from flatlab.core.schema import means
from flatlab.networks._convolutional import convolutional

MODE = "loop"


class Options(Convolutional, frozen=True):
    activation: Activation
    base: Annotated[Literal["mlp", "lenet5"], means("the architecture that is trained")]
    jacobian_penalty: Annotated[float, means("lambda; 0: none", ge=0)]
    width: Annotated[int, means("units of each of three hidden layers of a perceptron", ge=1)] = 128
    kernel: ClassVar[int] = 3
    padding: ClassVar[int] = 1
    normalization: ClassVar[str] = "none"
    narrow: ClassVar[bool] = False  # not as a stack

    @property
    def widths(self) -> tuple[int | str, ...]:
        return (6, "pool", 16, "pool") if self.base == "lenet5" else ()

    @property
    def hidden(self) -> tuple[int, ...]:
        return (120, 84) if self.base == "lenet5" else (self.width,) * 3


def build(inputs: tuple[int, ...], outputs: int, options: Options) -> nn.Sequential:
    """The layers of the architecture."""
    layers = convolutional(inputs, outputs, options)
    return Penalized(OrderedDict(layers.named_children()), options.jacobian_penalty)


class Penalized(nn.Sequential):
    def __init__(self, layers: OrderedDict[str, nn.Module], penalty: float) -> None:
        super().__init__(layers)
        self.penalty = penalty

    def forward(self, inputs: Tensor) -> Tensor:
        if not (self.penalty and self.training and torch.is_grad_enabled()):
            outputs: Tensor = super().forward(inputs)
            return outputs
        inputs = inputs.detach().requires_grad_()
        outputs = super().forward(inputs)
        direction = torch.randn_like(outputs[0])  # from the generator that the run has
        along = outputs @ (direction / direction.norm())
        (slope,) = torch.autograd.grad(along.sum(), inputs, create_graph=True)
        mean = slope.square().sum() / len(inputs)
        found: Tensor = _Added.apply(outputs, self.penalty * outputs.shape[1] * mean)
        return found


class _Added(Function):
    """Outputs as they are, with a term of the loss whose gradient is taken as well."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, term: Tensor) -> Tensor:
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], torch.ones((), dtype=gradients[0].dtype, device=gradients[0].device)
