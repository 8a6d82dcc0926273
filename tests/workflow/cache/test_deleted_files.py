"""What is deleted comes back when it is asked for, and only then."""

import pytest

pytestmark = pytest.mark.workflow


def test_a_deleted_file_comes_back_when_it_is_named(lab):
    """A file that the target names is rebuilt, with the files that the same job makes.

    Snakemake does not miss a metric file whose table is there. Nothing is wrong then: the table
    holds what the file held, and the same rule lets metric files from another machine be adopted
    without their weights.
    """
    before = lab.results()
    figure, metrics = f"{lab.FIGURE}.pdf", lab.metrics("geometry", lab.PACKS[0])
    (lab / figure).unlink()
    (lab / metrics).unlink()
    target = "chen2026_figH8"
    assert lab.snakemake("--cores", "1", target).jobs == sorted(["draw figH8", target])
    assert not (lab / metrics).exists()
    lab.has_nothing_to_do()
    run = lab.snakemake("--cores", "1", metrics)
    assert run.jobs == [f"measure geometry {lab.PACKS[0]}"]
    assert lab.results() == before
    lab.has_nothing_to_do()
