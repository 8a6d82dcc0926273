"""Tables of runs as people have them."""

from pathlib import Path

import pytest

from flatlab.core.run_records import read_records
from flatlab.core.schema import PlanError
from tests.refusals import refusal

FILES = ["lr0.1.pt", "007.pth.tar", "1e3.safetensors"]
LINES = "lr0.1,0.5,64.0,1|007,1.5,64.0,|1e3,2.5,64.0,3"


def records(name, text, files=FILES, **options):
    path = Path(name)
    path.write_bytes(text.encode("utf-8-sig"))
    return read_records([Path("checkpoints", file) for file in files], path, **options)


def table(lines=LINES, separator=",", decimal="."):
    """decimal: the mark in all numbers, but not in names of files."""
    rows = [row.split(",") for row in ("file,lr,width,test_error", *lines.split("|"), "other,1,,")]
    cells = [(name, *(cell.replace(".", decimal) for cell in rest)) for name, *rest in rows]
    return "\n".join(separator.join(row) for row in cells)


INDEXED = "\n".join(f"{n},{row}" for n, row in enumerate(table().split("\n")))
SAME = {
    "names without ending": table(),
    "another ending": table(LINES.replace("007", "007.ckpt")),
    "other folders": table(LINES.replace("007", "/data/old/007.pth.tar")),
    "semicolons and decimal commas": table(separator=";", decimal=","),
    "tabs": table(separator="\t"),
    "blanks": table(separator=" , "),
    "index of pandas": INDEXED.replace("0,file", ",file"),
}


@pytest.mark.parametrize("kind", SAME)
def test_a_table_of_runs_is_read_as_it_is_meant(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = records("runs.csv", SAME[kind])
    assert [each["lr"] for each in found.hyperparameters] == [0.5, 1.5, 2.5]
    widths = [each["width"] for each in found.hyperparameters]
    assert widths == [64] * 3  # with a gap in another row, which makes 64.0 of it
    assert all(isinstance(width, int) for width in widths)
    assert [str(each["test_error"]) for each in found.outcomes] == ["1.0", "nan", "3.0"]
    assert found.names == ["lr0.1", "007", "1e3"]
    assert [*found.hyperparameters[0]] == ["lr", "width"]


def test_a_name_that_is_only_like_that_of_a_file_is_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = refusal(PlanError, records, "runs.csv", table("lr0.1,1,2,3"), ["lr0.pt"])
    assert "no row for checkpoints/lr0.pt" in words
