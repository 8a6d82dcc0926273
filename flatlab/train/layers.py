"""Layers of several networks at once, with their gradients written out.

The weights of a layer are stacked over the runs, (runs, ...), and one kernel serves them all. The
gradients are written out: for networks this small autograd takes longer than the arithmetic, and a
step that is a plain sequence of kernels can be recorded as a CUDA graph.

Vectors are (runs, batch, features). Images are (batch, runs * channels, height, width): one grouped
convolution computes those of all runs, and what acts on channels one by one (batch norm, pooling)
is the framework's own layer.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flatlab.networks import Gaussian, Residual
from flatlab.networks.diagonal_linear import Diagonal

aten = torch.ops.aten  # the kernels that autograd itself calls


class NotStackable(Exception):
    """A layer that has no stacked form; the message names it."""


class Layer(Protocol):
    """A layer of all runs.

    forward returns the output and what `backward` needs; backward returns the gradient with respect
    to the input (None unless `wanted`) and those of `parameters`, in their order.
    """

    parameters: list[Tensor]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]: ...

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]: ...


class Chain:
    """Layers one after the other."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.parameters = [tensor for layer in layers for tensor in layer.parameters]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        tape = []
        for layer in self.layers:
            x, saved = layer.forward(x, training)
            tape.append(saved)
        return x, tape

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        # Nothing is propagated below the first layer with parameters unless the input asks for it.
        trained = [number for number, layer in enumerate(self.layers) if layer.parameters]
        last = 0 if wanted else min(trained, default=len(self.layers))
        result: list[Tensor] = []
        flowing: Tensor | None = gradient
        for number in range(len(self.layers) - 1, last - 1, -1):
            assert flowing is not None
            flowing, gradients = self.layers[number].backward(
                saved[number], flowing, wanted or number > last
            )
            result[:0] = gradients
        return flowing if wanted else None, result


class Shortcut:
    """y = body(x) + shortcut(x), where an empty shortcut is the identity."""

    def __init__(self, body: Chain, shortcut: Chain) -> None:
        self.body, self.shortcut = body, shortcut
        self.parameters = [*body.parameters, *shortcut.parameters]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        of_body, body = self.body.forward(x, training)
        of_shortcut, shortcut = self.shortcut.forward(x, training)
        return of_body + of_shortcut, (body, shortcut)

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        through_body, of_body = self.body.backward(saved[0], gradient, wanted)
        through_shortcut, of_shortcut = self.shortcut.backward(saved[1], gradient, wanted)
        through = None
        if wanted:
            assert through_body is not None
            assert through_shortcut is not None
            through = through_body + through_shortcut
        return through, [*of_body, *of_shortcut]


class Linear:
    """y = x W^T + b. weight: (runs, outputs, inputs).  bias: (runs, outputs), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        weight = self.weight.transpose(1, 2)
        y = x @ weight if self.bias is None else torch.baddbmm(self.bias[:, None], x, weight)
        return y, x

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        gradients = [gradient.transpose(1, 2) @ saved]
        if self.bias is not None:
            gradients.append(gradient.sum(1))
        return gradient @ self.weight if wanted else None, gradients


class Product:
    """y = x (u * v)^T. u, v: (runs, outputs, inputs)."""

    def __init__(self, u: Tensor, v: Tensor) -> None:
        self.u, self.v = u, v
        self.parameters = [u, v]

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        weight = self.u * self.v
        return x @ weight.transpose(1, 2), (x, weight)

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        x, weight = saved
        of_weight = gradient.transpose(1, 2) @ x
        return gradient @ weight if wanted else None, [of_weight * self.v, of_weight * self.u]


class Convolution:
    """A grouped convolution, the runs as groups.

    weight: (runs * outputs, inputs / groups, height, width).  bias: (runs * outputs), or None.
    """

    def __init__(self, layer: nn.Conv2d, runs: int, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [weight] if bias is None else [weight, bias]
        assert not isinstance(layer.padding, str)
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation
        self.groups = runs * layer.groups

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        geometry = self.stride, self.padding, self.dilation, self.groups
        return torch.conv2d(x, self.weight, self.bias, *geometry), x

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        biased = self.bias is not None
        through, of_weight, of_bias = aten.convolution_backward(
            gradient,
            saved,
            self.weight,
            [len(self.weight)] if biased else None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            [0, 0],
            self.groups,
            [wanted, True, biased],
        )
        return through, [of_weight, of_bias] if biased else [of_weight]


class BatchNorm:
    """Batch norm of all channels of all runs. Tensors: (runs * channels); steps: (runs)."""

    def __init__(
        self,
        layer: nn.BatchNorm2d,
        weight: Tensor | None,
        bias: Tensor | None,
        statistics: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        self.weight, self.bias = weight, bias
        self.parameters = [] if weight is None or bias is None else [weight, bias]
        self.mean, self.variance, self.steps = statistics
        self.momentum, self.eps = layer.momentum, layer.eps

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        if training:
            self.steps.add_(1)
        y, mean, deviation = aten.native_batch_norm(
            x,
            self.weight,
            self.bias,
            self.mean,
            self.variance,
            training,
            self.momentum,
            self.eps,
        )
        return y, (x, mean, deviation)

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        x, mean, deviation = saved
        affine = bool(self.parameters)
        through, of_weight, of_bias = aten.native_batch_norm_backward(
            gradient,
            x,
            self.weight,
            self.mean,
            self.variance,
            mean,
            deviation,
            True,
            self.eps,
            [wanted, affine, affine],
        )
        return through, [of_weight, of_bias] if affine else []


class WithoutParameters:
    """What layers without parameters have in common."""

    parameters: list[Tensor] = []  # noqa: RUF012 - nobody adds to it

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        """The gradient with respect to the input."""
        raise NotImplementedError

    def backward(
        self, saved: Any, gradient: Tensor, wanted: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        return self.through(saved, gradient) if wanted else None, []


class ReLU(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = x.relu()
        return y, y

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return aten.threshold_backward(gradient, saved, 0)


class Tanh(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = x.tanh()
        return y, y

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return aten.tanh_backward(gradient, saved)


class GaussianBump(WithoutParameters):
    """y = exp(-x^2 / (2 s^2)), dy/dx = -y x / s^2."""

    def __init__(self, width: float) -> None:
        self.width = width

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        y = (x.square() / (-2 * self.width**2)).exp_()
        return y, (x, y)

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        x, y = saved
        return (x * y).mul_(gradient).div_(-(self.width**2))


class MaxPool(WithoutParameters):
    """Maximum over windows that neither overlap nor reach beyond the edge: 2 x 2 by default."""

    def __init__(self, size: int) -> None:
        self.size = size

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        if x.is_cuda:
            return self._by_windows(x)
        y, index = aten.max_pool2d_with_indices(x, [self.size, self.size])
        return y, (x, index)

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        x, index = saved
        if x.is_cuda:
            return self._through_windows(x, index, gradient)
        size = [self.size, self.size]
        return aten.max_pool2d_with_indices_backward(
            gradient, x, size, size, [0, 0], [1, 1], False, index
        )

    # On a GPU the framework's own backward pass adds up in an order that is not fixed.

    def _by_windows(self, x: Tensor) -> tuple[Tensor, Any]:
        height, width = (length // self.size for length in x.shape[2:])
        inside = x[:, :, : height * self.size, : width * self.size]
        windows = inside.unflatten(3, (width, self.size)).unflatten(2, (height, self.size))
        y, index = windows.transpose(3, 4).flatten(4).max(-1)
        return y, (x, index)

    def _through_windows(self, x: Tensor, index: Tensor, gradient: Tensor) -> Tensor:
        places = torch.arange(self.size**2, device=x.device)
        spread = (index[..., None] == places) * gradient[..., None]
        spread = spread.unflatten(-1, (self.size, self.size)).transpose(3, 4)
        inside = spread.flatten(4, 5).flatten(2, 3)
        missing = [x.shape[-1] - inside.shape[-1], x.shape[-2] - inside.shape[-2]]
        return nn.functional.pad(inside, [0, missing[0], 0, missing[1]])


class GlobalAveragePool(WithoutParameters):
    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.mean((2, 3), keepdim=True), x.shape

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return (gradient / (saved[2] * saved[3])).expand(saved)


class Flatten(WithoutParameters):
    """(runs, batch, ...) -> (runs, batch, features)."""

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.flatten(2), x.shape

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return gradient.reshape(saved)


class Fold(WithoutParameters):
    """(runs, batch, channels, height, width) -> (batch, runs * channels, height, width)."""

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        runs = len(x)
        x = x.transpose(0, 1).flatten(1, 2)
        return x.contiguous(memory_format=image_format(x)), runs

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        return gradient.unflatten(1, (saved, -1)).transpose(0, 1)


class Unfold(WithoutParameters):
    """(batch, runs * channels, height, width) -> (runs, batch, features)."""

    def __init__(self, runs: int) -> None:
        self.runs = runs

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return x.unflatten(1, (self.runs, -1)).transpose(0, 1).flatten(2), x

    def through(self, saved: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.unflatten(2, (-1, *saved.shape[2:])).transpose(0, 1).flatten(1, 2)
        return gradient.contiguous(memory_format=image_format(saved))


def image_format(x: Tensor) -> torch.memory_format:
    """How images lie in memory: channels last on a GPU, whose fast convolutions want it."""
    return torch.channels_last if x.is_cuda else torch.contiguous_format


def stack(models: list[nn.Sequential]) -> tuple[Chain, dict[str, Tensor]]:
    """The layers of several networks of one architecture, and their tensors (runs, ...) by name.

    The tensors are those that the layers use: what is written into them is what the layers compute
    with. Raises `NotStackable`.
    """
    return _Builder(models).build()


class _Builder:
    """Walks an architecture; knows whether the signal is folded images or vectors."""

    def __init__(self, models: list[nn.Sequential]) -> None:
        self.model, self.runs = models[0], len(models)
        states = [model.state_dict() for model in models]
        self.tensors: dict[str, Tensor] = {}
        self.flat: dict[str, Tensor] = {}
        for name in states[0]:
            tensor = torch.stack([state[name].detach() for state in states])
            if tensor.ndim == 5:  # of a convolution; channels last is a layout of 4 dimensions
                images = tensor.flatten(0, 1)
                images = images.contiguous(memory_format=image_format(tensor))
                tensor = images.unflatten(0, (self.runs, -1))
                self.flat[name] = images
            self.tensors[name] = tensor
        self.used: set[str] = set()
        self.folded = False

    def build(self) -> tuple[Chain, dict[str, Tensor]]:
        chain = self._chain(self.model, "")
        if unused := sorted(set(self.tensors) - self.used):
            raise NotStackable(f"{unused[0]} belongs to no layer that can be stacked")
        return chain, self.tensors

    def _chain(self, modules: nn.Module, prefix: str) -> Chain:
        layers: list[Layer] = []
        for name, module in modules.named_children():
            layers += self._layers(module, f"{prefix}{name}")
        return Chain(layers)

    def _tensor(self, name: str, folded: bool) -> Tensor | None:
        if name not in self.tensors:
            return None
        self.used.add(name)
        if not folded:
            return self.tensors[name]
        return self.flat.get(name, self.tensors[name].flatten(0, 1))

    def _layers(self, module: nn.Module, name: str) -> list[Layer]:
        kind = type(module)
        if kind is nn.Sequential:
            return [self._chain(module, f"{name}.")]
        if isinstance(module, Residual):
            fold = self._fold()
            body = self._chain(module.body, f"{name}.body.")
            self.folded = True
            return [*fold, Shortcut(body, self._chain(module.shortcut, f"{name}.shortcut."))]
        if isinstance(module, nn.Linear) and not self.folded:
            weight = self._tensor(f"{name}.weight", folded=False)
            assert weight is not None
            return [Linear(weight, self._tensor(f"{name}.bias", folded=False))]
        if isinstance(module, Diagonal) and not self.folded:
            u, v = (self._tensor(f"{name}.{part}", folded=False) for part in "uv")
            assert u is not None
            assert v is not None
            return [Product(u, v)]
        if isinstance(module, nn.Conv2d) and self._plain(module):
            fold = self._fold()
            weight = self._tensor(f"{name}.weight", folded=True)
            assert weight is not None
            bias = self._tensor(f"{name}.bias", folded=True)
            return [*fold, Convolution(module, self.runs, weight, bias)]
        if isinstance(module, nn.BatchNorm2d) and _keeps_averages(module):
            return [*self._fold(), self._batch_norm(module, name)]
        if isinstance(module, nn.MaxPool2d) and (size := _size_of_windows(module)):
            return [*self._fold(), MaxPool(size)]
        if kind is nn.AdaptiveAvgPool2d and module.output_size in (1, (1, 1)):
            return [*self._fold(), GlobalAveragePool()]
        if kind is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
            folded, self.folded = self.folded, False
            return [Unfold(self.runs) if folded else Flatten()]
        if kind in (nn.ReLU, nn.Tanh):
            return [ReLU() if kind is nn.ReLU else Tanh()]
        if isinstance(module, Gaussian):
            return [GaussianBump(module.width)]
        raise NotStackable(f"the layer {name} ({kind.__name__}) has no stacked form")

    def _fold(self) -> list[Layer]:
        folded, self.folded = self.folded, True
        return [] if folded else [Fold()]

    @staticmethod
    def _plain(module: nn.Conv2d) -> bool:
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)

    def _batch_norm(self, module: nn.BatchNorm2d, name: str) -> BatchNorm:
        weight, bias, mean, variance = (
            self._tensor(f"{name}.{part}", folded=True)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        steps = self._tensor(f"{name}.num_batches_tracked", folded=False)
        assert mean is not None
        assert variance is not None
        assert steps is not None
        return BatchNorm(module, weight, bias, (mean, variance, steps))


def _keeps_averages(module: nn.BatchNorm2d) -> bool:
    return module.momentum is not None and module.running_mean is not None


def _size_of_windows(module: nn.MaxPool2d) -> int | None:
    """The size of windows that are square, whole and do not overlap."""
    size = module.kernel_size
    whole = (module.padding, module.dilation, module.ceil_mode) == (0, 1, False)
    return size if isinstance(size, int) and module.stride == size and whole else None
