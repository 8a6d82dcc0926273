"""Training as the papers write it, by torch's optimizers and torchvision's transforms.

It shares with the package the initial weights, the scaled data and the streams of random numbers,
which are written out here: numpy's generators of (seed, 1) for the order of the data and of
(seed, number of a block of 100 steps, key) for what changes minibatches.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.transforms import RandAugment, functional

from flatlab.data._tensors import prepare
from flatlab.losses import loss_of
from flatlab.networks import build
from flatlab.train.initializations import draw
from tests.train.packs import DATA, TRAINING, images, small

SEED, SAMPLES, CLASSES, SIZE = 3, 22, 3, 8
PADDING = 2


def data_of(augmented: float | None = None, operations: int | None = None) -> dict[str, Any]:
    """The section `data`: crops and flips of a share of the images, behind RandAugment, or none."""
    keys, options = [], {}
    if operations is not None:
        keys.append("rand-augment")
        options |= {"randaugment_operations": operations, "randaugment_magnitude": 14}
    if augmented is not None:
        keys.append("crop-flip")
        options |= {"augmentation_probability": augmented, "crop_padding": PADDING}
    return {**DATA, "augmentation": "+".join(keys), "options": options} if keys else DATA


def weights(
    network: str,
    options: dict[str, Any],
    steps: int,
    augmented: float | None = None,
    operations: int | None = None,
    **training: Any,
) -> dict[str, Tensor]:
    """The state of the run of seed `SEED` after some steps on the images of `tests.train.packs`."""
    training = {**TRAINING, **training}
    split = prepare(images((SIZE, SIZE)), DATA).train
    model = build(small(network, **options), (1, SIZE, SIZE), CLASSES)
    draw(model, "framework", SEED)
    model = model.double().train()
    update, loss = optimizer(list(model.parameters()), training), loss_of(training)

    def differentiate(batch: np.ndarray, step: int) -> None:
        update.zero_grad()
        size = training["batch_size"]
        for piece in np.split(batch, range(size, len(batch), size)):
            inputs, targets = split.inputs[piece], split.targets[piece]
            if augmented or operations:
                inputs = changed(piece, augmented or 0.0, operations or 0, step)
            if alpha := training.get("mixup_alpha"):
                inputs, targets = mixed(inputs, targets, alpha, step)
            value = loss.reference(model(inputs), targets)
            (value * len(piece) / len(batch)).backward()

    for step, batch in enumerate(batches(training, steps)):
        differentiate(batch, step)
        if radius := training.get("sam_radius"):
            averages = [tensor.clone() for tensor in model.buffers()]
            before = ascend(list(model.parameters()), radius)
            differentiate(batch, step)
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), before, strict=True):
                    parameter.copy_(value)
                for tensor, value in zip(model.buffers(), averages, strict=True):
                    tensor.copy_(value)
        update.step()
    return model.state_dict()


def optimizer(parameters: list[nn.Parameter], training: dict[str, Any]) -> torch.optim.Optimizer:
    if isinstance(lr := training["lr"], dict):
        share = np.random.default_rng([SEED, 2]).uniform()
        lr = lr["low"] * (lr["high"] / lr["low"]) ** share
    decay, momentum = training["weight_decay"], training["momentum"]
    if training["optimizer"] == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=decay)
    if training["optimizer"] == "rmsprop":
        alpha = training["alpha"]
        return torch.optim.RMSprop(
            parameters, lr, alpha=alpha, momentum=momentum, weight_decay=decay
        )
    return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=decay)


def ascend(parameters: list[nn.Parameter], radius: float) -> list[Tensor]:
    """The step of SAM as published, to w + rho g / |g|; returns w."""
    before = [p.detach().clone() for p in parameters]
    norm = sum(float(p.grad.square().sum()) for p in parameters) ** 0.5
    with torch.no_grad():
        for p in parameters:
            p += radius * p.grad / norm
    return before


def stream(key: str) -> np.random.Generator:
    """Of the first 100 steps."""
    return np.random.default_rng([SEED, 0, *key.encode()])


def mixed(inputs: Tensor, targets: Tensor, alpha: float, step: int) -> tuple[Tensor, Tensor]:
    """Mixup as published."""
    generator, size = stream("mixup"), len(inputs)
    share = generator.beta(alpha, alpha, size=100)[step]
    partner = generator.permuted(np.tile(np.arange(size), (100, 1)), axis=1)[step]
    return (
        (1 - share) * inputs + share * inputs[partner],
        (1 - share) * targets + share * targets[partner],
    )


def changed(batch: np.ndarray, probability: float, operations: int, step: int) -> Tensor:
    """Images of 8 bits as torchvision changes, crops and flips them, then scaled."""
    raw = images((SIZE, SIZE))["train_inputs"].values
    kept = [torch.from_numpy(image).to(torch.uint8)[None] for image in raw[batch]]
    if operations:
        seed = int(stream("rand-augment").integers(2**62, size=100)[step])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            kept = [RandAugment(operations, 14)(image) for image in kept]
    if probability:
        generator = stream("crop-flip")
        corners = generator.integers(2 * PADDING + 1, size=(100, len(batch), 2))[step].tolist()
        flips = generator.integers(2, size=(100, len(batch), 1))[step]
        chosen = generator.random((100, len(batch), 1))[step] < probability
        for place, (top, left) in enumerate(corners):
            if chosen[place]:
                padded = functional.pad(kept[place], [PADDING])
                x = functional.crop(padded, top, left, SIZE, SIZE)
                kept[place] = functional.hflip(x) if flips[place] else x
    return torch.stack([(image.double() - raw.mean()) / raw.std() for image in kept])


def batches(training: dict[str, Any], steps: int) -> list[np.ndarray]:
    """The samples of each step."""
    generator, size = np.random.default_rng([SEED, 1]), training["batch_size"]
    if training["minibatches"] == "full":
        return [np.arange(SAMPLES)] * steps
    count = SAMPLES // size
    found: list[np.ndarray] = []
    while len(found) < steps:
        if training["minibatches"] == "replacement":
            found += list(generator.integers(SAMPLES, size=(count, size)))
        else:
            found += list(generator.permutation(SAMPLES)[: count * size].reshape(count, size))
    return found[:steps]
