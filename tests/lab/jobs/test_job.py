"""A job leaves its output, a log and a record; one that fails says a sentence."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from flatlab.core import store
from flatlab.lab.jobs.job import job as run_job


def fake_snakemake(folder: Path) -> SimpleNamespace:
    class Named(list):
        def __getattr__(self, name: str) -> str:
            return self[0]

        def get(self, name: str) -> None:
            return None

        def items(self) -> list:
            return []

    return SimpleNamespace(
        input=Named(),
        output=Named([str(folder / "out" / "a.json")]),
        params=Named(),
        wildcards=Named(),
        config={},
        resources=SimpleNamespace(gpu=0),
        log=[str(folder / "logs" / "a.log")],
        rule="draw",
    )


def test_a_job_leaves_its_output_a_log_and_its_provenance(tmp_path: Path) -> None:
    with run_job(fake_snakemake(tmp_path)) as job:
        print("progress", file=sys.stderr)
        job.save({"a": 1})
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "a.json",
        "a.json.provenance.json",
    ]
    assert (tmp_path / "logs" / "a.log").read_text() == "progress\n"
    about = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert about["threads"] == 1
    assert {"host", "runtime_s", "versions", "code", "started"} <= set(about)


def test_a_job_collects_no_garbage_but_what_follows_does(tmp_path: Path) -> None:
    with run_job(fake_snakemake(tmp_path)) as job:
        assert not gc.isenabled()
        job.save({})
    assert gc.isenabled()
    with pytest.raises(SystemExit), run_job(fake_snakemake(tmp_path)):
        raise store.StoreError("the table is damaged")
    assert gc.isenabled()


def test_a_record_has_the_hashes_of_what_was_read_as_it_was_when_the_job_began(
    tmp_path: Path,
) -> None:
    table, other, gone = (str(tmp_path / name) for name in ("a.zarr.zip", "b.json", "c.zarr.zip"))
    weights = str(tmp_path / "w.safetensors")
    store.save_weights(weights, {"w": np.ones(2)})
    store.save_dataset(table, xr.Dataset({"x": ("run", np.arange(4.0))}))
    store.save_json(other, {})
    about, before = fake_snakemake(tmp_path), store.hash_of(table)
    about.input += [table, other, gone, weights]
    with run_job(about) as job:
        store.save_dataset(table, xr.Dataset({"x": 1.0}))
        job.save({})
    record = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert record["inputs"] == {table: before, gone: "", weights: store.hash_of(weights)}
    assert store.hash_of(table) not in ("", before)


def test_a_job_that_fails_says_one_sentence_and_logs_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit), run_job(fake_snakemake(tmp_path)):
        raise store.StoreError("the table is damaged")
    assert capsys.readouterr().err.strip().splitlines() == [
        "flatlab draw: the table is damaged",
        f"log: {tmp_path / 'logs' / 'a.log'}",
    ]
    assert "Traceback" in (tmp_path / "logs" / "a.log").read_text()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_refused_job_leaves_the_first_ones_log_alone(tmp_path: Path) -> None:
    with run_job(fake_snakemake(tmp_path)) as job:
        print("first", file=sys.stderr, flush=True)
        with pytest.raises(SystemExit), run_job(fake_snakemake(tmp_path)):
            pass
        job.save(1)
    assert (tmp_path / "logs" / "a.log").read_text().startswith("first\n")  # not made anew
