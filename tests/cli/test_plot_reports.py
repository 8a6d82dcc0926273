"""`flatlab plot` of reports: spectra, landscapes and runs, from files."""

import pytest
import torch

import flatlab
from flatlab.cli._main import main
from flatlab.core.store import save_dataset
from flatlab.lab.figures import spectra


def test_reports_are_drawn_beside_each_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, classes = torch.randn(20, 4), torch.arange(20) % 3
    reports = {}
    for name in ("before", "after"):
        torch.manual_seed(len(name))
        options = {"families": "spectrum", "loss": "cross-entropy", "largest": 4}
        reports[name] = flatlab.measure(torch.nn.Linear(4, 3), x, classes, **options)
        save_dataset(f"{name}.zarr.zip", reports[name])
    assert main(["plot", "before.zarr.zip", "after.zarr.zip", "spectrum"]) == 0
    stem = "before-after-spectrum"
    endings = [f"{stem}.{extension}" for extension in ("csv", "pdf", "png", "svg")]
    assert sorted(p.name for p in tmp_path.glob(f"{stem}.*")) == endings
    frame = spectra.spectrum_frame(reports)
    assert (tmp_path / f"{stem}.csv").read_text() == frame.to_csv(index=False)
    assert main(["plot", "before.zarr.zip", "density"]) != 0
    assert "before has no picture density; those it has: spectrum" in capsys.readouterr().err


def test_landscapes_and_barriers_are_drawn_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, classes = torch.randn(20, 4), torch.arange(20) % 3
    networks = [torch.nn.Linear(4, 3) for _ in range(3)]
    how = {"loss": "cross-entropy", "points": 5}
    plane = flatlab.landscape(networks[0], x, classes, along=networks[1:], **how)
    save_dataset("plane.zarr.zip", plane)
    save_dataset("pairs-of.zarr.zip", flatlab.barriers(networks, x, classes, **how))
    for name, kind in (("plane", "landscape"), ("pairs-of", "barriers")):
        assert main(["plot", f"{name}.zarr.zip", kind, "--title", "Three networks"]) == 0
        endings = {path.suffix for path in tmp_path.glob(f"{name}-{kind}.*")}
        assert endings == {".csv", ".pdf", ".png", ".svg"}
    drawn = (tmp_path / "plane-landscape.csv").read_text()
    assert drawn == spectra.landscape_frame({"plane": plane}).to_csv(index=False)


@pytest.mark.parametrize("names", [[], ["loss"]])
def test_a_run_is_drawn(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, classes = torch.randn(20, 4), torch.arange(20) % 3
    tracker = flatlab.Tracker(
        *(torch.nn.Linear(4, 3), x, classes),
        every=1,
        families="hessian",
        loss="cross-entropy",
        path="run.zarr.zip",
    )
    tracker(0)
    tracker(1)
    assert main(["plot", "run.zarr.zip", "run", *names, "--out", "shown.csv"]) == 0
    lines = (tmp_path / "shown.csv").read_text().splitlines()
    assert lines[0] == "report,quantity,units,step,value"
    assert {line.split(",")[1] for line in lines[1:]} >= {"loss"}
    assert len(lines) == 3 or not names
