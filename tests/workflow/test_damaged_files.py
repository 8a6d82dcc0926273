"""A damaged file is an error that names it and the command that helps, never a figure.

The damage keeps size and date, so that nothing but the content can show it.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.workflow


def fails_and_heals(lab, path, reader, *targets):
    """Damage a file, make its reader run, do what the error says: all is as it was."""
    before = lab.results()
    lab.damage(path)
    failed = lab.snakemake("--cores", "2", *reader, succeeds=False)
    assert f"{path} is damaged" in failed.output
    figures = {name: content for name, content in lab.results().items() if "/figures/" in name}
    assert figures.items() <= before.items(), "a figure was drawn from damage"
    lab.snakemake(*failed.remedy)
    lab.snakemake("--cores", "2", "all", *targets)
    assert lab.results() == before


def test_a_damaged_table_is_not_drawn(lab):
    fails_and_heals(lab, lab.TABLE, ["--forcerun", "draw"])


def test_a_damaged_metric_file_is_not_put_into_a_table(lab):
    fails_and_heals(lab, lab.metrics("geometry", lab.PACKS[0]), ["--forcerun", "table"])


def test_damaged_weights_are_not_measured(lab):
    """The file that was to be measured again is gone, and made again when it is named."""
    metrics = lab.metrics("accuracy", lab.PACKS[0])
    fails_and_heals(lab, lab.weights(lab.PACKS[0]), ["--force", metrics], metrics)
