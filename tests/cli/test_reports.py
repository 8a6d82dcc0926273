"""Reports in files: `flatlab rank` puts them side by side, `flatlab plot` draws them."""

import pytest
import torch
import xarray as xr

import flatlab
from flatlab.core import store
from flatlab.lab.figures import reports as template


def report(path, sharpness, mls=1.0, samples=5, **about):
    """A report with two quantities and a standard error, like those of `flatlab measure`."""
    paper = {"units": "1", "source": "chen2026 Eq. 3"}
    values = {
        "sharpness": ((), sharpness, paper),
        "mls": ((), mls, paper),
        "sharpness_error": ((), 0.1, {"units": "1", "source": ""}),
        "norm_per_sample": ("sample", [1.0] * samples, paper),
    }
    attributes = {"data": "digits", "split": "train", "loss": "half-mse", **about}
    store.save_dataset(path, xr.Dataset(values, attrs=attributes))
    return str(path)


@pytest.fixture
def three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = {"a": (3.0, 1.0), "b": (1.0, 1.0), "c": (2.0, float("nan"))}
    return [report(f"{name}.zarr.zip", *values) for name, values in numbers.items()]


def lines(text):
    return [line.split() for line in text.splitlines() if line]


def test_networks_stand_side_by_side_with_their_ranks(three, printed):
    assert lines(printed("rank", *three)) == [
        ["quantity", "(rank)", "a", "b", "c"],
        ["mls", "1", "(1.5)", "1", "(1.5)", "nan", "(nan)"],
        ["sharpness", "3", "(3)", "1", "(1)", "2", "(2)"],
    ]


def test_it_says_why_numbers_may_not_be_comparable(tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    one = report("x/one.zarr.zip", 1.0)
    two = report("y/one.zarr.zip", 1.0, samples=7, loss="cross-entropy")
    text = printed("rank", one, two)
    assert lines(text)[0] == ["quantity", "(rank)", "x/one", "y/one"]
    assert "not the same loss: x/one half-mse, y/one cross-entropy" in text
    assert "not as many samples: x/one 5, y/one 7" in text
    assert "not the same data" not in text


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("rank a nothing", "nothing.zarr.zip does not exist"),
        ("rank a grid", "grid.zarr.zip is the table of an experiment"),
        ("rank a", "at least two reports"),
        ("rank a a", "one is given twice"),
        ("plot a density", "a has no picture density"),
    ],
)
def test_what_is_not_there_is_one_sentence(three, command, sentence, refusal):
    store.save_dataset("grid.zarr.zip", xr.Dataset({"mls": ("run", [1.0, 2.0])}))
    files = {name: f"{name}.zarr.zip" for name in ("a", "b", "grid", "nothing")}
    assert sentence in refusal(*(files.get(word, word) for word in command.split()))


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


def test_reports_are_drawn_beside_each_other(drawn, refusal):
    options = {"families": "spectrum", "largest": 4, **LOSS}
    reports = {}
    for name in ("before", "after"):
        torch.manual_seed(len(name))
        reports[name] = flatlab.measure(torch.nn.Linear(4, 3), X, CLASSES, **options)
    assert drawn("spectrum", **reports) == template.frame_of("spectrum", reports).to_csv(
        index=False
    )
    sentence = "before has no picture density; those it has: spectrum"
    assert sentence in refusal("plot", "before.zarr.zip", "density")


def test_landscapes_and_barriers_are_drawn_from_files(drawn):
    networks = [torch.nn.Linear(4, 3) for _ in range(3)]
    plane = flatlab.landscape(networks[0], X, CLASSES, along=networks[1:], points=5, **LOSS)
    numbers = drawn("landscape", plane=plane)
    assert numbers == template.frame_of("landscape", {"plane": plane}).to_csv(index=False)
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
