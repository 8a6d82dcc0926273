"""Results do not depend on the run that makes them; folders share them through Snakemake's cache."""

from __future__ import annotations

import pytest

from flatlab import plan

pytestmark = pytest.mark.workflow


def test_another_run_gives_the_same_bytes_and_a_second_folder_takes_them(
    fresh, sources, request, tmp_path
):
    """The other run is on one core, with a cache; the second folder takes from there."""
    cache = tmp_path / "cache"
    cache.mkdir()
    place = {"SNAKEMAKE_OUTPUT_CACHE": str(cache)}
    run = fresh.finish(fresh.start("--cores", "1", "--cache", **place))
    assert run.jobs == sorted(["prepare digits", *fresh.jobs_from_training(*fresh.PACKS)])
    completed = request.getfixturevalue("completed")  # now, so that both can be made at once
    assert fresh.results() == completed.results()
    second = sources.copy(tmp_path / "second")
    targets = [second.metrics(family, second.PACKS[0]) for family in second.FAMILIES]
    second.finish(second.start("--cores", "2", "--cache", *targets, **place))
    for path in (second.weights(second.PACKS[0]), *targets):
        assert (second / path).resolve() == (fresh / path).resolve()
        assert (second / path).resolve().parent == cache
    second.has_nothing_to_do(*targets)


def test_images_of_ones_own_are_not_shared(sources, monkeypatch):
    """Their name says nothing of what they are: the same settings, and other results."""
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", "/somewhere")
    for own, fixed in (({}, True), ({"digits": "image-folder"}, False)):
        assert plan.Plan({"stand_ins": own}, sources / "experiments").shares_results == fixed
