"""A job leaves its output, a log and a record; one that fails says a sentence.

Each GPU job of a machine has a GPU of its own; the devices are names, which is all we handle.
"""

import gc
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from flatlab.core import store
from flatlab.lab.jobs.job import job as run_job
from flatlab.lab.jobs.job import running
from flatlab.lab.jobs.memory import visible_gpus
from flatlab.lab.jobs.standalone import Named


def fake_snakemake(folder, **more):
    """What Snakemake passes to a job that draws."""
    about = {"input": Named(), "params": Named(), "wildcards": Named(), "config": {}, **more}
    return SimpleNamespace(
        output=Named(drawn=str(folder / "out" / "a.json")),
        resources=SimpleNamespace(gpu=1),
        log=[str(folder / "logs" / "a.log")],
        rule="draw",
        **about,
    )


def test_a_job_leaves_its_output_a_log_and_its_provenance(tmp_path):
    with run_job(fake_snakemake(tmp_path)) as job:
        print("progress", file=sys.stderr)
        job.save({"a": 1})
        assert not gc.isenabled()  # a job collects no garbage, but what follows does
    assert gc.isenabled()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "a.json",
        "a.json.provenance.json",
    ]
    assert (tmp_path / "logs" / "a.log").read_text() == "progress\n"
    about = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert about["threads"] == 1
    assert {"host", "runtime_s", "versions", "code", "started"} <= set(about)
    assert about["processor_s"] > 0
    assert about["resumed"] is False


def test_a_record_has_the_hashes_of_what_was_read_as_it_was_when_the_job_began(tmp_path):
    table, other, gone = (str(tmp_path / name) for name in ("a.zarr.zip", "b.json", "c.zarr.zip"))
    weights = str(tmp_path / "w.safetensors")
    store.save_weights(weights, {"w": np.ones(2)})
    store.save_dataset(table, xr.Dataset({"x": ("run", np.arange(4.0))}))
    store.save_json(other, {})
    read = Named(dict(zip("abcd", (table, other, gone, weights), strict=True)))
    about, before = fake_snakemake(tmp_path, input=read), store.hash_of(table)
    with run_job(about) as job:
        store.save_dataset(table, xr.Dataset({"x": 1.0}))
        job.save({})
    record = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert record["inputs"] == {table: before, gone: "", weights: store.hash_of(weights)}
    assert store.hash_of(table) not in ("", before)


def test_a_job_that_fails_says_one_sentence_and_logs_the_rest(tmp_path, capsys):
    with pytest.raises(SystemExit), run_job(fake_snakemake(tmp_path)):
        raise store.StoreError("the table is damaged")
    assert gc.isenabled()
    assert capsys.readouterr().err.strip().splitlines() == [
        "flatlab draw: the table is damaged",
        f"log: {tmp_path / 'logs' / 'a.log'}",
    ]
    assert "Traceback" in (tmp_path / "logs" / "a.log").read_text()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_refused_job_leaves_the_first_ones_log_alone(tmp_path):
    with run_job(fake_snakemake(tmp_path)) as job:
        print("first", file=sys.stderr, flush=True)
        with pytest.raises(SystemExit), run_job(fake_snakemake(tmp_path)):
            pass
        job.save(1)
    assert (tmp_path / "logs" / "a.log").read_text().startswith("first\n")  # not made anew


JOB = """
import os, sys
from flatlab.lab.jobs.memory import take_gpu
take_gpu()
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def on_a_gpu(tmp_path):
    """Start a process that takes a GPU, prints which, and holds it until it reads a line."""
    started = []

    def start(visible):
        process = subprocess.Popen(
            [sys.executable, "-c", JOB],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_each_job_has_its_own_and_one_too_many_waits(on_a_gpu):
    visible = "3,5,GPU-8f2a/1"
    first, second, third = (on_a_gpu(visible) for _ in range(3))
    taken = [process.stdout.readline().strip() for process in (first, second, third)]
    assert sorted(taken) == ["3", "5", "GPU-8f2a/1"]
    fourth = on_a_gpu(visible)
    assert "all of 3 GPUs are taken" in fourth.stderr.readline()
    second.send_signal(signal.SIGKILL)  # which leaves no time to tidy up
    assert fourth.stdout.readline().strip() == taken[1]


def test_where_one_is_visible_there_is_nothing_to_choose(on_a_gpu):
    """A cluster shows each job its own, by a number that may be the same for all."""
    assert [on_a_gpu("0").stdout.readline().strip() for _ in range(3)] == ["0", "0", "0"]


def test_all_tasks_of_a_process_use_the_gpu_on_which_cuda_has_started(
    on_a_gpu, monkeypatch, tmp_path
):
    """As `flatlab run` does, which trains and then measures; no other job has it meanwhile."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 2, 3")
    for _ in range(2):
        with running(fake_snakemake(tmp_path, config={"device": "cuda"})):
            assert visible_gpus() == ["1"]
    others = [on_a_gpu("1, 2, 3").stdout.readline().strip() for _ in range(2)]
    assert sorted(others) == ["2", "3"]
    with running(fake_snakemake(tmp_path, config={"device": "cuda"})):
        assert visible_gpus() == ["1"]


@pytest.mark.parametrize(("device", "shown"), [("cuda", ["0"]), ("cpu", ["0", "1"])])
def test_jobs_that_compute_on_gpus_take_one(device, shown, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with running(fake_snakemake(tmp_path, config={"device": device})) as this:
        assert this.device == device
        assert visible_gpus() == shown


def test_a_job_that_has_lost_its_lock_writes_nothing(tmp_path):
    output = tmp_path / "out" / "a.json"
    with running(fake_snakemake(tmp_path)) as this:
        lock = output.with_name("a.json.lock")
        lock.write_text(lock.read_text().replace("pid=", "pid=1"))
        with pytest.raises(store.StoreError, match="lock was lost"):
            this.save({})
    assert not output.exists()


def test_jobs_that_are_done_together_record_an_equal_part_of_the_time(tmp_path):
    with running(fake_snakemake(tmp_path), together=4) as this:
        start = time.process_time()
        while time.process_time() - start < 0.2:
            pass
        this.save({})
    about = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert 0.05 <= about["processor_s"] < 0.15
    assert about["runtime_s"] >= 0.05
