"""The pages on spectra, landscapes and tracking: their blocks run as they stand there."""

import re
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

import flatlab

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, monkeypatch, folder):
    monkeypatch.chdir(folder)
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, f"docs/{name}", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("page", "files"), [("spectra.md", ["density"]), ("landscapes.md", ["lines", "plane"])]
)
def test_every_block_of_the_page_runs(page, files, monkeypatch, tmp_path):
    run_page(page, monkeypatch, tmp_path)
    endings = ("csv", "pdf", "svg", "png")
    assert {f.name for f in tmp_path.iterdir()} == {f"{n}.{e}" for n in files for e in endings}


def test_every_block_of_the_page_on_tracking_runs_and_its_callbacks_measure(monkeypatch, tmp_path):
    """With classes that stand in for those of Lightning and transformers, and call as these do."""
    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(Callback=object))
    stand_in = types.SimpleNamespace(TrainerCallback=object)
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    names = run_page("tracking.md", monkeypatch, tmp_path)
    assert {f.name for f in tmp_path.iterdir()} > {"run.zarr.zip", "run.pdf", "run.csv"}
    model, x, y = nn.Linear(3, 2), torch.randn(20, 3), torch.arange(20) % 2

    def tracker():
        return flatlab.Tracker(model, x, y, every=2, families="geometry", loss="cross-entropy")

    callback, trainer = names["Track"](tracker()), types.SimpleNamespace(global_step=0)
    callback.on_train_start(trainer, model)
    for batch in range(4):
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, None, None, batch)
    assert callback.tracker.table.step.values.tolist() == [0, 2, 4]
    callback, state = names["TrackSteps"](tracker()), types.SimpleNamespace(global_step=0)
    callback.on_train_begin(None, state, None, model=model)
    for _ in range(4):
        state.global_step += 1
        callback.on_step_end(None, state, None, model=model)
    assert callback.tracker.table.step.values.tolist() == [0, 2, 4]
