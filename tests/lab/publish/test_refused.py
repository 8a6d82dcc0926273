"""What cannot be published, kept or restored is refused in sentences, and nothing changes."""

import shutil
from pathlib import Path

import pytest
import xarray as xr
import yaml

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish import publish as publishing
from flatlab.lab.publish.publish import BUDGET_BYTES, publish
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    PUBLISHED,
    TARGETS,
    changed_since,
    chosen,
    draw,
    draw_anew,
    files,
    make_table,
)

CASES = Path(__file__).with_name("refused.yaml").read_text()
REFUSED = yaml.safe_load(CASES.replace("REDRAWN/", "results/redrawn/demo/"))


def remove(path):
    shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink()


def record(path, key):
    """Let the record of a file name other code or settings."""
    about = plan.record_of(path)
    store.save_json(about, store.load_json(about) | {key: "other"})


def damage(path):
    content = bytearray(Path(path).read_bytes())
    content[100] ^= 1
    Path(path).write_bytes(content)


STEPS = {
    "rm": remove,
    "make_table": make_table,
    "publish_table": lambda key: make_table(key, place=PUBLISHED),
    "draw_anew": lambda: draw_anew(*TARGETS),
    "correlate": lambda path: store.save_dataset(path, xr.Dataset({"rho": 0.6})),
    "record": record,
    "damage": damage,
    "keep": lambda: main(["keep", "mlp-grid"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_what_to_do(name, published, capsys):
    case = REFUSED[name]
    for step, *arguments in map(str.split, case.get("after", [])):
        STEPS[step](*arguments)
    before = files("results")
    capsys.readouterr()
    assert main(case["call"].split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert error.count("\n") == len(case["says"])
    for part in (part for sentence in case["says"] for part in sentence.split(" … ")):
        assert part in error
    assert files("results") == before


def test_what_is_too_much_is_refused_with_the_largest_parts(published, monkeypatch, capsys):
    assert BUDGET_BYTES == 45e6
    store.replace("results/published/paper/metrics/mlp-grid/geometry/a", bytes(50_000))
    monkeypatch.setattr(publishing, "BUDGET_BYTES", sum(map(len, files().values())))
    publish(chosen())  # replaces as much as it brings
    draw("chen2026_figH8", content=bytes(10_000))
    before = files()
    for command in (["publish", "chen2026_figH8"], ["keep", "mlp-grid"]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "more than the 0 MB that a repository should carry" in error
        assert "largest are paper/metrics/mlp-grid 0.1 MB, demo/" in error
        assert not changed_since(before)


@pytest.mark.parametrize("number", [0, 3, 12])
def test_a_full_disk_leaves_all_as_it_was(number, published, monkeypatch):
    make_table(*EXPERIMENTS)
    draw(*TARGETS, content=b"anew")
    before, calls, replace = files(), [], store.replace

    def full(path, content):
        calls.append(path)
        if len(calls) > number:
            raise store.StoreError("the disk is full")
        replace(path, content)

    monkeypatch.setattr(store, "replace", full)
    with pytest.raises(store.StoreError, match="disk is full"):
        publish(chosen())
    assert not changed_since(before)
