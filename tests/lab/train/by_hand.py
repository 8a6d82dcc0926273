"""Training as the papers write it, by torch's optimizers and torchvision's transforms.

It shares with the package the initial weights, the scaled data and the streams of random numbers,
which are written out here: numpy's generators of (seed, 1) for the order of the data and of
(seed, number of a block of 100 steps, key) for what changes minibatches.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.transforms import RandAugment, functional

from flatlab.data._tensors import prepare
from flatlab.lab.train.initializations import draw
from flatlab.networks import build
from tests.lab.train.packs import DATA, TRAINING, images, small

SEED, SAMPLES, CLASSES, SIZE = 3, 22, 3, 8
PADDING = 2


def data_of(augmented=None, operations=None):
    """The section `data`: crops and flips of a share of the images, behind RandAugment, or none."""
    keys, options = [], {}
    if operations is not None:
        keys.append("rand-augment")
        options |= {"randaugment_operations": operations, "randaugment_magnitude": 14}
    if augmented is not None:
        keys.append("crop-flip")
        options |= {"augmentation_probability": augmented, "crop_padding": PADDING}
    return {**DATA, "augmentation": "+".join(keys), "options": options} if keys else DATA


def weights(network, options, steps, augmented=None, operations=None, **training):
    """The state of the run of seed `SEED` after some steps on the images of `packs`."""
    training = {**TRAINING, **training}
    split = prepare(images((SIZE, SIZE)), DATA).train
    model = build(small(network, **options), (1, SIZE, SIZE), CLASSES)
    draw(model, "framework", SEED)
    model = model.double().train()
    update = optimizer(list(model.parameters()), training)
    scheduler, loss = schedule(update, training, steps), LOSSES[training["loss"]]
    smoothing = training["label_smoothing"]

    def differentiate(batch, step):
        update.zero_grad()
        size = training["batch_size"]
        for piece in np.split(batch, range(size, len(batch), size)):
            inputs, targets = split.inputs[piece], split.targets[piece]
            if augmented or operations:
                inputs = changed(piece, augmented or 0.0, operations or 0, step)
            if alpha := training.get("mixup_alpha"):
                inputs, targets = mixed(inputs, targets, alpha, step)
            value = loss(model(inputs), targets, smoothing)
            share = 1.0 if training["loss"] == "sum-of-squares" else len(piece) / len(batch)
            (value * share).backward()

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
        scheduler.step()
    return model.state_dict()


LOSSES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "half-mse": lambda f, y, _: nn.MSELoss(reduction="sum")(f, y) / 2 / len(f),
    "mean-mse": lambda f, y, _: nn.MSELoss()(f, y),
    "cross-entropy": lambda f, y, smoothing: nn.CrossEntropyLoss(label_smoothing=smoothing)(f, y),
    "sum-of-squares": lambda f, y, _: nn.MSELoss(reduction="sum")(f, y),
}


def rate_of(seed, lr):
    """What a seed draws, log-uniformly, where it draws."""
    if not isinstance(lr, dict):
        return lr
    share = np.random.default_rng([seed, 2]).uniform()
    return lr["low"] * (lr["high"] / lr["low"]) ** share


def optimizer(parameters, training):
    lr = rate_of(SEED, training["lr"])
    decay, momentum = training["weight_decay"], training["momentum"]
    if training["optimizer"] == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=decay)
    if training["optimizer"] == "rmsprop":
        alpha = training["alpha"]
        return torch.optim.RMSprop(
            parameters, lr, alpha=alpha, momentum=momentum, weight_decay=decay
        )
    if training["optimizer"] == "sgd-by-depth":
        half = len(parameters) // 2
        upper = {"params": parameters[half:], "lr": lr * training["upper_factor"]}
        return torch.optim.SGD([{"params": parameters[:half]}, upper], lr)
    return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=decay)


def schedule(update, training, steps):
    """The scheduler of torch, which is called after each step."""
    kinds, kind = torch.optim.lr_scheduler, training["schedule"]
    if kind == "cosine":
        return kinds.CosineAnnealingLR(update, steps)
    if kind == "step":
        milestones = [int(share * steps) for share in training["milestones"]]
        return kinds.MultiStepLR(update, milestones, gamma=training["decay"])
    if kind == "warmup-linear":
        top = int(training["warmup"] * steps)
        up, down = (
            kinds.LinearLR(update, 1e-12, 1.0, top),
            kinds.LinearLR(update, 1.0, 0.0, steps - top),
        )
        return kinds.SequentialLR(update, [up, down], [top])
    return kinds.ConstantLR(update, factor=1.0)


def ascend(parameters, radius):
    """The step of SAM as published, to w + rho g / |g|; returns w."""
    before = [p.detach().clone() for p in parameters]
    norm = sum(float(p.grad.square().sum()) for p in parameters) ** 0.5
    with torch.no_grad():
        for p in parameters:
            p += radius * p.grad / norm
    return before


def stream(key):
    """Of the first 100 steps."""
    return np.random.default_rng([SEED, 0, *key.encode()])


def mixed(inputs, targets, alpha, step):
    """Mixup as published."""
    generator, size = stream("mixup"), len(inputs)
    share = generator.beta(alpha, alpha, size=100)[step]
    partner = generator.permuted(np.tile(np.arange(size), (100, 1)), axis=1)[step]
    return (
        (1 - share) * inputs + share * inputs[partner],
        (1 - share) * targets + share * targets[partner],
    )


def changed(batch, probability, operations, step, raw=None, moments=None):
    """Images of 8 bits as torchvision changes, crops and flips them, then scaled.

    raw: all images, those of `weights` by default.  moments: the scale, theirs by default.
    """
    raw = images((SIZE, SIZE))["train_inputs"].values[:, None] if raw is None else raw
    mean, deviation = moments or (raw.mean(), raw.std())
    kept = [torch.from_numpy(image).to(torch.uint8) for image in raw[batch]]
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
    return torch.stack([(image.double() - mean) / deviation for image in kept])


def batches(training, steps, samples=SAMPLES, seed=SEED):
    """The samples of each step."""
    generator, size = np.random.default_rng([seed, 1]), training["batch_size"]
    drawing, kind = torch.Generator().manual_seed(seed), training["minibatches"]
    if kind == "full":
        return [np.arange(samples)] * steps
    if kind == "torch-replacement":
        return [torch.randint(samples, (size,), generator=drawing).numpy() for _ in range(steps)]
    count = samples // size
    chosen: list[np.ndarray] = []
    while len(chosen) < steps:
        if kind == "replacement":
            chosen += list(generator.integers(samples, size=(count, size)))
        else:
            chosen += list(generator.permutation(samples)[: count * size].reshape(count, size))
    return chosen[:steps]
