"""Made-up tables of training curves, and what is drawn of them."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from flatlab import plan
from flatlab.plan.labels import labels_of
from flatlab.plotting import labels, lines

mpl.use("Agg")


CHEN2026 = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")


CHEN2024 = ("train_loss", "test_accuracy", "root_sharpness", "log_volume", "g", "local_dimension")


ON_TEST = ("train_loss", "test_loss", "root_sharpness", "log_volume", "g", "local_dimension")


THOROUGH = {"chen2026_fig4", "chen2026_figJ12", "beyond_fig1", "beyond_fig2"}
"""Made twice in all formats; the others share their code."""


SETTINGS = {
    "lr0.05-b20": (0.05, 20),
    "lr0.1-b20": (0.1, 20),
    "lr0.2-b20": (0.2, 20),
    "lr0.1-b8": (0.1, 8),
    "lr0.1-b32": (0.1, 32),
}


NETWORKS = {
    "mlp-grid": ("mlp (width 64)", "digits", "mlp on fashion-mnist", 4, 0),
    "vgg-grid": ("vgg (hidden 32-32)", "digits-2", "vgg on cifar10", 7, 5),
    "lenet-grid": ("lenet5 (kernel 3)", "digits-2", "lenet5 on cifar10", 5, 2),
}
"""Network, data, what it stands in for, layers, and how many of these are convolutions."""


SAMPLES = ("train", "test", "misclassified")


NORMS = ("kernel", "operator", "frobenius")


BOUNDS = ("b", "c", "d", "nmls", "nmls-layerwise")


LOG_SPACED = (0, *np.unique(np.geomspace(1, 12_000, 40).astype(int)))


EVEN = tuple(range(0, 150_001, 5_000))


def table(
    grid: str = "vgg-grid",
    seeds: int = 6,
    checkpoints: tuple[int, ...] = LOG_SPACED,
    dense: int = 5,
    samples: tuple[str, ...] = SAMPLES,
) -> xr.Dataset:
    """Five settings; the seeds below `dense` at all checkpoints, the others at the last one."""
    generator = np.random.default_rng(0)
    network, data, stands_in_for, layers, convolutions = NETWORKS[grid]
    settings = [key for key in SETTINGS for _ in range(seeds)]
    lr, batch = (np.array([SETTINGS[s][n] for s in settings]) for n in (0, 1))
    runs, last = len(settings), checkpoints[-1]

    def noise(*shape: int, scale: float = 0.04) -> np.ndarray:
        of_run = generator.normal(0, 2 * scale, (runs, *[1] * (len(shape) + 1)))
        return np.exp(of_run + generator.normal(0, scale, (runs, len(checkpoints), *shape)))

    sets, s = np.array([1.0, 1.15, 2.2][: len(samples)]), len(samples)
    progress = lr[:, None] / np.sqrt(batch / 20)[:, None] * np.array(checkpoints) / (0.1 * last)
    loss = 0.5 / (1 + (progress * 60) ** 1.1) * noise()
    heat = (lr / batch)[:, None] * np.ones_like(progress)
    rise = (
        1 + 3 * np.tanh(progress * 12) * (1 - 0.5 * np.tanh(progress * 0.6)) * (0.005 / heat) ** 0.2
    )
    root = 2.0 * rise[..., None] * sets * noise(s)
    mls = 0.2 * rise[..., None] ** 1.2 * sets * noise(s)
    log_volume = 4 * np.log(mls) - progress[..., None] + generator.normal(0, 0.4, mls.shape)
    dimension = 1 + 1.0 / (1 + progress[..., None]) * noise(s)
    depth = np.arange(layers)
    by_layer = 0.3 * np.exp(-0.15 * depth) * rise[..., None, None] * noise(s, layers)
    by_layer[..., :convolutions] *= 4
    weights = np.exp(0.1 * depth) * (1 + progress[..., None, None] * 0.1) * noise(s, layers)
    d = mls * 5 * noise(s, scale=0.08) / heat[..., None] ** 0.3
    norms = np.array([1.0, 1.4, 3.0])[:, None] * np.array([0.5, 0.7, 1.0, 3.0, 2.0])
    one, each, per_layer = ("run", "checkpoint"), "samples", "layer"
    accuracy = 100 - 50 * np.exp(-12 * progress)
    variables = {
        "train_loss": (one, loss),
        "test_loss": (one, (loss + 0.02 + 0.01 * np.tanh(progress)) * noise()),
        "train_accuracy": (one, accuracy),
        "test_accuracy": (one, accuracy - generator.normal(4, 0.5, loss.shape)),
        "generalization_gap": (one, generator.normal(4, 0.5, loss.shape)),
        "sharpness": ((*one, each), root**2),
        "root_sharpness": ((*one, each), root),
        "mls": ((*one, each), mls),
        "nmls": ((*one, each), mls * layers * noise(s)),
        "g": ((*one, each), 1.3 * mls**2 * noise(s)),
        "log_volume": ((*one, each), log_volume),
        "log_volume_of_three": ((*one, each), log_volume / 2),
        "local_dimension": ((*one, each), dimension),
        "bound_a": ((*one, each), mls),
        "bound_b": ((*one, each), mls * 2.2),
        "bound_c": ((*one, each), mls * 2.5 * noise(s)),
        "bound_d": ((*one, each), d),
        "nmls_bound": ((*one, each), mls * layers * 9 * noise(s, scale=0.1)),
        "samples_measured": ((*one, each), np.full(root.shape, 100.0)),
        "mls_per_layer": ((*one, each, per_layer), by_layer),
        "layer_bound": ((*one, each, per_layer), weights),
        "relative_flatness": ((*one, each, per_layer), weights * root[..., None]),
        "shared": ((*one, each, per_layer), (depth < convolutions) * np.ones_like(weights)),
        "violations": (
            (*one, each, "norm", per_layer),
            (depth < convolutions) * 20.0 * np.ones((runs, len(checkpoints), s, 3, 1)),
        ),
        "bound_by_norm": (
            (*one, each, "norm", "bound"),
            d[..., None, None] * norms * noise(s, 3, 5, scale=0.05),
        ),
    }
    seed = np.tile(np.arange(seeds), len(SETTINGS))
    coordinates = {
        "run": [f"{s}-s{n}" for s, n in zip(settings, seed, strict=True)],
        "setting": ("run", settings),
        "seed": ("run", seed),
        "lr": ("run", lr),
        "batch_size": ("run", batch),
        "diverged": ("run", np.zeros(runs, dtype=bool)),
        "checkpoint": list(checkpoints),
        "samples": list(samples),
        "layer": [
            f"conv{n + 1}" if n < convolutions else f"fc{n + 1 - convolutions}" for n in depth
        ],
        "norm": list(NORMS),
        "bound": list(BOUNDS),
    }
    about = {
        "scale": "demo",
        "experiment": grid,
        "name": grid,
        "extent": f"{runs} {network} networks on {data}",
        "network": network,
        "data": data,
        "length": f"{last:,} iterations",
        "stands_in_for": stands_in_for,
        "evidence": "reduced",
        "left_out": 0,
        "hyperparameters": ["lr", "batch_size"],
    }
    made = xr.Dataset(variables, coords=coordinates, attrs=about)
    made["relative_flatness"] = made["relative_flatness"].where(made["shared"] == 0)
    if "misclassified" in samples:
        wrong = np.ones((runs, len(checkpoints)), dtype=bool)
        late = np.array(checkpoints) > 0.3 * last
        wrong[:, late] = generator.random((runs, late.sum())) < 0.7
        wrong[:, -3:-2] = False  # a checkpoint where no network gets anything wrong
        there = xr.DataArray(wrong, dims=one) | (made["samples"] != "misclassified")
        for name, array in made.data_vars.items():
            if each in array.dims:
                made[name] = array.where(there)
    kept = (made["seed"] < dense) | (made["checkpoint"] == last)
    return made.where(kept).assign_coords(diverged=made["diverged"])


def drawn(frame: pd.DataFrame, panels: dict[str, str], **options: str) -> Figure:
    fig = Figure(figsize=(11, 7), layout="constrained")
    lines.draw_panels(fig, frame, panels, **options)
    fig.draw_without_rendering()
    return fig


def titles(names: tuple[str, ...]) -> dict[str, str]:
    """Panels of one quantity each."""
    figure = {"labels": labels_of(names), "units": {}}
    return {name: labels.title_of(figure, name) for name in names}


def declared(target: str) -> dict:
    """What a figure's template is given."""
    return next(figure.settings for figure in plan.figures() if figure.target == target)


def curves_of(ax) -> list:
    """The lines that show rows of the frame, without the vertical marks."""
    return [line for line in ax.lines if line.get_marker() != "None"]


def runs_of(ax) -> list:
    """The thin lines, one per run."""
    return [line for line in ax.lines if line.get_marker() == "None" and line.get_lw() < 0.5]
