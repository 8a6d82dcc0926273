"""The plain loop is what one writes with the framework."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.data._tensors import prepare
from flatlab.networks import build
from flatlab.train.initializations import draw
from tests.train.modes.rules import RULES, rate_of, weights
from tests.train.packs import DATA, TRAINING, images, small


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_loop_is_what_one_writes_with_the_framework(rule):
    """SGD, schedulers and losses of torch, on the data in the order of numpy's generator."""
    rule = {"iterations": 40, **rule}
    training = {**TRAINING, **rule, "lr": rate_of(3, rule.get("lr", TRAINING["lr"]))}
    raw, seed = images((8, 8)), 3
    arrays = weights(raw, "resnet", mode="loop", **rule)
    split = prepare(raw, DATA).train
    model = build(small("resnet"), (1, 8, 8), 3)
    draw(model, "framework", seed)
    model = model.double().train()
    decay = training["weight_decay"]
    if training["optimizer"] == "adam":
        update = torch.optim.Adam(model.parameters(), lr=training["lr"], weight_decay=decay)
    elif training["optimizer"] == "rmsprop":
        update = torch.optim.RMSprop(
            model.parameters(),
            lr=training["lr"],
            alpha=training["alpha"],
            momentum=training["momentum"],
            weight_decay=decay,
        )
    else:
        update = torch.optim.SGD(
            model.parameters(), lr=training["lr"], momentum=training["momentum"], weight_decay=decay
        )
    total = training["iterations"]
    scheduler = {
        "constant": lambda: torch.optim.lr_scheduler.ConstantLR(update, factor=1.0),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(update, total),
        "step": lambda: torch.optim.lr_scheduler.MultiStepLR(
            update, [int(0.3 * total), int(0.6 * total)], gamma=0.2
        ),
        "warmup-linear": lambda: torch.optim.lr_scheduler.SequentialLR(
            update,
            [
                torch.optim.lr_scheduler.LinearLR(update, 1e-12, 1.0, int(0.4 * total)),
                torch.optim.lr_scheduler.LinearLR(update, 1.0, 0.0, int(0.6 * total)),
            ],
            [int(0.4 * total)],
        ),
    }[training["schedule"]]()
    losses = {
        "half-mse": lambda f, y: nn.MSELoss(reduction="sum")(f, y) / 2 / len(f),
        "mean-mse": nn.MSELoss(),
        "cross-entropy": lambda f, y: nn.CrossEntropyLoss(
            label_smoothing=training["label_smoothing"]
        )(f, y.argmax(1)),
        "sum-of-squares": nn.MSELoss(reduction="sum"),
    }
    generator = np.random.default_rng([seed, 1])
    drawing = torch.Generator().manual_seed(seed)
    order = []
    while len(order) < total:
        if training["minibatches"] == "torch-replacement":
            order.append(torch.randint(22, (4,), generator=drawing).numpy())
        elif training["minibatches"] == "replacement":
            order += list(generator.integers(22, size=(5, 4)))
        elif training["minibatches"] == "reshuffled":
            order += list(generator.permutation(22)[:20].reshape(5, 4))
        else:
            order.append(np.arange(22))
    for batch in order[:total]:
        update.zero_grad()
        for ghost in np.split(
            batch, range(training["batch_size"], len(batch), training["batch_size"])
        ):
            outputs = model(split.inputs[ghost])
            loss = losses[training["loss"]](outputs, split.targets[ghost])
            added_up = training["loss"] == "sum-of-squares"
            (loss if added_up else loss * len(ghost) / len(batch)).backward()
        update.step()
        scheduler.step()
    for name, tensor in model.state_dict().items():
        assert arrays[name][1, 0] == pytest.approx(tensor.numpy(), rel=0, abs=1e-9), name
