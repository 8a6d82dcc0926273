"""`flatlab rank`: reports side by side."""

import csv

import pytest
import xarray as xr

from flatlab.cli import main
from flatlab.core import store


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
def three(tmp_path):
    return [
        report(tmp_path / f"{name}.zarr.zip", value, mls)
        for name, value, mls in (("a", 3.0, 1.0), ("b", 1.0, 1.0), ("c", 2.0, float("nan")))
    ]


def lines(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines() if line]


def test_networks_stand_side_by_side_with_their_ranks(three, capsys):
    assert main(["rank", *three]) == 0
    head, *rows = lines(capsys)
    assert head == ["quantity", "(rank)", "a", "b", "c"]
    assert rows == [
        ["mls", "1", "(1.5)", "1", "(1.5)", "nan", "(nan)"],
        ["sharpness", "3", "(3)", "1", "(1)", "2", "(2)"],
    ]


def test_they_are_ordered_by_a_quantity_and_kept_as_a_table(three, capsys, tmp_path):
    out = tmp_path / "ranks.csv"
    assert (
        main(["rank", *three, "--by", "sharpness", "--quantity", "sharpness", "--out", str(out)])
        == 0
    )
    assert lines(capsys)[0] == ["quantity", "(rank)", "b", "c", "a"]
    rows = list(csv.DictReader(out.read_text().splitlines()))
    found = [(row["network"], float(row["value"]), float(row["rank"])) for row in rows]
    assert found == [("b", 1.0, 1.0), ("c", 2.0, 2.0), ("a", 3.0, 3.0)]


def test_reports_of_the_same_name_are_told_apart_by_their_folders(tmp_path, capsys):
    paths = [report(tmp_path / folder / "one.zarr.zip", 1.0) for folder in ("x", "y")]
    assert main(["rank", *paths]) == 0
    assert lines(capsys)[0] == ["quantity", "(rank)", "x/one", "y/one"]


def test_it_says_why_numbers_may_not_be_comparable(tmp_path, capsys):
    one = report(tmp_path / "one.zarr.zip", 1.0)
    two = report(tmp_path / "two.zarr.zip", 1.0, samples=7, loss="cross-entropy")
    assert main(["rank", one, two]) == 0
    printed = capsys.readouterr().out
    assert "not the same loss: one half-mse, two cross-entropy" in printed
    assert "not as many samples: one 5, two 7" in printed
    assert "not the same data" not in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "sharpnes"], "no report has 'sharpnes'; did you mean 'sharpness'"),
        (["--quantity", "norm_per_sample"], "no report has 'norm_per_sample'"),
        (["b.zarr.zip"], "b.zarr.zip does not exist"),
    ],
)
def test_what_is_not_there_is_one_sentence(three, options, message, capsys):
    assert main(["rank", *three, *options]) == 1
    assert message in capsys.readouterr().err


def test_the_table_of_an_experiment_is_no_report(three, tmp_path, capsys):
    table = xr.Dataset({"mls": ("run", [1.0, 2.0])})
    store.save_dataset(path := tmp_path / "grid.zarr.zip", table)
    assert main(["rank", three[0], str(path)]) == 1
    assert "grid.zarr.zip is the table of an experiment" in capsys.readouterr().err


def test_one_report_cannot_be_ranked(three, capsys):
    assert main(["rank", three[0]]) == 1
    assert "at least two reports" in capsys.readouterr().err
    assert main(["rank", three[0], three[0]]) == 1
    assert "one is given twice" in capsys.readouterr().err
