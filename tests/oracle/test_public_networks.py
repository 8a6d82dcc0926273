"""Architectures of timm and torchvision against one pass of autograd per sample and output.

Weights are random, inputs small, all numbers float64. The reference differentiates the outputs of
a sample in the batch: alone, torch's batch norm gives a wrong gradient where the layout of memory
is ambiguous (xcit: 0.0135 along a direction in which finite differences and the batch give 0.0597).
"""

import pytest
import torch
from torch import nn

import flatlab

VIT = {"img_size": 32, "embed_dim": 12, "depth": 2, "num_heads": 3, "patch_size": 8}
SWIN = {"img_size": 32, "window_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2]}
DAVIT = {"depths": (1, 1, 1, 1), "embed_dims": (8, 16, 24, 32), "num_heads": (1, 1, 1, 1)}
LSTMS = {"embed_dims": [8, 12, 12, 12], "hidden_sizes": [4, 4, 4, 4], "layers": [1, 1, 1, 1]}
AS_THEY_ARE = """
    test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet
    test_efficientnet_evos test_efficientnet_gn test_efficientnet_ln test_mambaout test_nfnet
    test_resnet resnet10t mobilenetv2_035 mobilenetv3_small_050 tf_mobilenetv3_small_minimal_100
    lcnet_035 tinynet_e mnasnet_small semnasnet_050 ghostnet_050 regnetx_002 regnety_002 dla46_c
    ese_vovnet19b_slim mobilevit_xxs edgenext_xx_small mobileone_s0 fastvit_t8 repvit_m0_9
    mobilenetv4_conv_small_035 efficientvit_m0 efficientvit_b0 inception_next_atto starnet_s050
    hardcorenas_a convnext_atto xcit_nano_12_p16_224 repghostnet_050 seresnext26ts gernet_s
    tf_efficientnet_lite0 nf_regnet_b0 spnasnet_100 fbnetc_100 rexnet_100 skresnet18
"""
SIZED = {
    32: "test_vit test_vit2 test_vit3 test_vit4 coat_lite_tiny gmlp_ti16_224",
    64: "levit_128s visformer_tiny",
}
TIMM = {
    "densenet121": {"growth_rate": 4, "block_config": (2, 2, 2, 2)},
    "deit_tiny_distilled_patch16_224": VIT,
    "cait_xxs24_224": VIT,
    "beit_base_patch16_224": VIT,
    "eva02_tiny_patch14_224": VIT,
    "swin_tiny_patch4_window7_224": SWIN,
    "swinv2_tiny_window8_256": SWIN,
    "davit_tiny": DAVIT,
    "sequencer2d_s": LSTMS,
    "tnt_s_patch16_224": {"img_size": 32, "embed_dim": 12, "depth": 2},
    "pvt_v2_b0": {"depths": (1, 1, 1, 1)},
    **{name: {"img_size": size} for size, names in SIZED.items() for name in names.split()},
    **{name: {} for name in AS_THEY_ARE.split()},
}
TORCHVISION = {
    "squeezenet1_1": lambda m: m.squeezenet1_1(num_classes=2),
    "shufflenet_v2_x0_5": lambda m: m.shufflenet_v2_x0_5(num_classes=2),
    "mobilenet_v3_small": lambda m: m.mobilenet_v3_small(num_classes=2),
    "mnasnet0_5": lambda m: m.mnasnet0_5(num_classes=2),
    "resnet": lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], num_classes=2),
    "densenet": lambda m: m.DenseNet(4, (2, 2, 2, 2), 8, num_classes=2),
    "vit": lambda m: m.VisionTransformer(64, 16, 2, 2, 8, 16, num_classes=2),
    "swin": lambda m: m.SwinTransformer([4, 4], 8, [1, 1], [1, 2], [2, 2], num_classes=2),
    "convnext": lambda m: m.ConvNeXt(
        [m.convnext.CNBlockConfig(*c, 1) for c in ((8, 16), (16, None))], num_classes=2
    ),
    "googlenet": lambda m: m.googlenet(num_classes=2, aux_logits=False, init_weights=False),
    "efficientnet_b0": lambda m: m.efficientnet_b0(num_classes=2),
}
QUICK = {
    *("densenet121", "deit_tiny_distilled_patch16_224", "swinv2_tiny_window8_256", "test_nfnet"),
    *("test_efficientnet_evos", "test_convnext", "sequencer2d_s", "vit", "densenet", "swin"),
}
CASTS = {"efficientvit_b0", "test_efficientnet_evos", "test_mambaout"}
"""A part of their computation is in float32."""
LONG = pytest.mark.long


def built(name):
    """The network in float64, with statistics and affine parameters that are not trivial."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name in TIMM:
            timm = pytest.importorskip("timm")
            model = timm.create_model(name, num_classes=2, **TIMM[name])
        else:
            model = TORCHVISION[name](pytest.importorskip("torchvision").models)
        model = model.double().eval()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(std=0.3)
                module.running_var.uniform_(0.5, 2)
        for parameter in model.parameters():
            if parameter.ndim <= 1:
                parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model


def by_autograd(model, x):
    """||df/dtheta||_F^2 of each sample, and of each parameter the mean over the samples."""
    named, outputs = dict(model.named_parameters()), model(x)
    squares = torch.zeros(len(x), len(named), dtype=torch.float64)
    for sample, row in enumerate(outputs):
        for f in row:
            how = {"retain_graph": True, "materialize_grads": True}
            rows = torch.autograd.grad(f, list(named.values()), **how)
            squares[sample] += torch.stack([g.square().sum() for g in rows])
    return squares.sum(1), dict(zip(named, squares.mean(0), strict=True))


@pytest.mark.first(3)
@pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else LONG) for n in (*TIMM, *TORCHVISION)]
)
def test_sharpness_of_a_public_architecture_is_that_of_autograd(name):
    model = built(name)
    options = TIMM.get(name, {})
    pixels = options.get("img_size", 32 if "test_" in name or name == "densenet121" else 64)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 3, pixels, pixels, generator=generator, dtype=torch.float64)
    report = flatlab.measure(model, x, costly=())
    expected, of_parameters = by_autograd(model, x)
    exact = 1e-6 if name in CASTS else 1e-9
    assert report.sharpness_per_sample.values == pytest.approx(expected.numpy(), rel=exact)
    rounding = 1e-12 * float(report.sharpness)
    for layer in report.layer.values:
        if f"{layer}.weight" in of_parameters:
            own = float(of_parameters[f"{layer}.weight"])
            found = float(report.sharpness_per_layer.sel(layer=layer))
            assert found == pytest.approx(own, rel=exact, abs=rounding), layer
