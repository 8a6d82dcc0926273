"""Two folders share what they compute through Snakemake's cache between workflows."""

from __future__ import annotations

import pytest

from flatlab import plan

pytestmark = pytest.mark.workflow


def test_a_second_folder_takes_what_the_first_has_computed(fresh, sources, completed, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    options = ("--cores", "2", "--cache")
    place = {"SNAKEMAKE_OUTPUT_CACHE": str(cache)}
    first = sources.copy(tmp_path / "first")
    first.finish(first.start(*options, *map(first.curves, first.PACKS), **place))
    fresh.finish(fresh.start(*options, **place))
    for path in map(fresh.weights, fresh.PACKS):
        assert (fresh / path).resolve() == (first / path).resolve()
        assert (fresh / path).resolve().parent == cache
    assert fresh.results() == completed.results()
    fresh.has_nothing_to_do()


def test_images_of_ones_own_are_not_shared(sources, monkeypatch):
    """Their name says nothing of what they are: the same settings, and other results."""
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", "/somewhere")
    for own, fixed in (({}, True), ({"digits": "image-folder"}, False)):
        assert plan.Plan({"stand_ins": own}, sources / "experiments").shares_results == fixed
