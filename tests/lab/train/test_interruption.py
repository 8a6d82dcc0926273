"""Training that stops, of itself or not: nothing is lost, nothing changes."""

import contextlib
import os
import re
import signal
from itertools import cycle, product
from pathlib import Path

import pytest
import torch

from flatlab.core import store
from flatlab.data import load
from flatlab.lab.train import Interrupted, train_packs
from flatlab.lab.train.initializations.high_frequency import Fit
from flatlab.lab.train.modes import MODES
from flatlab.lab.train.pack import PackTraining
from tests.lab.train.packs import (
    GIVEN,
    RANDOM,
    images,
    interrupt_after,
    interrupted,
    only,
    same,
    settings,
)
from tests.refusals import refusal

STOP = {"every": None, "loss": None, "mean_of": 1, "accuracy": None}


KINDS = (
    ("mlp", {}),
    ("mlp", {"momentum": 0.9, "schedule": "step", "milestones": [0.5]}),
    ("resnet", {"momentum": 0.9, "iterations": 60}),
    ("mlp", {"optimizer": "rmsprop", "alpha": 0.9, "momentum": 0.5, "lr": 0.001}),
    ("mlp", {"stop": {**STOP, "epoch_loss": 0.15}, "lr": 0.1}),
    ("mlp", {"lr": 3.0}),  # one of the networks diverges, at another step than the other
    ("mlp", {"stop": {"every": 7, "loss": 0.2, "mean_of": 2, "accuracy": None}, "lr": 0.1}),
    ("resnet", {"iterations": 60, **RANDOM}),
)
SOME, MORE = (1, 40, 129), (2, 39, 41, 100)
CASES = (
    *((0, mode, SOME) for mode in MODES),
    *((kind, mode, SOME) for kind, mode in zip(range(1, 7), cycle(MODES))),
    *(pytest.param(*case, marks=pytest.mark.long) for case in product(range(8), MODES, [MORE])),
)


class TestResume:
    @pytest.mark.first(2)
    @pytest.mark.parametrize(("kind", "mode", "moments"), CASES)
    def test_a_run_interrupted_anywhere_ends_with_the_same_bytes(
        self, kind, mode, moments, tmp_path
    ):
        network, training = KINDS[kind]
        given = settings(
            network,
            checkpoints={"every": 40, "log_spaced": None},
            **{"mode": mode, "precision": "float32", "iterations": 130, **training},
        )
        raw = images((8, 8))
        expected = only(raw, given)
        for moment in moments:
            steps = min(moment, given["training"]["iterations"] - 1)
            folder = tmp_path / str(steps)
            with pytest.MonkeyPatch.context() as patch:
                interrupt_after(patch, steps)
                with contextlib.suppress(Interrupted):  # a pack of which nothing is left has ended
                    train_packs(raw, [given], folders=[folder])
            same(only(raw, given, folders=[folder]), expected)

    @pytest.mark.more
    def test_several_interruptions_of_several_packs(self, tmp_path):
        raw = images((8, 8))
        packs = [settings("mlp", seeds=seeds, mode="batched") for seeds in ((0, 1), (2,))]
        expected = train_packs(raw, packs)
        folders = [tmp_path / "a", tmp_path / "b"]
        for steps in (50, 90, 120):
            message = interrupted(steps, raw, packs, folders=folders)
            assert re.search(r"stopped by SIGTERM after \d+ of 200", message)
        for found, wanted in zip(train_packs(raw, packs, folders=folders), expected, strict=True):
            same(found, wanted)

    def test_a_fit_of_initial_weights_goes_on_where_it_was_left(self, tmp_path, monkeypatch):
        given = settings("mlp", (0, 1), data=GIVEN, batch_size=8, iterations=5)
        given["network"]["initialization"] = "high-frequency"
        raw = load("eight-points")
        expected = only(raw, given)
        requests = {7: "SIGTERM", 17: "SIGINT", 40: "SIGTERM", 59: "SIGINT"}
        taken, original = [], Fit.step

        def step(self):
            taken.append(1)
            original(self)
            if len(taken) in requests:
                os.kill(os.getpid(), getattr(signal, requests[len(taken)]))

        monkeypatch.setattr(Fit, "step", step)
        for steps, request in requests.items():
            with pytest.raises(Interrupted, match=f"{request} after {steps} of 60 initial steps"):
                train_packs(raw, [given], folders=[tmp_path])
        same(only(raw, given, folders=[tmp_path]), expected)
        assert len(taken) == 60
        message = interrupted(2, raw, [given], folders=[tmp_path / "other"])
        assert "after 1 of 5 steps" in message
        assert len(taken) == 120
        same(only(raw, given, folders=[tmp_path / "other"]), expected)
        assert len(taken) == 120, "the training had begun: no fits any more"

    def test_a_state_of_other_settings_code_or_data_counts_as_none(self, tmp_path, monkeypatch):
        raw, given = images((8, 8)), settings("mlp", mode="batched", iterations=20)
        interrupted(10, raw, [given], folders=[tmp_path], code="a")
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
        expected = only(raw, given)
        interrupted(10, raw, [given], folders=[tmp_path])
        (path,) = tmp_path.glob("state*")
        path.write_bytes(path.read_bytes()[:-5])
        same(only(raw, given, folders=[tmp_path]), expected)

    def test_signal_handlers_are_as_before(self, tmp_path):
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        train_packs(images((8, 8)), [settings("mlp", mode="batched", iterations=2)])
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("schedule", "steps", "mode"),
        [
            ("none", [], "loop"),
            ([0, 3, 7, 999], [0, 3, 7], "loop"),
            ({"every": 20, "log_spaced": None}, [0, 20, 40, 50], "batched"),
            ({"every": None, "log_spaced": 5}, [0, 1, 3, 7, 19, 50], "graphs"),
        ],
    )
    def test_weights_are_those_of_a_training_of_so_many_steps(self, schedule, steps, mode):
        raw = images((8, 8))
        given = settings("mlp", mode=mode, iterations=50, checkpoints=schedule)
        trained = only(raw, given)
        arrays, about = trained.dense
        assert about["iterations"] == steps
        assert set(steps) <= set(trained.curves["iteration"].values.tolist())
        for number, step in enumerate(steps):
            if step == 0:
                continue
            short = only(raw, settings("mlp", mode=mode, iterations=step))
            now, at_the_end = trained.curves.sel(iteration=step), short.curves.isel(iteration=-1)
            for name, curve in at_the_end.items():
                assert now[name].values == pytest.approx(curve.values, rel=1e-10), name
            for name, array in arrays.items():
                assert array[:, number].tobytes() == short.weights[0][name][:, 0].tobytes(), name
        if not steps:
            assert arrays == {}


def test_out_of_memory_is_one_sentence_with_the_keys_to_change(monkeypatch):
    def fail(self):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        yield

    monkeypatch.setattr(PackTraining, "run", fail)
    message = refusal(RuntimeError, only, images((8, 8)), settings("mlp", mode="batched"))
    for key in ("seeds", "training.mode", "training.batch_size"):
        assert key in message


def test_a_full_disk_is_one_sentence_with_the_path(monkeypatch, tmp_path):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    message = refusal(store.StoreError, store.save_json, tmp_path / "some.json", {})
    for word in ("some.json", "disk is full", "checkpoints.dense"):
        assert word in message
