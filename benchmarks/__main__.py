"""Speed of flatlab relative to named baselines that are timed in the same run: `make bench`.

The two sides of each pair are timed alternately, A B A B ..., so that a machine whose speed drifts
does not bias the ratio. All times are medians, on one CPU thread unless stated otherwise.
"""

from __future__ import annotations

import argparse
import copy
import os
import warnings
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

import torch
from torch import nn

import flatlab
from benchmarks import baselines
from benchmarks.adaptive import adaptive
from benchmarks.eigenvalues import eigenvalues
from benchmarks.flatness import flatness
from benchmarks.large import large
from benchmarks.representations import representations
from benchmarks.sharpness import sharpness
from benchmarks.since import since
from benchmarks.spectrum import spectrum
from benchmarks.timing import paired, report, summary
from benchmarks.training import training
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.forward_pass import Wanted
from flatlab.networks import lenet5, mlp, vgg

SHARPNESS = Wanted(jacobian=False, layers=False)


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Networks with the framework's initialization, and samples on which to measure them."""
    torch.manual_seed(0)
    image = (3, 32, 32)
    vgg11 = vgg.Options(activation="relu")
    widths = tuple(w if isinstance(w, str) else w // 4 for w in vgg11.widths)
    quarter = vgg.Options(activation="relu", widths=widths, hidden=(128, 128))
    perceptron = mlp.Options(activation="relu", width=256)
    lenet = lenet5.Options(activation="relu")
    return {
        "MLP": (mlp.build((784,), 10, perceptron), torch.rand(100, 784)),
        "LeNet5": (lenet5.build(image, 10, lenet), torch.rand(100, *image)),
        "VGG-11 x1/4": (vgg.build(image, 10, quarter), torch.rand(20, *image)),
        "VGG-11": (vgg.build(image, 10, vgg11), torch.rand(20, *image)),
    }


def measuring() -> None:
    """All of `geometry` and parts of it against the baselines, in float32.

    `plotted`: what the papers' figures show, which is everything except the costly quantities.
    `five`: the quantities of the first baseline: sharpness, MLS, NMLS, log volume, dimension;
    BackPACK's trace is the sharpness alone.
    """
    for name, (model, inputs) in networks().items():
        model.eval()
        exact = float(flatlab.measure(model, inputs, dtype="float64")["sharpness"])
        every: dict[str, Any] = {"all": {}, "plotted": {"costly": ()}}
        for what, options in every.items():

            def ours(
                options: Any = options, model: Any = model, inputs: torch.Tensor = inputs
            ) -> Any:
                return flatlab.measure(model, inputs, **options)

            for baseline in (baselines.three_passes, baselines.double_loop, baselines.jacrev):
                if (name, baseline) == ("VGG-11", baselines.jacrev):
                    continue  # 39 GB
                compare(f"{name}, {what}", ours, baseline, model, inputs, exact)

        def five(model: Any = model, inputs: torch.Tensor = inputs) -> Any:
            with preserving_state(model):
                return derivatives(model, inputs, adaptive=False)

        for baseline in (baselines.three_passes, baselines.double_loop, baselines.jacrev):
            if (name, baseline) != ("VGG-11", baselines.jacrev):
                compare(f"{name}, five", five, baseline, model, inputs, exact)
        compare(f"{name}, five", five, baselines.backpack_trace, model, inputs, exact)

        def alone(model: Any = model, inputs: torch.Tensor = inputs) -> Any:
            with preserving_state(model):
                return derivatives(model, inputs, adaptive=False, wanted=SHARPNESS)

        compare(f"{name}, S alone", alone, baselines.backpack_trace, model, inputs, exact)


def compare(
    what: str, ours: Any, baseline: Any, model: nn.Module, inputs: torch.Tensor, exact: float
) -> None:
    """Time one pair, after checking that the baseline computes the same sharpness."""
    other = copy.deepcopy(model)  # BackPACK leaves its hooks behind
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BackPACK warns
        found = baseline(other, inputs)["sharpness"]
        assert abs(found / exact - 1) < 1e-3, (what, found, exact)
        times = paired(ours, lambda: baseline(other, inputs), slow=True)
    report(what, *times, baseline.__name__)


def main() -> None:
    parts = {"training": training, "since": since, "measuring": measuring}
    parts |= {"eigenvalues": eigenvalues, "adaptive": adaptive, "flatness": flatness}
    parts |= {"sharpness": sharpness, "representations": representations, "large": large}
    parts["spectrum"] = spectrum
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"{', '.join(parts)}; by default all")
    chosen = parser.parse_args().part
    if unknown := {*chosen} - {*parts}:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    torch.set_num_threads(1)
    print(f"{'':34}{'ours':>10}     {'gain':>12}  over")
    for name in chosen or parts:
        parts[name]()
    summary()


if __name__ == "__main__":
    main()
