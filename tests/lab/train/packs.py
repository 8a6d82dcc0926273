"""Made-up packs: small data and the settings of a training job."""

import json
import os
import signal

import numpy as np
import pytest

from flatlab.data import dataset
from flatlab.lab.train import Interrupted, train_packs
from flatlab.lab.train.pack import PackTraining

DATA = {"set": "made-up", "classes": "all", "scaling": "standardized"}
GIVEN = {"set": "made-up", "classes": "all", "scaling": "none", "targets": "given"}
TRAINING = {
    "lr": 0.02,
    "batch_size": 4,
    "loss": "half-mse",
    "label_smoothing": 0.0,
    "optimizer": "sgd",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "schedule": "constant",
    "milestones": [],
    "decay": 0.1,
    "warmup": 0.0,
    "minibatches": "reshuffled",
    "iterations": 200,
    "epochs": None,
    "stop": None,
    "precision": "float64",
    "mode": "loop",
}
RANDOM = {
    "data": {
        **DATA,
        "augmentation": "rand-augment+crop-flip",
        "options": {
            **{"randaugment_operations": 2, "randaugment_magnitude": 14},
            **{"augmentation_probability": 0.7, "crop_padding": 2},
        },
    },
    "regularizer": "mixup+sam",
    "mixup_alpha": 0.5,
    "sam_radius": 0.1,
}
"""Everything that changes a step, with streams of random numbers of its own."""


SMALL = {
    "mlp": {"width": 64},
    "lenet5": {"kernel": 3, "padding": 1},
    "vgg": {"widths": [8, 8, "pool", 16, 16, "pool"], "hidden": [32, 32]},
    "resnet": {"widths": [4, 6]},
}
"""Options of networks for images of 8 x 8 pixels."""


def small(name, activation="relu", **options):
    """A small network of an architecture: its name and its options."""
    if name not in SMALL:
        return {"name": name, "options": options}
    return {"name": name, "options": {**SMALL[name], "activation": activation, **options}}


def images(shape, samples=22, classes=3, seed=0):
    """A made-up data file of noise with a bright patch for each class."""
    generator = np.random.default_rng(seed)

    def draw(count):
        labels = np.arange(count) % classes
        inputs = generator.integers(0, 100, size=(count, *shape))
        inputs[np.arange(count), ..., labels] += 100
        return inputs, labels

    names = [str(label) for label in range(classes)]
    return dataset(draw(samples), draw(6), maximum=255, classes=names, title="made-up")


def settings(network, seeds=(0, 3), checkpoints="none", data=DATA, options=None, **training):
    """The settings of a training job.  options: of the network, beside those that make it small."""
    return {
        "data": data,
        "network": {
            "initialization": "framework",
            "initialization_steps": 30,
            **small(network, **(options or {})),
        },
        "outputs": None,
        "training": {**TRAINING, **training},
        "checkpoints": checkpoints,
        "curves": {"every": None, "log_spaced": 25},
        "seeds": list(seeds),
        "runs": [f"s{seed}" for seed in seeds],
    }


def content(trained):
    """All that came of a training, as bytes."""
    arrays = {
        f"{kind}.{name}": array.tobytes()
        for kind in ("weights", "dense")
        for name, array in getattr(trained, kind)[0].items()
    }
    about = json.dumps([trained.weights[1], trained.dense[1]])
    return arrays, about, trained.curves.to_dict()


def same(found, expected):
    arrays, about, curves = content(found)
    assert (arrays, about) == content(expected)[:2]
    assert found.curves.identical(expected.curves), curves


def interrupt_after(monkeypatch, steps):
    """Ask the process to stop when the engine could have been left so many times, in this test."""
    done = []

    def run(self):
        for _ in original(self):
            done.append(1)
            if len(done) == steps:
                os.kill(os.getpid(), signal.SIGTERM)
            yield

    original = PackTraining.run
    monkeypatch.setattr(PackTraining, "run", run)


def only(raw, pack, *args, **given):
    """What comes of the training of one pack."""
    [trained] = train_packs(raw, [pack], *args, **given)
    return trained


def interrupted(steps, raw, packs, **given):
    """Stop a training when the engine could have been left so many times; returns the message."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(patch, steps)
        with pytest.raises(Interrupted) as error:
            train_packs(raw, packs, **given)
    return str(error.value)


def same_bytes(found, expected, runs=slice(None)):
    """The final weights of some runs are the same to the byte."""
    for name, array in expected.weights[0].items():
        assert found.weights[0][name][runs].tobytes() == array[runs].tobytes(), name
