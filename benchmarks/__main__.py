"""What is fast, as ratios against named baselines measured in one run: `make bench`.

Each pair is timed in turn, A B A B ..., so that a machine whose speed drifts does not decide; the
figures are medians. One thread, CPU.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

import numpy as np
import scipy.stats
import torch

from flatlab import data, plan, train
from flatlab.metrics.geometry import geometry
from flatlab.models import build, initialize
from flatlab.splits import Split, prepare
from flatlab.stats import Correlations

REPEATS = 5


def paired(ours: Callable[[], Any], baseline: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds of each, timed in turn after one warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(REPEATS + 1):
        for function, kept in zip((ours, baseline), times, strict=True):
            start = time.perf_counter()
            function()
            if repeat:
                kept.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def report(what: str, ours: float, baseline: float, name: str, unit: str = "") -> None:
    print(f"{what:<34}{1e3 * ours:10.3f} ms{unit}  {baseline / ours:8.1f} x  {name}")


class NotWatched:
    """Stands where training curves are recorded, and records none."""

    iterations: tuple[int, ...] = ()

    def observe(self, forward: Any) -> None: ...


def training(raw: Any) -> None:
    """A pack of the demo scale, per network and step."""
    grid = plan.Plan({"scale": "demo"}, Path("grids")).grid("mlp-grid", "demo")
    split = prepare(raw, plan.train_settings(grid, grid.packs["lr0.1-b20-s0-4"])["data"]).train
    split = Split(split.inputs.float(), split.labels, split.targets.float())
    for key in ("lr0.1-b20-s0-4", "lr0.1-b20-s5-19"):
        settings = plan.train_settings(grid, grid.packs[key])
        seeds = settings["seeds"]
        models = [build(settings["network"], (8, 8), 10) for _ in seeds]

        def run(mode: str, steps: int, models: Any = models, settings: Any = settings) -> None:
            changed = {**settings["training"], "iterations": steps}
            train.MODES[mode](models, split, changed, settings["seeds"], NotWatched())

        ours, baseline = paired(
            lambda run=run: run("batched", 1000), lambda run=run: run("loop", 100)
        )
        scale = 1000 * len(seeds), 100 * len(seeds)
        what = f"training, a pack of {len(seeds)}"
        report(what, ours / scale[0], baseline / scale[1], "the plain loop over networks", "/step")


def measuring(raw: Any) -> None:
    """All of `geometry` for one network, against S alone by one gradient per sample and output."""
    settings = {"singular_values": "all", "relative_flatness_loss": "half-mse"}
    splits = prepare(raw, {"classes": "all", "scaling": "unit"})
    inputs = splits.train.subset(100, 0).inputs
    model = build({"name": "mlp4-small", "activation": "relu"}, tuple(inputs.shape[1:]), 10)
    initialize(model, "framework", 0)
    model = model.double()
    parameters = list(model.parameters())

    def loop() -> float:
        total = 0.0
        for x in inputs:
            for output in model(x[None])[0]:
                gradients = torch.autograd.grad(output, parameters, retain_graph=True)
                total += sum(float(g.square().sum()) for g in gradients)
        return total / len(inputs)

    exact = float(geometry(model, inputs, settings)["sharpness"])
    assert abs(loop() / exact - 1) < 1e-10
    ours, baseline = paired(lambda: geometry(model, inputs, settings), loop)
    report("geometry of a network, 100 samples", ours, baseline, "a gradient per sample, S alone")


def correlating() -> None:
    """The intervals of all pairs of 10 quantities of 100 runs, against scipy pair by pair."""
    values = np.random.default_rng(0).normal(size=(100, 10))
    columns = {f"q{number}": values[:, number] for number in range(10)}
    settings = np.repeat(list("abcde"), 20)

    def one_pair() -> None:
        samples = [np.flatnonzero(settings == setting) for setting in "abcde"]

        def rho(*index: np.ndarray, axis: int = -1) -> np.ndarray:
            chosen = values[np.concatenate(index, axis=-1).astype(int)][..., :2]
            centred = chosen - chosen.mean(-2, keepdims=True)
            covariance = np.einsum("...ni,...nj->...ij", centred, centred)
            return covariance[..., 0, 1] / np.sqrt(covariance[..., 0, 0] * covariance[..., 1, 1])

        scipy.stats.bootstrap(samples, rho, n_resamples=10_000, rng=0)

    ours, baseline = paired(lambda: Correlations(columns, settings).matrix("pooled"), one_pair)
    report(
        "intervals of 45 correlations", ours, 45 * baseline, "scipy.stats.bootstrap, 45 x one pair"
    )


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':34}{'ours':>10}     {'gain':>12}  over")
    raw = data.load("digits")
    training(raw)
    measuring(raw)
    correlating()


if __name__ == "__main__":
    main()
