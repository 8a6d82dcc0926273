"""Metric files that were restored or copied belong to the table that they are joined into."""

from pathlib import Path

import pytest

from flatlab import plan, store
from flatlab.execution.data_origin import check_data

GRID = {"network": "lenet5", "data": "cifar10"}


def metric_file(folder: Path, measured_on: str) -> str:
    path = folder / "lr0.1-s0-4.zarr.zip"
    store.save_json(plan.record_of(path), {"settings": {"data": {"set": measured_on}}})
    return str(path)


def test_files_of_other_data_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = metric_file(tmp_path, "cifar10-jpeg")
    with pytest.raises(store.StoreError, match=r"on cifar10-jpeg.* \{cifar10: cifar10-jpeg\}"):
        check_data([path], GRID)


def test_files_of_the_same_data_or_without_a_record_are_taken(tmp_path: Path) -> None:
    check_data([metric_file(tmp_path, "cifar10")], GRID)
    check_data([metric_file(tmp_path, "cifar10")], GRID | {"data": "digits and cifar10"})
    check_data([str(tmp_path / "from-elsewhere.zarr.zip")], GRID)


def test_zoos_and_simulations_have_no_such_records(tmp_path: Path) -> None:
    check_data([metric_file(tmp_path, "cifar10")], {"name": "small-vit", "data": "digits"})
