"""All definitions of sharpness in the table of a grid, beside other families."""

from __future__ import annotations


import numpy as np
import pytest
import torch

import flatlab
from flatlab.data import load
from flatlab.data._tensors import prepare
from flatlab.lab import plan
from flatlab.lab.plan import PlanError
from flatlab.lab.tables.runs import collect
from flatlab.lab.train import train_packs
from flatlab.metrics._measure_pack import measure_pack
from flatlab.metrics.sharpness import SMALLEST_RADII
from flatlab.networks import build
from tests.lab.kinds import experiments
from tests.lab.kinds.experiments import content_of, written



def grid_of(folder, **measure):
    """The perceptrons of the demo, trained for a few steps."""
    content = content_of("mlp-grid")
    content |= {"seeds": ["0-1"], "settings": [{"lr": 0.05, "batch_size": 20}]}
    content["checkpoints"] = {"dense": [0], "seeds": "all"}
    families = ["accuracy", "geometry", "sharpness"]
    content["measure"] |= {"families": families, "diverged_below": 0, **measure}
    demo = content["scales"]["demo"]
    demo |= {"checkpoints": {}, "measure": {}, "training": {"iterations": 40}}
    return experiments.load(written(folder, "mlp-grid", content), "demo")


def test_a_table_has_every_definition_and_radius_of_every_run(tmp_path):
    grid, raw = grid_of(tmp_path, sharpness_steps=3, sharpness_draws=2), load("digits")
    (pack,) = grid.packs
    (trained,) = train_packs(raw, [grid.training(pack).settings], "cpu")
    weights = [trained.weights, trained.dense]
    stages = [grid.measuring(pack, family) for family in grid.families]
    parts = [measure_pack(weights, raw, stage.settings) for stage in stages]
    table = collect(parts, grid.tabulating(grid).settings)
    found = table["sharpness_at_radius"]
    assert found.dims == ("run", "checkpoint", "samples", "definition", "radius_index")
    assert list(table["definition"].values) == list(SMALLEST_RADII)
    assert found.shape == (2, 2, 1, 12, 4)
    assert np.isfinite(found).all()
    assert found.attrs["units"] == "loss"
    assert table["sharpness"].dims == ("run", "checkpoint", "samples")  # of geometry

    settings = stages[0].settings
    splits = prepare(raw, settings["data"], None, torch.float64, "cpu")
    network = build(settings["network"], (8, 8), 10).to(torch.float64)
    network.load_state_dict(
        {name: torch.from_numpy(a[1, -1]) for name, a in trained.weights[0].items()}
    )
    subset = splits.train.subset(100, 0)
    how = {"sharpness_steps": 3, "sharpness_draws": 2}
    alone = flatlab.measure(network, subset.inputs, subset.labels, families=["sharpness"], **how)
    expected = alone["sharpness_at_radius"].values
    np.testing.assert_allclose(found.values[1, -1, 0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"sharpness_radii": {"worst": [0.1]}},
            "measure.sharpness_radii: 'worst' is no definition",
        ),
        ({"sharpness_radii": {"worst-standard-l2": [0]}}, "sharpness_radii"),
        ({"sharpness_draws": 1}, "sharpness_draws"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(tmp_path, options, words):
    with pytest.raises(PlanError, match=words):
        grid_of(tmp_path, **options)
