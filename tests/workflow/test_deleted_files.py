"""What is deleted comes back when it is asked for, and only then."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.workflow


def test_a_deleted_figure_is_drawn_again(lab):
    """A file that the target names is rebuilt, with the files that the same job makes."""
    before = lab.results()
    (lab / f"{lab.FIGURE}.pdf").unlink()
    lab.runs_exactly("draw figH8", "chen2026_figH8", targets=("chen2026_figH8",))
    assert lab.results() == before


def test_a_deleted_intermediate_comes_back_when_it_is_named(lab):
    """Under a present table Snakemake does not miss a metric file, and neither do we.

    The table holds what the file held and checks it by its hash, so that nothing is wrong; the
    same rule lets metric files from another machine be adopted without their weights.
    """
    before = lab.results()
    metrics = lab.metrics("geometry", lab.PACKS[0])
    (lab / metrics).unlink()
    lab.runs_exactly()
    assert not (lab / metrics).exists()
    lab.runs_exactly(f"measure geometry {lab.PACKS[0]}", targets=(metrics,))
    assert lab.results() == before
    lab.has_nothing_to_do()
