"""Takes training steps with the flatlab of the working folder; started by `benchmarks.since`.

Reads JSON, line by line: {pack: name, settings, shape, outputs} makes a pack, {pack: name, steps}
takes that many steps of it. Answers with the CPU time in seconds, divided by the number of steps.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from flatlab.lab.train.pack import PackTraining

try:
    from flatlab.core.resume_state import ResumeState
    from flatlab.data._tensors import Split
    from flatlab.lab.train.determinism import deterministic_arithmetic as arithmetic
    from flatlab.lab.train.initializations import draw
    from flatlab.networks import build

    UNUSED: Any = ResumeState(tempfile.gettempdir(), {})  # these trainings save nothing
except ImportError:  # the names at the commit that `benchmarks.since` compares with
    from flatlab.data._tensors import Split
    from flatlab.lab.train import _arithmetic as arithmetic
    from flatlab.lab.train.pack import Memory
    from flatlab.models import build
    from flatlab.models import initialize as draw

    UNUSED = Memory()

SAMPLES = 2000


def training(settings: Mapping[str, Any], shape: list[int], outputs: int) -> Iterator[None]:
    """The steps of a pack on random data, in endless training that records nothing."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(SAMPLES, *shape, generator=generator)
    labels = torch.randint(outputs, (SAMPLES,), generator=generator)
    split = Split(inputs, labels, nn.functional.one_hot(labels, outputs).float())
    models = [build(settings["network"], tuple(shape), outputs) for _ in settings["seeds"]]
    for model, seed in zip(models, settings["seeds"], strict=True):
        draw(model, "framework", seed)
    pack = PackTraining(models, split, settings, UNUSED)
    pack.networks.forward(inputs[None, :1000])  # as each training does before its first step
    pack.handled = pack.total - 1
    return pack.run()


def main() -> None:
    torch.set_num_threads(1)
    settings: dict[str, Any] = {}
    running: dict[str, Iterator[None]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name, steps = asked.pop("pack"), asked.get("steps", 0)
        if not steps:
            settings[name], running[name] = asked["settings"], training(**asked)
        with arithmetic([settings[name]]):
            torch.set_deterministic_debug_mode("error")
            start = time.process_time()
            for _ in range(steps):
                next(running[name])
            seconds = time.process_time() - start
        print(seconds / max(steps, 1), flush=True)


if __name__ == "__main__":
    main()
