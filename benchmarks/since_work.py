"""Works with the flatlab of the working folder; started by `benchmarks.since`.

Reads JSON, line by line: {case: name, what: work, ...} prepares a case, {case: name, times: n} does
its work n times, and is answered by the processor time in seconds, divided by n; {case: name,
operators: true} does it once, and is answered by the calls of torch operators.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

import flatlab
from flatlab.data import dataset
from flatlab.data._tensors import Split
from flatlab.networks import build

try:
    from flatlab.core.resume_state import ResumeState
    from flatlab.derivatives.per_sample import memory, singular_values
    from flatlab.lab.train.determinism import deterministic_arithmetic
    from flatlab.lab.train.initializations import draw
    from flatlab.lab.train.pack import PackTraining
    from flatlab.measuring.grid import measure_pack
except ImportError:  # the names at the commit that `benchmarks.since` compares with
    from flatlab.derivatives import memory, singular_values
    from flatlab.jobs.resume_state import ResumeState
    from flatlab.metrics._measure_pack import measure_pack
    from flatlab.train.determinism import deterministic_arithmetic
    from flatlab.train.initializations import draw
    from flatlab.train.pack import PackTraining

SAMPLES = 2000
Work = Callable[[], object]


def steps(settings: Mapping[str, Any], shape: Sequence[int], outputs: int) -> Work:
    """The next step of a pack on random data, in endless training that records nothing."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(SAMPLES, *shape, generator=generator)
    labels = torch.randint(outputs, (SAMPLES,), generator=generator)
    split = Split(inputs, labels, nn.functional.one_hot(labels, outputs).float())
    models = [build(settings["network"], tuple(shape), outputs) for _ in settings["seeds"]]
    for model, seed in zip(models, settings["seeds"], strict=True):
        draw(model, "framework", seed)
    pack = PackTraining(models, split, settings, ResumeState(tempfile.gettempdir(), {}))
    pack.handled = pack.total - 1  # as if everything had been recorded
    running = pack.run()

    def step() -> None:
        with deterministic_arithmetic([settings]):
            next(running)

    return step


def call(network: Any, shape: Sequence[int], outputs: int, samples: int, **how: Any) -> Work:
    """`flatlab.measure` of a new network on random samples."""
    torch.manual_seed(0)
    model = build(network, tuple(shape), outputs).eval()
    inputs, labels = torch.rand(samples, *shape), torch.arange(samples) % outputs
    return lambda: flatlab.measure(model, inputs, labels, **how)


def pack(
    settings: Mapping[str, Any], outputs: int, checkpoints: int, width: int, on_gpu: bool = False
) -> Work:
    """The metric file of a pack of one new network at several checkpoints, on random images.

    on_gpu: with as much at a time as on a GPU.
    """
    torch.manual_seed(0)
    for sizes in (memory.CHUNK_BYTES, singular_values.BLOCK_BYTES) if on_gpu else ():
        sizes["cpu"] = sizes["cuda"]
    random, image = np.random.default_rng(0), (width, width)
    drawn = [(random.integers(0, 17, (n, *image)), np.arange(n) % outputs) for n in (1437, 360)]
    raw = dataset(*drawn, maximum=16, classes=[*map(str, range(outputs))], title="random")
    models = [build(settings["network"], (1, *image), outputs) for _ in range(checkpoints)]
    states = [model.double().state_dict() for model in models]
    arrays = {name: np.stack([s[name].numpy() for s in states])[None] for name in states[0]}
    about = {"runs": ["s0"], "iterations": [*range(checkpoints)], "steps": [0], "ended": [""]}
    return lambda: measure_pack([(arrays, about)], raw, settings)


def main() -> None:
    torch.set_num_threads(1)
    cases: dict[str, Work] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name, times = asked.pop("case"), asked.get("times", 0)
        if asked.get("operators"):
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU]
            ) as profile:
                cases[name]()
            calls = [each.count for each in profile.key_averages() if each.key[:6] == "aten::"]
            print(sum(calls), flush=True)
            continue
        if not times:
            work: Callable[..., Work] = globals()[asked.pop("what")]
            cases[name] = work(**asked)
        start = time.process_time()
        for _ in range(times):
            cases[name]()
        print((time.process_time() - start) / max(times, 1), flush=True)


if __name__ == "__main__":
    main()
