"""Bodies of jobs: a table asks whether metric files that were restored or copied belong to it."""

import pytest

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.jobs.bodies import check_data, check_hyperparameters, check_weights, of_rule, train

GRID = {"network": "lenet5", "data": "cifar10"}


def metric_file(folder, measured_on, lr=0.1):
    path = folder / "lr0.1-s0-4.zarr.zip"
    settings = {"data": {"set": measured_on}, "hyperparameters": {"lr": lr}}
    store.save_json(plan.record_of(path), {"settings": settings})
    return str(path)


def test_files_of_other_data_are_refused_with_the_remedy(tmp_path):
    """Those of the same data or without a record are taken."""
    other = metric_file(tmp_path / "other", "cifar10-jpeg")
    with pytest.raises(store.StoreError, match=r"on cifar10-jpeg.* \{cifar10: cifar10-jpeg\}"):
        check_data([other], GRID)
    path = metric_file(tmp_path, "cifar10")
    check_data([path, str(tmp_path / "from-elsewhere.zarr.zip")], GRID)
    check_data([path], GRID | {"data": "digits and cifar10"})
    check_data([path], {"name": "zoos say nothing", "data": "digits"})


def test_what_was_accepted_under_another_learning_rate_enters_no_table(tmp_path):
    files, now = [metric_file(tmp_path, "digits", lr=0.2)], {"hyperparameters": {"lr": 0.2}}
    check_hyperparameters(files, {"lr0.1-s0-4": now})
    check_hyperparameters(files, {})  # of a grid, whose packs are called by theirs
    now["hyperparameters"]["lr"] = 0.3
    with pytest.raises(store.StoreError, match=r"'lr': 0.2.* says .*0.3.* today; delete the file"):
        check_hyperparameters(files, {"lr0.1-s0-4": now})


def measured_on(folder, family, pack, **weights):
    path = folder / family / f"{pack}.zarr.zip"
    inputs = {f"models/{pack}.{part}safetensors": digest for part, digest in weights.items()}
    store.save_json(plan.record_of(path), {"inputs": {"data/digits.zarr.zip": "d", **inputs}})
    return str(path)


def test_families_of_a_pack_that_was_trained_twice_are_refused(tmp_path):
    """By its final weights, or by those during training."""
    one = measured_on(tmp_path, "geometry", "lr0.1", **{"": "a", "dense.": "b"})
    for family, others in (("final", {"": "c"}), ("dense", {"": "a", "dense.": "c"})):
        other = measured_on(tmp_path, family, "lr0.1", **others)
        with pytest.raises(store.StoreError, match=f"{one} and {other} were .* different weights"):
            check_weights([one, other])


def test_families_of_the_same_weights_and_files_that_do_not_name_theirs_are_taken(tmp_path):
    paths = [
        measured_on(tmp_path, "geometry", "lr0.1", **{"": "a", "dense.": "b"}),
        measured_on(tmp_path, "accuracy", "lr0.1", **{"": "a"}),
        measured_on(tmp_path, "accuracy", "lr0.2", **{"": "c"}),
        measured_on(tmp_path, "older", "lr0.1"),
        measured_on(tmp_path, "damaged", "lr0.1", **{"": ""}),
        str(tmp_path / "without-a-record" / "lr0.1.zarr.zip"),
    ]
    check_weights(paths)


def test_rules_that_differ_in_their_files_alone_have_one_body():
    assert of_rule("train_large") is of_rule("train_one") is of_rule("train") is train
    assert of_rule("redraw") is of_rule("draw")
