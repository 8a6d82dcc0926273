"""Batch norm of images, with running averages."""

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Backward, Gradients, Layer, aten


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

    def forward(self, x: Tensor, training: bool) -> tuple[Tensor, Backward]:
        if training:
            self.steps.add_(1)
        averages = self.mean, self.variance
        y, mean, deviation = aten.native_batch_norm(
            x, self.weight, self.bias, *averages, training, self.momentum, self.eps
        )

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            affine = bool(self.parameters)
            needed = [wanted, affine, affine]
            through, *of_parameters = aten.native_batch_norm_backward(
                gradient, x, self.weight, *averages, mean, deviation, True, self.eps, needed
            )
            return through, of_parameters if affine else []

        return y, backward


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
    if not isinstance(module, nn.BatchNorm2d):
        return None
    if module.momentum is None or module.running_mean is None:
        return None
    weight, bias = (builder.tensor(f"{name}.{part}", folded=True) for part in ("weight", "bias"))
    statistics = (
        builder.required(f"{name}.running_mean", folded=True),
        builder.required(f"{name}.running_var", folded=True),
        builder.required(f"{name}.num_batches_tracked"),
    )
    return [*builder.fold(), BatchNorm(module, weight, bias, statistics)]
