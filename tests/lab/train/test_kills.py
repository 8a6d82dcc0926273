"""Training whose process is killed at moments of chance."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from flatlab.core import store
from flatlab.lab.train import train_packs
from tests.lab.train.packs import RANDOM, images, settings

ROOT = Path(__file__).resolve().parents[3]

JOB = """
import os, signal, sys, threading, time, traceback
import torch
torch.set_num_threads(1)
sys.path.insert(0, {root!r})
from flatlab.core import store
from flatlab.lab.train import train_packs
from flatlab.lab.train.augmentations import rand_augment  # slow to import: before the lives begin
from tests.lab.train.packs import RANDOM, images, settings

steps, save_every_s = int(os.environ["STEPS"]), float(os.environ["SAVE_S"])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def job(life, kind, out, folder, mode):
    life = float(life)
    print("ready", flush=True)
    if kind == "write":
        begun, original = time.monotonic(), store.os.replace
        def replace(source, target):
            if time.monotonic() - begun > life:
                with open(source, "r+b") as file:
                    file.truncate(os.path.getsize(source) // 2)  # a part, not yet in its place
                die()
            original(source, target)
        store.os.replace = replace
    elif life:
        threading.Timer(life, die).start()
    pack = settings("resnet", seeds=(0, 1, 2), mode=mode, precision="float32",
                    momentum=0.9, iterations=steps, **RANDOM,
                    checkpoints={{"every": steps // 12, "log_spaced": None}})
    [trained] = train_packs(images((8, 8)), [pack], folders=[folder], save_every_s=save_every_s)
    for name, value in vars(trained).items():
        (store.save_dataset if name == "curves" else lambda p, v: store.save_weights(p, *v))(
            f"{{out}}/{{name}}", value)

for line in sys.stdin:  # a process for each, that need not import
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


@pytest.mark.long  # test_interruption.py stops a training at every step
@pytest.mark.parametrize(
    ("mode", "fewest", "seconds", "longest"),
    [("batched", 3, 2, 0.4), ("loop", 2, 2, 0.6), ("batched", 20, 30, 1.0), ("loop", 20, 30, 1.0)],
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
