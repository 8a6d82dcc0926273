"""Result files: equal content gives equal bytes, and no damage goes unseen."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import save

from flatlab import jobs, store
from flatlab.jobs import lock as guards
from flatlab.jobs.job import job as run_job


def example() -> xr.Dataset:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(4, 3))
    values[1, 1], values[2, 2] = np.nan, np.inf
    return xr.Dataset(
        {
            "mls": (("run", "layer"), values, {"units": "1"}),
            "count": (("run",), np.arange(4)),
            "flag": (("run",), np.array([True, False, True, True])),
        },
        coords={
            "run": store.as_strings(["a", "b", "c", "déjà vu"]),
            "layer": store.as_strings(["fc1", "fc2", "fc3"]),
            "lr": ("run", np.linspace(0.1, 0.4, 4)),
        },
        attrs={"scale": "demo", "list": ["a", "b"], "runs": 4},
    )


def test_a_dataset_comes_back_as_it_was(tmp_path: Path) -> None:
    store.save_dataset(tmp_path / "a.zarr.zip", example())
    back = store.load_dataset(tmp_path / "a.zarr.zip")
    xr.testing.assert_identical(back, example())
    assert list(back.data_vars) == ["count", "flag", "mls"]


def test_equal_content_gives_equal_bytes_in_every_process(tmp_path: Path) -> None:
    """Also where the hashes of strings differ, which is what sets and dictionaries hang on."""
    code = (
        "import importlib.util, sys; from flatlab import store;"
        f"spec = importlib.util.spec_from_file_location('t', {str(Path(__file__))!r});"
        "t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t);"
        "store.save_dataset(sys.argv[1], t.example());"
        "store.save_weights(sys.argv[2], {n: t.np.ones(3) for n in 'dcba'}, {'a': 1})"
    )
    written = []
    for seed in ("1", "2"):
        paths = [tmp_path / f"{seed}.zarr.zip", tmp_path / f"{seed}.safetensors"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True, env=environment)
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]


def test_the_archive_is_a_plain_zip_of_stored_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    store.save_dataset(path, example())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == sorted(names)
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


RULE = "rebuild it with: snakemake --force {}"
OWN = "no rule makes it: make it anew, or get it back"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["dataset", "weights"])
def test_a_changed_byte_is_an_error_that_names_the_file_and_the_remedy(
    kind: str, share: float, tmp_path: Path
) -> None:
    path = tmp_path / ("a.zarr.zip" if kind == "dataset" else "a.safetensors")
    if kind == "dataset":
        store.save_dataset(path, example())
    else:
        store.save_weights(path, {"w": np.arange(64.0), "b": np.ones(3)}, {"runs": ["a"]})
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x10
    path.write_bytes(content)
    load = store.load_dataset if kind == "dataset" else store.load_weights
    with pytest.raises(store.StoreError) as error:
        load(path)
    assert str(path) in str(error.value)
    assert OWN in str(error.value)


@pytest.mark.parametrize("length", [0, 5, 60, 500])
def test_a_truncated_file_is_an_error(length: int, tmp_path: Path) -> None:
    for name, load in (("a.zarr.zip", store.load_dataset), ("a.safetensors", store.load_weights)):
        path = tmp_path / name
        if name == "a.zarr.zip":
            store.save_dataset(path, example())
        else:
            store.save_weights(path, {"w": np.arange(640.0)})
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(store.StoreError, match="damaged"):
            load(path)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("results/demo/tables/a", RULE),
        ("project/results/short/a", RULE),
        ("results/redrawn/demo/a", RULE),
        ("results/published/demo/tables/a", "get it back with: git checkout -- {}"),
        ("a", OWN),
        ("demo/a", OWN),
        ("results/mine/a", OWN),
    ],
)
def test_a_missing_or_damaged_file_says_how_it_can_be_had(
    name: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told to rebuild a file of their own by a rule: there is none."""
    monkeypatch.chdir(tmp_path)
    path = Path(f"{name}.zarr.zip")
    with pytest.raises(store.StoreError) as error:
        store.load_dataset(path)
    build = remedy.replace("rebuild", "build").replace("--force ", "").format(path)
    assert str(error.value).startswith(f"{path} does not exist; {build}")
    store.replace(path, b"damaged")
    with pytest.raises(store.StoreError) as error:
        store.load_dataset(path)
    assert str(error.value).startswith(f"{path} is damaged (")
    assert f"; {remedy.format(path)}" in str(error.value)


def test_a_file_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flatlab.store.STORE_VERSION", store.STORE_VERSION + 1)
    store.save_dataset(tmp_path / "a.zarr.zip", example())
    monkeypatch.undo()
    with pytest.raises(
        store.StoreError, match=r"has format \d+, but this version of flatlab reads"
    ):
        store.load_dataset(tmp_path / "a.zarr.zip")


def test_intact_files_that_flatlab_did_not_write_are_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "others.safetensors"
    path.write_bytes(save({"weight": np.ones(3)}))
    with pytest.raises(store.StoreError, match="holds weights that flatlab did not write"):
        store.load_weights(path)
    with zipfile.ZipFile(other := tmp_path / "others.zarr.zip", "w") as archive:
        archive.writestr("content", b"0" * 200)
    with pytest.raises(store.StoreError, match="incomplete, or flatlab did not write it"):
        store.load_dataset(other)


def test_weights_come_back_with_their_description(tmp_path: Path) -> None:
    arrays = {"fc1.weight": np.ones((2, 1, 3), np.float32), "fc1.bias": np.zeros((2, 1))}
    store.save_weights(tmp_path / "w.safetensors", arrays, {"runs": ["a", "b"]})
    back, about = store.load_weights(tmp_path / "w.safetensors")
    assert about == {"runs": ["a", "b"]}
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert (back[name] == array).all()


def test_numbers_that_are_not_finite_are_null_in_json(tmp_path: Path) -> None:
    store.save_json(tmp_path / "a.json", {"b": float("nan"), "a": [np.float64("inf"), 1.5]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": None}


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    store.save_json(path, 1)
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.save_json(path, 2)
    assert store.load_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def lock(output: Path, **about: object) -> Path:
    """A lock file as another process would have left it."""
    path = output.with_name(f"{output.name}.lock")
    with jobs.Guard(output):
        lines = dict(line.split("=") for line in path.read_text().splitlines()[1:])
    lines |= {"token": "0" * 32, **about}
    path.write_text("\n".join(["filelock/2", *(f"{k}={v}" for k, v in lines.items()), ""]))
    return path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and patience in fractions of a second."""
    monkeypatch.setattr(guards, "BEAT_S", 0.02)
    monkeypatch.setattr(guards, "STALE_S", 0.5)


@contextlib.contextmanager
def beating(path: Path, **about: object) -> Iterator[None]:
    """Somebody elsewhere renews a lock, whose clock is an hour wrong."""
    end = threading.Event()

    def beat() -> None:
        date = time.time() - 3600
        while not end.wait(0.05):
            date += 0.05
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (date, date))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_a_second_writer_is_refused_with_the_holder_named(tmp_path: Path) -> None:
    output = tmp_path / "a.json"
    with jobs.Guard(output):
        with pytest.raises(store.StoreError) as error:
            jobs.Guard(output).__enter__()
        for part in (str(output), os.uname().nodename, str(os.getpid())):
            assert part in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_on_a_cluster_waits(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    output = tmp_path / "a.json"
    first = jobs.Guard(output)
    first.__enter__()
    threading.Timer(0.3, lambda: first.__exit__(None, None, None)).start()
    start = time.monotonic()
    with jobs.Guard(output):
        assert time.monotonic() - start > 0.2
    assert capsys.readouterr().err.count("waiting for it to end") == 1


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path, impatient: None) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    lock(tmp_path / "a.json", pid=dead.pid)
    with jobs.Guard(tmp_path / "a.json"):
        pass
    lock(tmp_path / "a.json", start=12345)  # our own number, which another process had before
    with jobs.Guard(tmp_path / "a.json"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_another_machine_counts_while_its_heart_beats(
    tmp_path: Path, impatient: None
) -> None:
    """By change alone: the dates that another machine's clock gives mean nothing."""
    output = tmp_path / "a.json"
    path = lock(output, host="elsewhere", pid=1)
    with beating(path), pytest.raises(store.StoreError, match="host elsewhere, process 1"):
        jobs.Guard(output).__enter__()
    for skew in (-3600, 3600):
        path = lock(output.with_name(f"{skew}.json"), pid=1, host="elsewhere")
        os.utime(path, (time.time() + skew, time.time() + skew))
        start = time.monotonic()
        with jobs.Guard(output.with_name(f"{skew}.json")):
            assert time.monotonic() - start > guards.STALE_S / 2


def test_a_lock_that_a_crash_has_emptied_is_named(tmp_path: Path, impatient: None) -> None:
    (tmp_path / "a.json.lock").touch()
    with pytest.raises(store.StoreError, match=r"if it has ended, delete .*a\.json\.lock"):
        jobs.Guard(tmp_path / "a.json").__enter__()


def test_who_lost_the_lock_may_not_write(tmp_path: Path) -> None:
    """A process that was suspended, and whose lock was taken over, notices before it writes."""
    output = tmp_path / "a.json"
    with jobs.Guard(output) as guard:
        guard.check()
        theirs = guard.path.read_text().replace("pid=", "pid=1")
        (tmp_path / "theirs").write_text(theirs)
        (tmp_path / "theirs").replace(guard.path)
        with pytest.raises(store.StoreError, match="lock was lost"):
            guard.check()
    assert guard.path.read_text() == theirs


def test_the_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "BEAT_S", 0.01)
    with jobs.Guard(tmp_path / "a.json") as guard:
        os.utime(guard.path, (0, 0))
        deadline = time.time() + 10
        while guard.path.stat().st_mtime == 0 and time.time() < deadline:
            time.sleep(0.01)
        assert guard.path.stat().st_mtime > 0


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


def test_a_record_has_the_hashes_of_tables_as_they_were_when_the_job_began(tmp_path: Path) -> None:
    table, other, gone = (str(tmp_path / name) for name in ("a.zarr.zip", "b.json", "c.zarr.zip"))
    store.save_dataset(table, example())
    store.save_json(other, {})
    about, before = fake_snakemake(tmp_path), store.hash_of(table)
    about.input += [table, other, gone]
    with run_job(about) as job:
        store.save_dataset(table, example().isel(run=[0]))
        job.save({})
    record = store.load_json(tmp_path / "out" / "a.json.provenance.json")
    assert record["inputs"] == {table: before, gone: ""}
    assert store.hash_of(table) not in ("", before)


def test_the_hash_that_a_file_carries_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    store.save_dataset(path, example())
    content = path.read_bytes()
    assert store.hash_of(path).encode() == content[-64:]
    path.write_bytes(content[:-1])
    assert store.hash_of(path) == ""
    path.write_bytes(b"short")
    assert store.hash_of(path) == ""


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


def pack() -> store.TrainedPack:
    """Two runs at steps 0 and 6; the first fitted the training set at step 4, the other never."""
    weight = np.arange(2 * 3 * 2.0).reshape(2, 3, 2)
    weight[1, 2] = np.nan
    about = {"runs": ["a", "b"], "iterations": [0, 6], "fitted": [4, None], "lr": [0.1, 0.2]}
    return store.TrainedPack({"weight": weight, "count": np.arange(6).reshape(2, 3)}, about)


def test_a_pack_has_the_weights_of_each_run_at_each_of_its_steps() -> None:
    assert (pack().steps("a"), pack().steps("b")) == ([0, 6, 4], [0, 6])
    assert pack().state("a", 4)["weight"].tolist() == [4, 5]
    assert pack().state("b", 0)["weight"].tolist() == [6, 7]
    assert pack().state("b")["weight"].tolist() == pack().state("b", 6)["weight"].tolist()
    assert pack().state("b")["count"] == 4  # a tensor without dimensions
    with pytest.raises(KeyError):
        pack().state("b", 4)


def test_the_first_runs_of_a_pack_keep_what_the_file_says_of_them() -> None:
    first = pack().first(1)
    assert first.runs == ["a"]
    assert (first.steps("a"), first.about["lr"]) == ([0, 6, 4], [0.1])
    assert first.state("a", 4)["weight"].tolist() == [4, 5]
    assert pack().first(None).runs == ["a", "b"]


def test_a_file_of_other_weights_is_no_pack(tmp_path: Path) -> None:
    pack_file = tmp_path / "results" / "demo" / "models" / "a.safetensors"
    store.save_weights(pack_file, dict(pack().arrays), dict(pack().about))
    assert store.TrainedPack.load(pack_file).state("a", 4)["weight"].tolist() == [4, 5]
    store.save_weights(tmp_path / "b.safetensors", {"weight": np.ones(3)})
    with pytest.raises(store.StoreError, match="holds no trained networks"):
        store.TrainedPack.load(tmp_path / "b.safetensors")


def test_older_files_are_read_under_the_present_names_of_quantities(tmp_path: Path) -> None:
    """Also where two families had measured one quantity under two names."""
    values = {"mean_norm": 1.0, "mean_norm_error": 0.1, "output_norm": 2.0, "output_frobenius": 2.1}
    store.save_dataset(tmp_path / "a.zarr.zip", xr.Dataset(values))
    back = store.load_dataset(tmp_path / "a.zarr.zip")
    assert {name: float(back[name]) for name in back} == {
        "mls": 1.0,
        "mls_error": 0.1,
        "output_norm": 2.0,
    }
    store.save_dataset(tmp_path / "a.zarr.zip", back)
    assert store.load_dataset(tmp_path / "a.zarr.zip").identical(back)
