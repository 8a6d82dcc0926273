"""What another folder or a run without Snakemake has computed is the same, and is taken."""

import os
import shutil
import time

import pytest

from flatlab.core import contents
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


def measured(key):
    """The first measurement of an experiment at the paper's scale."""

    def planned(chosen):
        experiment = chosen.experiment(key, "paper")
        pack, family = next(iter(experiment.packs)), experiment.families[0]
        return chosen.with_content(experiment.measuring(pack, family))

    return planned


@pytest.mark.parametrize(
    ("file", "planned"),
    [
        ("cats/1.png", lambda chosen: chosen.preparing("image-folder")),
        ("cifar10-jpeg/train.tar.xz", lambda chosen: chosen.preparing("cifar10-jpeg")),
        ("timm/a_vit_b.safetensors", measured("vision-zoo")),
        ("imagenet/cats/1.jpg", measured("vision-zoo")),
        ("model-soups/model_1.pt", measured("released-clip-zoo")),
        ("objectnet/cats/1.png", measured("released-clip-zoo")),
        ("CIFAR-10-C/fog.npy", measured("recipes-grid")),
    ],
)
def test_what_lies_in_the_data_folder_is_known_by_its_content(tmp_path, monkeypatch, file, planned):
    """Whatever dates and sizes are; of very many files by names, sizes and dates."""
    monkeypatch.setattr(contents, "RECENT", -1)  # hashes are kept at once
    chosen, path = plan.Plan({"data_folder": str(tmp_path)}), tmp_path / file
    codes, other = [planned(chosen).code], chosen.preparing("digits").code
    path.parent.mkdir(parents=True)
    for content in (b"one", b"two"):
        path.write_bytes(content)
        os.utime(path, (0, 0))
        codes.append(planned(chosen).code)
        time.sleep(0.02)  # the system's clock ticks
    monkeypatch.setattr(contents, "MANY", 0)
    codes.append(planned(chosen).code)
    os.utime(path, (0, 1))
    codes.append(planned(chosen).code)
    assert len({*codes}) == len(codes)
    assert chosen.preparing("digits").code == other


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


def test_what_lies_elsewhere_is_known_by_its_content_too(tmp_path):
    there = tmp_path / "{images}"
    there.write_bytes(b"one")
    assert contents.content_within(tmp_path / "data", [str(there)])
