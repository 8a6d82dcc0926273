"""Which cases `make test` asks; small networks, their inputs and a made-up data set.

torch is imported only where it is used.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings

import flatlab.core.studies  # noqa: F401 - finds the modules of papers

for library in ("OMP", "MKL", "OPENBLAS"):
    os.environ[f"{library}_NUM_THREADS"] = "1"  # read when torch is imported, which is later


PAPERS = Path(__file__).resolve().parents[1] / "papers"


def pytest_configure(config):
    """Draw few networks for each law where `make test` leaves further cases out."""
    if "not more" in config.option.markexpr:
        settings.register_profile("quick", max_examples=8)
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as `more` the cases of a test that repeat its question, which `make test` leaves out.

    Of a product of parametrizations it asks each value once. `first(n)` on a test, a class or a
    file leaves its first n cases, `every(n)` every n-th of them.
    """
    tests = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        asked = _each_value_once([case for case in cases if not case.get_closest_marker("long")])
        if first := cases[0].get_closest_marker("first"):
            asked = asked[: first.args[0]]
        if every := cases[0].get_closest_marker("every"):
            asked = asked[:: every.args[0]]
        for case in cases:
            if case not in asked:
                case.add_marker("more")
    for item in items:
        if item.path.parent.name == "laws":
            item.add_marker("law")
    # Runs of Snakemake take longest: what is left when they are done is short, and is shared out.
    items.sort(key=lambda item: not item.get_closest_marker("workflow"))


def _each_value_once(cases):
    """Cases with every value of each parametrization, the diagonal of the product first."""
    if not all(hasattr(case, "callspec") for case in cases):
        return cases
    values = {case: [*enumerate(case.callspec._idlist)] for case in cases}
    orders = [[*dict.fromkeys(axis)] for axis in zip(*values.values(), strict=True)]

    def off_diagonal(case):
        places = [order.index(v) for order, v in zip(orders, values[case], strict=True)]
        return any(p != max(places) % len(o) for p, o in zip(places, orders, strict=True))

    asked, seen = [], set()
    for case in sorted(cases, key=off_diagonal):
        if not seen >= {*values[case]}:
            asked.append(case)
            seen |= {*values[case]}
    return asked


@pytest.fixture
def papers(tmp_path, monkeypatch):
    """A copy of the papers' folders, which this process uses instead, to be edited."""
    folder = shutil.copytree(
        PAPERS, tmp_path / "papers", ignore=shutil.ignore_patterns("tests", "__pycache__")
    )
    monkeypatch.setattr("flatlab.core.studies.PAPERS", folder)
    return folder


@pytest.fixture(scope="session")
def mlp():
    """Build a network of linear layers in float64 with random weights and biases."""
    import torch
    from torch import nn

    activations = {"relu": nn.ReLU, "tanh": nn.Tanh}

    def build(widths, seed=0, activation="relu", bias=True):
        generator = torch.Generator().manual_seed(seed)
        modules = []
        for fan_in, fan_out in pairwise(widths):
            linear = nn.Linear(fan_in, fan_out, bias=bias, dtype=torch.float64)
            nn.init.normal_(linear.weight, std=1.5 / fan_in**0.5, generator=generator)
            if bias:
                nn.init.normal_(linear.bias, std=0.5, generator=generator)
            modules += [linear, activations[activation]()]
        return nn.Sequential(*modules[:-1])

    return build


@pytest.fixture(scope="session")
def normal():
    """Draw normal numbers in float64: normal(count, width, seed=3)."""
    import torch

    def draw(*shape, seed=0):
        generator = torch.Generator().manual_seed(1000 + seed)
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    return draw


@pytest.fixture(scope="session")
def measured():
    """The quantities of the family `geometry` as numpy arrays."""
    from tests.networks.measuring import quantities

    return quantities


@pytest.fixture(scope="session")
def stripes():
    """A made-up data file: three classes of 4 x 4 images, one bright row each, and noise."""
    import numpy as np

    from flatlab.data import dataset

    generator = np.random.default_rng(0)

    def draw(count):
        labels = np.arange(count) % 3
        inputs = generator.integers(0, 9, size=(count, 4, 4))
        inputs[np.arange(count), labels] += 7
        return inputs, labels

    return dataset(
        draw(63), draw(30), maximum=16, classes=["top", "middle", "low"], title="stripes"
    )
