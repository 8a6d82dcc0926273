"""A damaged file is an error that names it and the command that helps, never a figure.

The damage keeps size and date, so that nothing but the content can show it.
"""

from __future__ import annotations

import pytest

from tests.workflow.lab import Lab

pytestmark = [pytest.mark.workflow, pytest.mark.long]  # of a table: tests/workflow/test_a_day.py

ACCURACY = Lab.metrics("accuracy", Lab.PACKS[0])
DAMAGE = {
    "metrics": (Lab.metrics("geometry", Lab.PACKS[0]), ["--forcerun", "table"]),
    # The file that was to be measured again is gone, and made again when it is named.
    "weights": (Lab.weights(Lab.PACKS[0]), ["--force", ACCURACY], ACCURACY),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named_and_made_again(kind, lab):
    """Damage it, make its reader run, do what the error says: all is as it was."""
    path, reader, *targets = DAMAGE[kind]
    before = lab.results()
    lab.damage(path)
    failed = lab.snakemake("--cores", "2", *reader, succeeds=False)
    assert f"{path} is damaged" in failed.output
    figures = {name: content for name, content in lab.results().items() if "/figures/" in name}
    assert figures.items() <= before.items(), "a figure was drawn from damage"
    lab.snakemake(*failed.remedy)
    lab.snakemake("--cores", "2", "all", *targets)
    assert lab.results() == before
