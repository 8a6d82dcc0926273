"""What another folder or a run without Snakemake has computed is the same, and is taken."""

import os
import shutil

import pytest

from flatlab.lab import plan

pytestmark = pytest.mark.workflow


@pytest.mark.more
def test_a_second_folder_takes_what_the_first_has_computed(fresh, sources, completed, tmp_path):
    """The first computes on one core what the completed laboratory computed on two: the same."""
    cache = tmp_path / "cache"
    cache.mkdir()
    measured = [fresh.metrics("accuracy", pack) for pack in fresh.PACKS]
    made = [*map(fresh.weights, fresh.PACKS), *measured]
    arguments = (*measured, "--cores", "1", "--cache")  # what follows --cache are rules
    place = {"SNAKEMAKE_OUTPUT_CACHE": str(cache)}
    second = sources.copy(tmp_path / "second")
    order = fresh.finish(fresh.start(*arguments, **place)).order
    # A pack is measured before the next one is trained: what an interruption leaves can be used.
    assert [job.split()[0] for job in order] == ["prepare", *["train", "measure"] * 2]
    second.finish(second.start(*arguments, **place))
    expected = completed.results()
    for path in made:
        assert (second / path).resolve() == (fresh / path).resolve()
        assert (second / path).resolve().parent == cache
        assert (second / path).read_bytes() == expected[path]
    second.has_nothing_to_do(*made)


def test_images_of_ones_own_are_not_shared(monkeypatch):
    """Their name says nothing of what they are: the same settings, and other results."""
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", "/somewhere")
    for own, fixed in (({}, True), ({"digits": "image-folder"}, False)):
        assert plan.Plan({"stand_ins": own}).shares_results == fixed


def test_images_of_ones_own_are_known_by_their_content(monkeypatch, tmp_path):
    """Whatever their dates and sizes are: another image makes the data set again."""
    image = tmp_path / "own" / "cats" / "1.png"
    image.parent.mkdir(parents=True)
    codes, planned = [], plan.Plan({"data_folder": str(image.parent.parent)})
    for content in (b"one", b"two"):
        image.write_bytes(content)
        os.utime(image, (0, 0))
        codes.append([planned.code_of_data(name) for name in ("image-folder", "digits")])
    (first, digits), (second, same) = codes
    assert first != second
    assert digits == same


@pytest.mark.more
def test_files_made_without_the_workflow_are_the_same_and_are_adopted(fresh, completed):
    run = fresh.finish(fresh.start("run", "mlp-grid", program="flatlab"))
    for pack in fresh.PACKS:
        for family in fresh.FAMILIES:
            assert fresh.metrics(family, pack) in run.output
    made, theirs = fresh.results(), completed.results()
    assert made == {name: theirs[name] for name in made}
    assert fresh.weights(fresh.PACKS[0]) in made
    # At home the metric files are enough: tables and figures are made from them.
    shutil.rmtree(fresh / "results/demo/models")
    shutil.rmtree(fresh / "results/demo/data")
    fresh.runs_exactly(*fresh.ANALYSIS)
    ours = fresh.results()
    assert not [name for name in ours if "/models/" in name or "/data/" in name]
    assert ours == {name: theirs[name] for name in ours}
    assert {fresh.TABLE, f"{fresh.FIGURE}.pdf"} <= ours.keys()
