"""The page docs/studies.md: its commands are carried out, one after the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flatlab.core import store
from tests.workflow.lab import LEAKING, ROOT

pytestmark = pytest.mark.workflow
PAGE = ROOT / "docs/studies.md"
BLOCKS = re.compile(r"(?:`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Files of the page behind their names, and commands."""


def carry_out(folder: Path, line: str) -> str:
    """What a command prints; it must succeed."""
    program, _, rest = line.partition(" ")
    ours = {"flatlab": f"{sys.executable} -m flatlab", "python": sys.executable}
    command = f"{ours[program]} {rest}" if program in ours else line
    others = {k: v for k, v in os.environ.items() if not k.startswith(LEAKING)}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**others, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


@pytest.mark.long
def test_every_command_of_the_page_is_carried_out(tmp_path):
    folder, printed, tables = tmp_path, [], []
    for name, language, block in BLOCKS.findall(PAGE.read_text()):
        if name:
            (folder / name).write_text(block)
        for line in block.splitlines() if language == "sh" else []:
            if line.startswith("cd "):
                folder = folder / line.removeprefix("cd ")
            else:
                printed.append((line, carry_out(folder, line)))
    builds = [text for line, text in printed if line == "flatlab build"]
    assert "rule train" in builds[0]
    drawn = re.findall(r"^(?:local)?rule (\w+):", builds[1], re.MULTILINE)
    assert sorted({*drawn} - {"score", "study", "verify"}) == ["draw"]
    assert drawn.count("draw") == 1
    for kind, rules in (("files", {"measure"}), ("loop", {"train_one", "measure"})):
        (text,) = (
            text
            for line, text in printed
            if line.endswith(f"mystudy-{kind}.zarr.zip") and "build" in line
        )
        started = re.findall(r"^(?:local)?rule (\w+):", text, re.MULTILINE)
        assert {*started} == rules | {"table"}
        assert started.count("measure") == 4
        own = store.load_dataset(folder / f"results/demo/tables/mystudy-{kind}.zarr.zip")
        assert own["my_test_error"].notnull().all()
        assert own.sizes["run"] == 4
        tables.append(own)
    for name in ("sharpness", "hessian_lambda_max", "my_test_error"):
        ours, theirs = (table[name].values for table in tables)
        assert ours == pytest.approx(theirs, rel=1e-4)  # the script has as many threads as it likes
    for figure in ("fig1", "fig2"):
        for ending in ("png", "pdf", "svg", "csv"):
            assert (folder / f"results/demo/figures/mystudy/{figure}.{ending}").is_file()
    verdicts = json.loads((folder / "results/demo/verdicts/mystudy/fig1.json").read_text())
    assert verdicts["claims"][0]["verdict"] in ("holds", "fails", "undecided")
    table = folder / "results/demo/tables/mystudy-grid.zarr.zip"
    made = json.loads(Path(f"{table}.provenance.json").read_text())
    assert made["flatlab"]["version"]
    assert made["flatlab"]["installed"]
    assert len((folder / "README.md").read_text().splitlines()) <= 12
