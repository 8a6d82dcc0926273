"""Products by the cheap second pass are those of torch's own."""

import pytest
import torch
from torch import nn

from flatlab.derivatives.hessian_products import (
    empirical_fisher_product,
    gauss_newton_product,
    hessian_product,
)
from flatlab.derivatives.second_pass import SecondPass, with_second_pass
from flatlab.losses import loss_of
from tests.networks.small_networks import small

PRODUCTS = {
    "hessian": hessian_product,
    "gauss-newton": gauss_newton_product,
    "empirical-fisher": empirical_fisher_product,
}
CONVOLUTIONS = {
    "plain": nn.Conv2d(2, 4, 3),
    "without bias": nn.Conv2d(2, 4, 3, bias=False),
    "stride and padding": nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2)),
    "dilation and groups": nn.Conv2d(2, 4, (3, 2), dilation=2, groups=2),
    "circular": nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
    "same": nn.Conv2d(2, 4, 3, padding="same"),
    "transposed": nn.ConvTranspose2d(2, 4, 3),
    "one axis": nn.Sequential(nn.Flatten(2), nn.Conv1d(2, 4, 5, stride=3), nn.Unflatten(2, (4, 5))),
    "three axes": nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv3d(1, 4, 2), nn.Flatten(2, 3)),
}
NORMS = {
    "none": nn.Identity,
    "norm": lambda: nn.BatchNorm2d(4),
    "without weights": lambda: nn.BatchNorm2d(4, affine=False),
    "after an activation": lambda: nn.Sequential(nn.Tanh(), nn.BatchNorm2d(4)),
    "written over": lambda: nn.Sequential(nn.ELU(inplace=True), nn.BatchNorm2d(4)),
    "of the batch": lambda: nn.BatchNorm2d(4, track_running_stats=False),
}


def network(convolution, norm):
    torch.manual_seed(0)
    last = nn.LazyConv2d(3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.AdaptiveAvgPool2d(2)
    model = nn.Sequential(CONVOLUTIONS[convolution], NORMS[norm](), nn.Tanh(), *last, nn.Flatten())
    model.append(nn.Linear(12, 3))
    return randomized(model.double(), (5, 2, 8, 8))


def randomized(model, shape):
    x = torch.randn(shape, dtype=torch.float64)
    model(x)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model.eval(), x


def agree(model, x, batches=1):
    loss = loss_of({"loss": "cross-entropy"})
    y = torch.eye(3, dtype=torch.float64)[torch.arange(len(x)) % 3]
    parts = list(zip(x.chunk(batches), y.chunk(batches), strict=True))
    theta = [p for p in model.parameters() if p.requires_grad]
    vector = torch.randn(sum(p.numel() for p in theta), dtype=torch.float64)
    for matrix, product in PRODUCTS.items():
        plain = product(model, parts, loss)(vector)
        cheap = with_second_pass(lambda: product(model, parts, loss), matrix != "hessian")  # noqa: B023
        for _ in range(2):
            assert (cheap(vector) - plain).norm() <= 1e-12 * plain.norm(), matrix
        assert plain.norm() > 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_products_are_those_of_torch(convolution, norm):
    agree(*network(convolution, norm))


@pytest.mark.parametrize("name", ["lenet", "vgg", "resnet", "preact-resnet", "simple-vit"])
def test_products_of_architectures_whole_in_batches_and_in_part(name):
    model, x, _ = small(name)
    agree(model, x)
    agree(model, x, batches=2)
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 1)
    agree(model, x)


class Reused(nn.Module):
    """The output of a convolution goes elsewhere, too; its input and its output are written to."""

    def __init__(self, written):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
        self.written = written

    def forward(self, x):
        image = x.clone()
        output = self.first(image)
        if self.written == "output":
            output.tanh_()
        elif self.written == "input":
            with torch.no_grad():
                image = image.copy_(2 * image)
        normalized = self.norm(output)
        return self.last((normalized.tanh() * output.sin()).mean((2, 3)))


def test_an_output_that_is_used_twice_or_written_to():
    torch.manual_seed(0)
    for written in ("", "output"):
        agree(*randomized(Reused(written).double(), (5, 2, 8, 8)))
    model, x = randomized(Reused("input").double(), (5, 2, 8, 8))
    with torch.no_grad():
        plain = model(x)
        for linear in (True, False):
            with SecondPass(linear):
                assert torch.allclose(model(x), plain, rtol=1e-12, atol=0)


def test_nothing_is_left_behind():
    model, x = network("plain", "norm")
    before = model(x)
    with SecondPass(linear=True):
        inside = model(x)
    assert torch.allclose(inside, before, rtol=1e-12)
    assert torch.equal(model(x), before)
    assert "_Convolution" not in str(model[0](x).grad_fn)
