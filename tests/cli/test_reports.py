"""Reports in files, as `flatlab plot` draws them."""

import pytest
import torch

import flatlab
from flatlab.core import store
from flatlab.lab.figures import reports as template

X, CLASSES = torch.randn(20, 4), torch.arange(20) % 3
LOSS = {"loss": "cross-entropy"}
ENDINGS = {".csv", ".pdf", ".png", ".svg"}


@pytest.fixture
def drawn(tmp_path, monkeypatch, printed):
    """Draw reports; returns the numbers shown."""
    monkeypatch.chdir(tmp_path)

    def draw(kind, *more, **reports):
        for name, content in reports.items():
            store.save_dataset(f"{name}.zarr.zip", content)
        printed("plot", *(f"{name}.zarr.zip" for name in reports), kind, *more)
        stem = "-".join([*reports, kind])
        assert {path.suffix for path in tmp_path.glob(f"{stem}.*")} == ENDINGS
        return (tmp_path / f"{stem}.csv").read_text()

    return draw


def csv_of(kind, reports):
    return template.frame_of(kind, reports).to_csv(index=False, float_format="%.7g")


def test_reports_are_drawn_beside_each_other(drawn):
    options = {"families": "spectrum", "largest": 4, **LOSS}
    reports = {}
    for name in ("before", "after"):
        torch.manual_seed(len(name))
        reports[name] = flatlab.measure(torch.nn.Linear(4, 3), X, CLASSES, **options)
    assert drawn("spectrum", **reports) == csv_of("spectrum", reports)


def test_landscapes_and_barriers_are_drawn_from_files(drawn):
    networks = [torch.nn.Linear(4, 3) for _ in range(3)]
    plane = flatlab.landscape(networks[0], X, CLASSES, along=networks[1:], points=5, **LOSS)
    assert drawn("landscape", plane=plane) == csv_of("landscape", {"plane": plane})
    drawn("barriers", pairs=flatlab.barriers(networks, X, CLASSES, points=5, **LOSS))


@pytest.mark.first(1)
@pytest.mark.parametrize("names", [[], ["loss"]])
def test_a_run_is_drawn(names, tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    tracker = flatlab.Tracker(
        *(torch.nn.Linear(4, 3), X, CLASSES),
        every=1,
        families="hessian",
        path="run.zarr.zip",
        **LOSS,
    )
    tracker(0)
    tracker(1)
    printed("plot", "run.zarr.zip", "run", *names, "--out", "shown.csv")
    head, *rows = (tmp_path / "shown.csv").read_text().splitlines()
    assert head == "report,quantity,units,step,value"
    assert {line.split(",")[1] for line in rows} >= {"loss"}
    assert len(rows) == 2 or not names
