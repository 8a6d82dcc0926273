"""Networks of timm in files, and images for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from flatlab.networks import _timm as networks
from tests.experiments.zoo.surveys import NAME


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Three classes of three images each of different sizes, one in grey."""
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for label, name in enumerate(["cat", "dog", "emu"]):
        (folder / name).mkdir()
        for number in range(3):
            shape = (170 + 10 * number, 190, 3) if number else (180, 180)
            pixels = generator.integers(0, 80, shape) + 60 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder with a good file, one that is damaged and one of another network."""
    folder = tmp_path_factory.mktemp("data") / "timm"
    folder.mkdir()
    torch.manual_seed(3)
    model = networks.build(NAME, num_classes=1000)
    save_file(model.state_dict(), folder / f"{NAME}.safetensors")
    (folder / "test_vit2.safetensors").write_bytes(b"not weights")
    save_file({"fc": torch.zeros(2)}, folder / "test_resnet.safetensors")
    return folder


@pytest.fixture
def imagenet(weights, tmp_path):
    """Images of two of ImageNet's classes beside the weights, in one data folder."""
    generator = np.random.default_rng(0)
    folder = weights.parent / "imagenet"
    for name in ("n01440764", "n01443537"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            pixels = generator.integers(0, 255, (170, 170, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return weights.parent
