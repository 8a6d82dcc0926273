"""The page docs/adding.md: each of its examples is carried out, and what it adds is built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flatlab.core import store

pytestmark = pytest.mark.workflow
PAGE = Path(__file__).resolve().parents[3] / "docs/adding.md"
ROOT = PAGE.parents[1]
EXAMPLE = re.compile(
    r"^[^\n]*`([^`\n]+\.(?:py|yaml))`:\n\n```(?:python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PACKS = ("lr0.1-b10-s0-3", "lr0.1-b20-s0-3", "lr0.2-b20-s0-3")
FAMILIES = "accuracy+geometry+weight-norms"


def examples() -> list[tuple[str, str]]:
    """The file and the content of each example."""
    text = PAGE.read_text()
    found = [match.groups() for match in EXAMPLE.finditer(text)]
    assert len(found) == text.count("```python") + text.count("```yaml")
    return found


def carry_out(folder: Path) -> list[str]:
    """Writes the files; returns their names."""
    for path, content in examples():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        assert not file.exists(), f"{path} is there already"
        file.write_text(content)
    return [path for path, _ in examples()]


def test_every_example_of_the_page_is_carried_out_and_built(fresh):
    carry_out(fresh.folder)
    run = fresh.snakemake("--cores", "2", "doe2027")
    assert run.jobs == sorted(
        [
            "prepare halves",
            *(f"train halves-grid {pack}" for pack in PACKS),
            *(f"measure halves-grid {FAMILIES} {pack}" for pack in PACKS),
            *("table halves-grid", "correlate halves-grid"),
            *(f"{rule} fig{number}" for rule in ("draw", "verify") for number in (1, 2)),
            "doe2027",
        ]
    )
    table = store.load_dataset(fresh / "results/demo/tables/halves-grid.zarr.zip")
    assert table.sizes["run"] == 12
    assert (table["parameters_norm_1"] > table["parameters_norm_2"]).all()
    assert float(table["test_accuracy"].isel(checkpoint=-1).mean()) > 90
    for ending in ("pdf", "svg", "png", "csv"):
        for figure in ("fig1", "fig2"):
            assert (fresh / f"results/demo/figures/doe2027/{figure}.{ending}").stat().st_size
    verdicts = json.loads((fresh / "results/demo/verdicts/doe2027/fig1.json").read_text())
    (claim,) = verdicts["claims"]
    assert claim["id"] == "doe2027_fig1/c1"
    assert claim["verdict"] in ("holds", "undecided")
    missing = fresh.snakemake("--dry-run", "doe2027_fig3", succeeds=False).output
    assert "it needs a data set that is not public" in missing


def test_nothing_else_in_the_package_names_what_was_added():
    """All of it is found by its place: the examples touch no other file."""
    paths = {path for path, _ in examples()}
    assert all(path.startswith("papers/doe2027/") for path in paths)


@pytest.mark.long
def test_the_examples_pass_the_checks_of_the_project(fresh):
    modules = [path for path in carry_out(fresh.folder) if path.endswith(".py")]
    shutil.copy(ROOT / "pyproject.toml", fresh.folder)
    cache = f"--cache-dir={ROOT / '.mypy_cache'}"
    for check in (["ruff", "format", "--check"], ["ruff", "check"], ["mypy", cache]):
        command = [sys.executable, "-m", *check, *modules]
        done = subprocess.run(command, cwd=fresh.folder, capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr
