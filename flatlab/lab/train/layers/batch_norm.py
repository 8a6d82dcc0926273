"""Batch norm of images, with running averages."""

from torch import Tensor, nn

from flatlab.lab.train.stacked_layers import Forward, Gradients, Layer, aten
from flatlab.lab.train.stacking import StackBuilder


def stacked(module: nn.Module, name: str, builder: StackBuilder) -> list[Layer] | None:
    """Batch norm of all channels of all runs. Tensors: (runs * channels); steps: (runs)."""
    if not isinstance(module, nn.BatchNorm2d):
        return None
    momentum, eps = module.momentum, module.eps
    if momentum is None or module.running_mean is None:
        return None
    names = "weight", "bias", "running_mean", "running_var"
    weight, bias, *averages = (builder.tensor(f"{name}.{part}", folded=True) for part in names)
    steps = builder.tensor(f"{name}.num_batches_tracked")
    affine = weight is not None

    def forward(x: Tensor, training: bool) -> Forward:
        if training:
            steps.add_(1)
        y, mean, deviation = aten.native_batch_norm(
            x, weight, bias, *averages, training, momentum, eps
        )

        def backward(gradient: Tensor, need_input_gradient: bool) -> Gradients:
            needed = [need_input_gradient, affine, affine]
            of_input, *of_parameters = aten.native_batch_norm_backward(
                gradient, x, weight, *averages, mean, deviation, True, eps, needed
            )
            return of_input, of_parameters if affine else []

        return y, backward

    return [*builder.fold(), Layer(forward, weight, bias)]
