"""What readers see: networks in words, and labels that fit."""

import pytest

from flatlab.lab.figures.labels import extent_of, networks_of, of_architecture


@pytest.mark.parametrize(
    ("networks", "paper", "words"),
    [
        ("vgg (widths 4-pool, hidden 16)", "vgg on cifar10", "narrow VGG"),
        ("vgg", "vgg on cifar10", "VGG"),
        ("mlp (width 200, depth 3)", "mlp (width 200, depth 3) on cifar10", "perceptron"),
        ("mlp (width 256)", "", "perceptron"),
        ("lenet5 (kernel 3, padding 1)", "lenet5 on cifar10", "LeNet-5"),
        ("vgg (widths 4) and vgg (widths 4, order pre)", "vgg and resnet on cifar10", "narrow VGG"),
        (
            "resnet (widths 6) and vgg on digits",
            "resnet and vgg",
            "narrow ResNet and VGG on images of digits",
        ),
        ("", "", ""),
    ],
)
def test_networks_are_told_without_their_options(networks, paper, words):
    assert networks_of(networks, paper) == words


def test_those_of_one_architecture_keep_their_options():
    both = "vgg (widths 4-pool) and resnet (widths 6) on cifar10"
    assert of_architecture(both, "resnet") == "resnet (widths 6) on cifar10"


def test_a_table_says_what_it_holds_in_words():
    about = {"network": "mlp (width 64)", "data": "digits", "stands_in_for": "mlp on fashion-mnist"}
    about["extent"] = "30 mlp (width 64) networks on 96 samples of digits, 30 epochs each"
    said = "30 narrow perceptron networks on 96 samples of images of digits, 30 epochs each"
    assert extent_of(about) == said
    assert extent_of({"extent": "8 class separations, 3 folds"}) == "8 class separations, 3 folds"
