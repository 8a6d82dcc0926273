"""Batch norm of images, with running averages."""

from torch import Tensor, nn

from flatlab.train.builder import Builder
from flatlab.train.chain import Gradients, Layer, Passed, aten


def stacked(module: nn.Module, name: str, builder: Builder) -> list[Layer] | None:
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

    def forward(x: Tensor, training: bool) -> Passed:
        if training:
            steps.add_(1)
        y, mean, deviation = aten.native_batch_norm(
            x, weight, bias, *averages, training, momentum, eps
        )

        def backward(gradient: Tensor, wanted: bool) -> Gradients:
            needed = [wanted, affine, affine]
            through, *of_parameters = aten.native_batch_norm_backward(
                gradient, x, weight, *averages, mean, deviation, True, eps, needed
            )
            return through, of_parameters if affine else []

        return y, backward

    return [*builder.fold(), Layer(forward, weight, bias)]
