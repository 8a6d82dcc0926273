"""Made-up tables of training curves, and what is drawn of them."""

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from flatlab.lab import plan
from flatlab.lab.figures import curves as template
from flatlab.lab.figures import labels
from flatlab.lab.plan.declarations import labels_of
from tests.synthetic.claim_tables import SETTINGS
from tests.synthetic.tables import table as synthetic

mpl.use("Agg")
CHEN2026 = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CHEN2024 = ("train_loss", "test_accuracy", "root_sharpness", "log_volume", "g", "local_dimension")
ON_TEST = ("train_loss", "test_loss", "root_sharpness", "log_volume", "g", "local_dimension")
THOROUGH = {"chen2026_fig4", "chen2026_figJ12", "beyond_fig1", "beyond_fig2"}
"""Laid out and made twice; the others share their code."""
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
INVARIANT = ("matrix_normalized_sharpness", "elementwise_adaptive_trace", "weighted_mls")
INVARIANT += ("input_invariant_mls", "normalized_mls")
ON_SAMPLES = ("run", "checkpoint", "samples")


def table(grid="vgg-grid", seeds=6, checkpoints=LOG_SPACED, dense=5, samples=SAMPLES):
    """Five settings; the seeds below `dense` at all checkpoints, the others at the last one."""
    generator = np.random.default_rng(0)
    network, data, stands_in_for, layers, convolutions = NETWORKS[grid]
    names = [f"conv{n + 1}" for n in range(convolutions)]
    names += [f"fc{n + 1}" for n in range(layers - convolutions)]
    runs, last = seeds * len(SETTINGS), checkpoints[-1]
    made = synthetic(
        *(grid, SETTINGS, {}),
        **{"seeds": seeds, "steps": checkpoints, "samples": samples, "layers": names},
        coordinates={"setting": named},
        **{"extent": f"{runs} {network} networks on {data}", "network": network, "data": data},
        **{"length": f"{last:,} iterations", "stands_in_for": stands_in_for},
        evidence="reduced",
    ).assign_coords(norm=list(NORMS), bound=list(BOUNDS))
    lr, batch = made["lr"].values, made["batch_size"].values

    def noise(*shape, scale=0.04):
        of_run = generator.normal(0, 2 * scale, (runs, *[1] * (len(shape) + 1)))
        return np.exp(of_run + generator.normal(0, scale, (runs, len(checkpoints), *shape)))

    progress = lr[:, None] / np.sqrt(batch / 20)[:, None] * np.array(checkpoints) / (0.1 * last)
    heat = (lr / batch)[:, None] * np.ones_like(progress)
    made = made.assign(
        **_of_training(noise, progress),
        **_of_samples(noise, progress, heat, len(samples)),
        **_of_layers(noise, progress, heat, len(samples), layers, convolutions),
    )
    root = made["root_sharpness"].expand_dims(layer=made.sizes["layer"], axis=-1)
    made["relative_flatness"] = made["layer_bound"] * root
    made["relative_flatness"] = made["relative_flatness"].where(made["shared"] == 0)
    if "misclassified" in samples:
        made = _where_misclassified(generator, made)
    kept = (made["seed"] < dense) | (made["checkpoint"] == last)
    return made.where(kept)


def named(columns):
    """The names of settings."""
    return [f"lr{a:g}-b{b}" for a, b in zip(columns["lr"], columns["batch_size"], strict=True)]


def _rise(progress, heat):
    """Steep at first, then slowly down again: (runs, checkpoints)."""
    falling = (1 - 0.5 * np.tanh(progress * 0.6)) * (0.005 / heat) ** 0.2
    return 1 + 3 * np.tanh(progress * 12) * falling


def _of_training(noise, progress):
    """Losses and accuracies: they fall and rise with the progress of training."""
    loss = 0.5 / (1 + (progress * 60) ** 1.1) * noise()
    accuracy = 100 - 50 * np.exp(-12 * progress)
    curves = {
        "train_loss": loss,
        "test_loss": (loss + 0.02 + 0.01 * np.tanh(progress)) * noise(),
        "train_accuracy": accuracy,
        "test_accuracy": accuracy - 4 * noise(),
        "generalization_gap": 4 * noise(),
    }
    return {name: (("run", "checkpoint"), curve) for name, curve in curves.items()}


def _of_samples(noise, progress, heat, sets):
    """Quantities of a sample set, in each of several."""
    rise, factors = _rise(progress, heat)[..., None], np.array([1.0, 1.15, 2.2][:sets])
    root = 2.0 * rise * factors * noise(sets)
    mls = 0.2 * rise**1.2 * factors * noise(sets)
    log_volume = 4 * np.log(mls) - progress[..., None] + 2 * np.log(noise(sets, scale=0.1))
    d = mls * 5 * noise(sets, scale=0.08) / heat[..., None] ** 0.3
    norms = np.array([1.0, 1.4, 3.0])[:, None] * np.array([0.5, 0.7, 1.0, 3.0, 2.0])
    quantities = {
        "sharpness": root**2,
        "root_sharpness": root,
        "mls": mls,
        "nmls": mls * noise(sets),
        "g": 1.3 * mls**2 * noise(sets),
        "log_volume": log_volume,
        "log_volume_of_three": log_volume / 2,
        "local_dimension": 1 + 1.0 / (1 + progress[..., None]) * noise(sets),
        "bound_a": mls,
        "bound_b": mls * 2.2,
        "bound_c": mls * 2.5 * noise(sets),
        "bound_d": d,
        "nmls_bound": mls * 9 * noise(sets, scale=0.1),
        **{name: root * noise(sets) for name in INVARIANT},
        **{name: log_volume for name in ("log_mean_volume", "network_log_volume")},
        **{name: log_volume + 9 for name in ("log_volume_bound", "network_log_volume_bound")},
        "samples_measured": np.full(root.shape, 100.0),
    }
    by_norm = d[..., None, None] * norms * noise(sets, 3, 5, scale=0.05)
    return {
        **{name: (ON_SAMPLES, values) for name, values in quantities.items()},
        "bound_by_norm": ((*ON_SAMPLES, "norm", "bound"), by_norm),
    }


def _of_layers(noise, progress, heat, sets, layers, convolutions):
    """Quantities of layers, of which the first ones are convolutions."""
    depth = np.arange(layers)
    by_layer = 0.3 * np.exp(-0.15 * depth) * _rise(progress, heat)[..., None, None]
    by_layer = by_layer * noise(sets, layers) * np.where(depth < convolutions, 4, 1)
    weights = np.exp(0.1 * depth) * (1 + progress[..., None, None] * 0.1) * noise(sets, layers)
    shared = (depth < convolutions) * np.ones_like(weights)
    violations = 20 * shared[..., None, :] * np.ones((3, 1))
    return {
        "mls_per_layer": ((*ON_SAMPLES, "layer"), by_layer),
        "sharpness_per_layer": ((*ON_SAMPLES, "layer"), by_layer),
        "layer_bound": ((*ON_SAMPLES, "layer"), weights),
        "shared": ((*ON_SAMPLES, "layer"), shared),
        "violations": ((*ON_SAMPLES, "norm", "layer"), violations),
    }


def _where_misclassified(generator, made):
    """Without values of misclassified samples where a network, in the end, gets nothing wrong."""
    checkpoints = made["checkpoint"].values
    wrong = np.ones((made.sizes["run"], len(checkpoints)), dtype=bool)
    late = checkpoints > 0.3 * checkpoints[-1]
    wrong[:, late] = generator.random((len(wrong), late.sum())) < 0.7
    wrong[:, -3:-2] = False  # a checkpoint where no network gets anything wrong
    has_samples = xr.DataArray(wrong, dims=("run", "checkpoint")) | (
        made["samples"] != "misclassified"
    )
    on_samples = {name: array for name, array in made.data_vars.items() if "samples" in array.dims}
    return made.assign({name: array.where(has_samples) for name, array in on_samples.items()})


def drawn(frame, panels, **options):
    fig = Figure(figsize=(11, 7), layout="constrained")
    template.draw_panels(fig, frame, panels, **options)
    return fig


def titles(names):
    """Panels of one quantity each."""
    figure = {"labels": labels_of(names), "units": {}}
    return {name: labels.title_of(figure, name) for name in names}


def declared(target):
    """What a figure's template is given."""
    return next(figure.settings for figure in plan.figures() if figure.target == target)


def curves_of(ax):
    """The lines that show rows of the frame, without the vertical marks."""
    return [line for line in ax.lines if line.get_marker() != "None"]


def runs_of(ax):
    """The thin lines, one per run."""
    return [line for line in ax.lines if line.get_marker() == "None" and line.get_lw() < 0.5]
