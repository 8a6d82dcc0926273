"""log(1 + exp(-y f)) of targets y = +-1, summed over the outputs, averaged over the samples."""

from torch import Tensor
from torch.nn.functional import logsigmoid, soft_margin_loss

from flatlab.losses._base import Loss as Base


class Loss(Base):
    signs = True

    def values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -logsigmoid(targets * outputs).sum(-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (-targets * outputs).sigmoid_().mul_(targets).div_(-outputs.shape[-2])

    def hessian_product(self, outputs: Tensor, directions: Tensor) -> Tensor:
        """With s(f) s(-f), s the sigmoid."""
        return directions * outputs.sigmoid() * (-outputs).sigmoid()

    def hessian_root(self, outputs: Tensor) -> Tensor:
        f = outputs.double().nan_to_num()
        return (f.sigmoid() * (-f).sigmoid()).sqrt().diag_embed()

    def unfit(self, targets: Tensor) -> str:
        if bool((targets.abs() == 1).all()):
            return ""
        return "the logistic loss has targets +1 and -1; pass these, not classes"

    def reference(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return soft_margin_loss(outputs, targets, reduction="sum") / len(outputs)
