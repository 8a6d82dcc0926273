"""Packs to measure: weights of networks as a training leaves them, and the settings of the job."""

from __future__ import annotations

import numpy as np
import torch


def networks(network, shape, outputs, count=4):
    """Networks of one architecture in float64, drawn by torch."""
    from flatlab.networks import build

    torch.manual_seed(0)
    return [build(network, shape, outputs).double() for _ in range(count)]


def weights_of(models, runs=2):
    """By name: (runs, checkpoints, ...)."""
    states = [model.state_dict() for model in models]
    return {
        name: np.stack([s[name].numpy() for s in states]).reshape(runs, -1, *value.shape)
        for name, value in states[0].items()
    }


def of_split(split, size, seed=0, only="all"):
    return {"split": split, "size": size, "seed": seed, "only": only}


def asked(family, network, **changes):
    """The settings of a measuring job."""
    return {
        "family": family,
        "data": {"classes": "all", "scaling": "unit"},
        "network": network,
        "outputs": None,
        "setting": "lr0.1",
        "hyperparameters": {"lr": 0.1},
        "seeds": [0, 1],
        "precision": "float64",
        "samples": {"train": of_split("train", 10)},
        "loss": {"loss": "half-mse"},
        "options": {"accuracy": {}, "geometry": {}, "jacobian": {}},
        **changes,
    }


def about(iterations):
    return {
        **{"runs": ["lr0.1-s0", "lr0.1-s1"], "iterations": iterations},
        **{"steps": [7, 7], "ended": ["finished"] * 2},
    }
