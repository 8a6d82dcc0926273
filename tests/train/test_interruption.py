"""Training that stops, of itself or not: nothing is lost, nothing changes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from flatlab import store
from flatlab.data import load
from flatlab.train import Interrupted, train_packs
from flatlab.train.initializations.high_frequency import Fit
from flatlab.train.modes import MODES
from flatlab.train.pack import PackTraining
from tests.train.packs import GIVEN, RANDOM, images, interrupt_after, same, settings

ROOT = Path(__file__).resolve().parents[2]


STOP = {"every": None, "loss": None, "mean_of": 1, "accuracy": None}


class TestResume:
    KINDS = (
        ("mlp", {}),
        ("mlp", {"momentum": 0.9, "schedule": "step", "milestones": [0.5]}),
        ("resnet", {"momentum": 0.9}),
        ("mlp", {"optimizer": "rmsprop", "alpha": 0.9, "momentum": 0.5, "lr": 0.001}),
        ("resnet", {"iterations": 60, **RANDOM}),
        ("mlp", {"stop": {**STOP, "epoch_loss": 0.15}, "lr": 0.1}),
        ("mlp", {"lr": 3.0}),  # one of the networks diverges, at another step than the other
        ("mlp", {"stop": {"every": 7, "loss": 0.2, "mean_of": 2, "accuracy": None}, "lr": 0.1}),
    )

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(("network", "training"), KINDS)
    @pytest.mark.parametrize(
        "moments",
        [(1, 40, 129), pytest.param((2, 39, 41, 100), marks=pytest.mark.long)],
        ids=["some", "more"],
    )
    def test_a_run_interrupted_anywhere_ends_with_the_same_bytes(
        self, network, training, mode, moments, tmp_path
    ):
        given = settings(
            network,
            checkpoints={"every": 40, "log_spaced": None},
            **{"mode": mode, "precision": "float32", "iterations": 130, **training},
        )
        raw = images((8, 8))
        [expected] = train_packs(raw, [given])
        for steps in moments:
            folder = tmp_path / str(steps)
            with pytest.MonkeyPatch.context() as patch:
                interrupt_after(patch, steps)
                with contextlib.suppress(Interrupted):  # a pack of which nothing is left has ended
                    train_packs(raw, [given], folders=[folder])
            [resumed] = train_packs(raw, [given], folders=[folder])
            same(resumed, expected)

    def test_several_interruptions_of_several_packs(self, tmp_path):
        raw = images((8, 8))
        packs = [settings("mlp", seeds=seeds, mode="batched") for seeds in ((0, 1), (2,))]
        expected = train_packs(raw, packs)
        folders = [tmp_path / "a", tmp_path / "b"]
        for steps in (50, 90, 120):
            with pytest.MonkeyPatch.context() as patch:
                interrupt_after(patch, steps)
                with pytest.raises(Interrupted, match=r"stopped by SIGTERM after \d+ of 200"):
                    train_packs(raw, packs, folders=folders)
        for found, wanted in zip(train_packs(raw, packs, folders=folders), expected, strict=True):
            same(found, wanted)

    def test_a_fit_of_initial_weights_goes_on_where_it_was_left(self, tmp_path, monkeypatch):
        given = settings("mlp", (0, 1), data=GIVEN, batch_size=8, iterations=5)
        given["network"]["initialization"] = "high-frequency"
        raw = load("eight-points")
        [expected] = train_packs(raw, [given])
        taken, original = [], Fit.step

        def step(self):
            taken.append(1)
            original(self)
            if len(taken) in (7, 17, 40, 59):
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Fit, "step", step)
        for steps in (7, 17, 40, 59):
            with pytest.raises(Interrupted, match=f"SIGTERM after {steps} of 60 initial steps"):
                train_packs(raw, [given], folders=[tmp_path])
        [resumed] = train_packs(raw, [given], folders=[tmp_path])
        same(resumed, expected)
        assert len(taken) == 60
        interrupt_after(monkeypatch, 2)
        with pytest.raises(Interrupted, match="after 1 of 5 steps"):
            train_packs(raw, [given], folders=[tmp_path / "other"])
        assert len(taken) == 120
        [resumed] = train_packs(raw, [given], folders=[tmp_path / "other"])
        same(resumed, expected)
        assert len(taken) == 120, "the training had begun: no fits any more"

    def test_a_state_of_other_settings_code_or_data_counts_as_none(self, tmp_path, monkeypatch):
        raw, given = images((8, 8)), settings("mlp", mode="batched", iterations=20)
        with pytest.MonkeyPatch.context() as patch:
            interrupt_after(patch, 10)
            with pytest.raises(Interrupted):
                train_packs(raw, [given], folders=[tmp_path], code="a")
        seen = []
        original = PackTraining.resume

        def resume(self):
            original(self)
            seen.append(self.iteration)

        monkeypatch.setattr(PackTraining, "resume", resume)
        other = settings("mlp", mode="batched", iterations=20, lr=0.03)
        # What goes on from a state keeps it; each of these must leave the first one's alone.
        for pack, code, data in (
            (given, "b", raw),
            (other, "a", raw),
            (given, "a", images((8, 8), seed=1)),
            (given, "a", raw),
        ):
            train_packs(data, [pack], folders=[tmp_path], code=code)
        assert seen[:3] == [0, 0, 0]
        assert seen[3] > 0

    def test_a_damaged_state_counts_as_none(self, tmp_path):
        raw, given = images((8, 8)), settings("mlp", mode="batched", iterations=20)
        [expected] = train_packs(raw, [given])
        with pytest.MonkeyPatch.context() as patch:
            interrupt_after(patch, 10)
            with pytest.raises(Interrupted):
                train_packs(raw, [given], folders=[tmp_path])
        (path,) = tmp_path.glob("state*")
        path.write_bytes(path.read_bytes()[:-5])
        [resumed] = train_packs(raw, [given], folders=[tmp_path])
        same(resumed, expected)

    def test_signal_handlers_are_as_before(self, tmp_path):
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        train_packs(images((8, 8)), [settings("mlp", mode="batched", iterations=2)])
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


class TestCheckpoints:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(
        ("schedule", "steps"),
        [
            ("none", []),
            ([0, 3, 7, 999], [0, 3, 7]),
            ({"every": 20, "log_spaced": None}, [0, 20, 40, 50]),
            ({"every": None, "log_spaced": 5}, [0, 1, 3, 7, 19, 50]),
        ],
    )
    def test_weights_are_those_of_a_training_of_so_many_steps(self, mode, schedule, steps):
        raw = images((8, 8))
        given = settings("mlp", mode=mode, iterations=50, checkpoints=schedule)
        [trained] = train_packs(raw, [given])
        arrays, about = trained.dense
        assert about["iterations"] == steps
        assert set(steps) <= set(trained.curves["iteration"].values.tolist())
        for number, step in enumerate(steps):
            if step == 0:
                continue
            [short] = train_packs(raw, [settings("mlp", mode=mode, iterations=step)])
            for name, array in arrays.items():
                assert array[:, number].tobytes() == short.weights[0][name][:, 0].tobytes(), name
        if not steps:
            assert arrays == {}


JOB = """
import os, signal, sys, threading, time, traceback
import torch
torch.set_num_threads(1)
sys.path.insert(0, {root!r})
from flatlab import store as files
from flatlab.train import train_packs
from flatlab.train.augmentations import rand_augment  # slow to import: before the lives begin
from flatlab import store
from tests.train.packs import RANDOM, images, settings

steps = int(os.environ["STEPS"])
save_every_s = float(os.environ.get("SAVE_S", "0.3"))

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def job(life, kind, out, folder, mode):
    life = float(life)
    print("ready", flush=True)
    if kind == "write":
        begun, original = time.monotonic(), files.os.replace
        def replace(source, target):
            if time.monotonic() - begun > life:
                with open(source, "r+b") as file:
                    file.truncate(os.path.getsize(source) // 2)  # a part, not yet in its place
                die()
            original(source, target)
        files.os.replace = replace
    elif life:
        threading.Timer(life, die).start()
    pack = settings("resnet", seeds=(0, 1, 2), mode=mode, precision="float32",
                    momentum=0.9, iterations=steps, **RANDOM,
                    checkpoints={{"every": steps // 12, "log_spaced": None}})
    [trained] = train_packs(images((8, 8)), [pack], folders=[folder], save_every_s=save_every_s)
    for name, value in vars(trained).items():
        (store.save_dataset if name == "curves" else lambda p, v: store.save_weights(p, *v))(
            f"{{out}}/{{name}}", value)

if len(sys.argv) > 1:
    job(*sys.argv[1:])
for line in sys.stdin if len(sys.argv) == 1 else ():  # a process for each, that need not import
    pid = os.fork()
    if pid == 0:
        try:
            job(*line.split())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(f"ended {{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}}", flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "fewest", "seconds", "longest"),
    [
        ("batched", 4, 4, 0.5),
        ("loop", 2, 2, 0.6),
        pytest.param("batched", 20, 30, 1.0, marks=pytest.mark.long),
        pytest.param("loop", 20, 30, 1.0, marks=pytest.mark.long),
    ],
)
def test_kills_at_random_moments_change_nothing(mode, fewest, seconds, longest, tmp_path):
    """SIGKILL, every third time in the middle of a write; the job outlasts all its lives."""
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB.format(root=str(ROOT))))

    # As many steps as take about `seconds` here.
    begun = time.monotonic()
    given = settings("resnet", (0, 1, 2), mode=mode, precision="float32", **RANDOM)
    train_packs(images((8, 8)), [{**given, "training": {**given["training"], "iterations": 40}}])
    steps = max(20 * fewest, round(40 * seconds / (time.monotonic() - begun)))
    jobs = subprocess.Popen(
        [sys.executable, script],
        env={**os.environ, "STEPS": str(steps), "SAVE_S": str(0.3 * longest)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert jobs.stdin is not None
    assert jobs.stdout is not None

    def status(*arguments):
        print(*arguments, mode, file=jobs.stdin, flush=True)
        ended = next(line for line in jobs.stdout if line.startswith("ended"))
        return int(ended.split()[1])

    with jobs:
        undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
        undisturbed.mkdir()
        disturbed.mkdir()
        assert status(0, "none", undisturbed, tmp_path / "folder_of_the_undisturbed") == 0
        generator, kills, reached = random.Random(time.time_ns()), 0, []
        folder = tmp_path / "folder"
        while kills < fewest or (kills < 20 and not reached[-1]):
            life = generator.uniform(0.2, longest)
            kind = "write" if kills % 3 == 2 else "any"
            assert status(life, kind, disturbed, folder) == -signal.SIGKILL
            kills += 1
            reached.append(_position(folder))
        assert sorted(reached) == reached
        assert 0 < reached[-1] < steps, "the kills came after the end"
        assert status(0, "none", disturbed, folder) == 0
    assert jobs.returncode == 0
    for path in undisturbed.iterdir():
        assert path.read_bytes() == (disturbed / path.name).read_bytes(), path.name


def _position(folder):
    path = folder / "state.safetensors"
    return store.load_weights(path)[1]["iteration"] if path.exists() else 0


@pytest.mark.long  # of a job of the workflow: tests/workflow/faults/test_interruption.py
def test_a_request_to_stop_is_heard_within_ten_seconds(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB.format(root=str(ROOT))))
    environment = {**os.environ, "STEPS": "10000000"}
    for request in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, script, "0", "none", tmp_path, tmp_path / "folder", "batched"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        process.send_signal(request)
        _, errors = process.communicate(timeout=10)
        assert process.returncode > 0
        assert request.name in errors
        assert _position(tmp_path / "folder") > 0


def test_out_of_memory_is_one_sentence_with_the_keys_to_change(monkeypatch):
    def fail(self):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        yield

    monkeypatch.setattr(PackTraining, "run", fail)
    with pytest.raises(RuntimeError) as error:
        train_packs(images((8, 8)), [settings("mlp", mode="batched")])
    assert "\n" not in str(error.value)
    for key in ("seeds", "training.mode", "training.batch_size"):
        assert key in str(error.value)


def test_a_full_disk_is_one_sentence_with_the_path(monkeypatch, tmp_path):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(store.StoreError) as error:
        store.save_json(tmp_path / "some.json", {})
    assert "\n" not in str(error.value)
    for word in ("some.json", "disk is full", "checkpoints.dense"):
        assert word in str(error.value)
