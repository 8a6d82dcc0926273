"""Training and measuring on a GPU, against what its memory and its arithmetic allow: `make gpu`.

Times are medians of several timings after a warm-up. The report, <GPU>-<date>.md and .json, is
written again after each part; a part that fails is named in it, and the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import flatlab
from benchmarks import baselines
from benchmarks.engine import BATCH, TRAINING, Engine, changed, demo_packs, networks, random_split
from benchmarks.gpu_cases import CASES, FAKE, GEOMETRY, Case, Size, Variant, small, variants
from benchmarks.gpu_report import Report, digits, machine, slug
from benchmarks.gpu_work import profiled, wait, work_of
from benchmarks.timing import paired
from flatlab.data import _tensors as splits
from flatlab.derivatives.per_sample import memory as derivatives
from flatlab.lab.train.determinism import deterministic_arithmetic
from flatlab.lab.train.evaluation import evaluate
from flatlab.networks import build

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NO_GPU = "torch finds no GPU on this machine; `make gpu FAKE=1` runs everything through on the CPU"
ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # one for each of 32 streams
    "TEARDOWN_CUPTI": "0",  # what a profile starts must not end while there are graphs
}
GIB = 2**30
PROFILE = "profile of "
KEPT_S = 80.0
"""What the profiles take; at most a third of the time that there is."""

Part = Callable[[], str]


class Bench:
    """The parts of the benchmark; they write into a report and return a few words.

    device: "cuda", or "cpu" for the fake device.
    """

    def __init__(self, report: Report, device: str, size: Size) -> None:
        self.report, self.device, self.size = report, device, size
        self.base = demo_packs()[0]
        self.cases = {name: small(case) if size.small else case for name, case in CASES.items()}

    def parts(self) -> dict[str, Part]:
        """In this order. Profiles come last: what is timed after one may take longer."""
        found: dict[str, Part] = {"limits of the machine": self.limits}
        profiles: dict[str, Part] = {}
        for precision in ("float32", "tf32"):
            for name in CASES:
                row = f"{name}, {precision}"
                found[row] = functools.partial(self.training, name, precision)
                profiles[PROFILE + row] = functools.partial(self.profile, name, precision)
            if precision == "float32":
                for dtype in GEOMETRY:
                    row = f"geometry, {dtype}"
                    found[row] = functools.partial(self.geometry, dtype)
                    profiles[PROFILE + row] = functools.partial(self.geometry_profile, dtype)
        for name in ("perceptrons", "LeNet5", "vgg-narrow"):
            found[f"evaluation of {name}"] = functools.partial(self.evaluation, name)
        for dtype in GEOMETRY:
            found[f"geometry, {dtype}, variants"] = functools.partial(self.geometries, dtype)
        for each in variants():
            part = f"{each.name}, {each.precision}, {each.what}"
            found[part] = functools.partial(self.variant, each)
        return found | profiles

    def limits(self) -> str:
        """What a large copy and large products reach, in bytes and operations per second."""
        found, size = self.report.limits, self.size
        copied = torch.rand(size.copied, device=self.device)
        other = torch.empty_like(copied)
        found["bytes"] = 2 * copied.nbytes / paired(lambda: other.copy_(copied))[0]
        for name in ("float32", "tf32", "float64"):
            dtype = torch.float64 if name == "float64" else torch.float32
            matrix = torch.rand(size.square, size.square, device=self.device, dtype=dtype)
            with deterministic_arithmetic([{"training": {"precision": name}}]):
                [seconds] = paired(functools.partial(torch.matmul, matrix, matrix))
            found[name] = 2 * size.square**3 / seconds
        return f"{found['bytes'] / 1e12:.2f} TB/s, {found['float32'] / 1e12:.0f} TFLOP/s in float32"

    def engine(self, case: Case, precision: str, deterministic: bool = True) -> Engine:
        training = {**TRAINING, "precision": precision, "mode": case.mode}
        blocks = [range(n * case.runs, (n + 1) * case.runs) for n in range(case.packs)]
        packs = [changed(self.base, case.network, seeds, {}, **training) for seeds in blocks]
        split = random_split(case, self.device, self.size.samples)
        return Engine(packs, split, deterministic)

    def timed(self, engine: Engine, *others: Callable[[], Any]) -> tuple[float, ...]:
        """Microseconds per step of a network, and seconds of others, timed alternately."""
        count = max(training.longest_chunk for training in engine.trainings)
        ours = functools.partial(engine.steps, count)
        engine.steps(10)  # records the graphs
        seconds, *rest = paired(ours, *others, slow=True, repeats=self.size.repeats)
        runs = sum(len(training.settings["runs"]) for training in engine.trainings)
        if diverged := runs - sum(len(training.active) for training in engine.trainings):
            raise RuntimeError(f"{diverged} of {runs} networks diverged")
        return 1e6 * seconds / count / runs, *rest

    def training(self, name: str, precision: str) -> str:
        """A row of the table of training: against the eager loop, and the time of the host."""
        case, steps = self.cases[name], self.size.eager
        engine = self.engine(case, precision)
        pack, split = engine.packs[0], engine.trainings[0].split
        few = networks({**pack, "seeds": pack["seeds"][:2]}, split)

        def eager() -> None:
            with deterministic_arithmetic(engine.packs):
                torch.set_deterministic_debug_mode("default")
                rule = TRAINING["batch_size"], TRAINING["lr"]
                baselines.eager_loop(few, split.inputs, split.targets, steps, *rule)

        us, seconds = self.timed(engine, eager)
        work = work_of(build(case.network, case.shape, case.outputs), case.shape).training(BATCH)
        row = {"networks": name, "count": case.count, "mode": case.mode, "precision": precision}
        row |= {"us": us, "eager_us": 1e6 * seconds / steps / len(few), "reach_us": case.reach}
        row |= self.report.limit(work, precision)
        self.report.add("training", row)
        engine.steps(10)
        wait()
        start = time.perf_counter()
        engine.steps(20)  # so few that the host need not wait for the device
        host = time.perf_counter() - start
        row["host_us"] = 1e6 * host / 20 / case.count
        return f"{digits(us)} us per step of a network, to reach {case.reach:g}"

    def profile(self, name: str, precision: str) -> str:
        """The kernels of ten steps."""
        profiled(wait, self.device)  # so that graphs are recorded under the profiler's eyes
        engine = self.engine(self.cases[name], precision)
        engine.steps(20)
        kernels = profiled(functools.partial(engine.steps, 10), self.device)
        stacks = sum(len(training.networks.groups) for training in engine.trainings)
        row = self.report.row("training", {"networks": name, "precision": precision})
        row["kernels"] = sum(kernel["calls"] for kernel in kernels) / 10 / stacks
        row["device_us"] = sum(kernel["us"] for kernel in kernels) / 10 / self.cases[name].count
        self.report.profile(f"{name}, {precision}", kernels, row)
        return f"{row['kernels']:.0f} kernels in a step of a stack"

    def variant(self, given: Variant) -> str:
        case = given.of(self.cases[given.name])
        case = replace(case, packs=1, runs=2) if self.size.small else case
        with given.within():
            [us] = self.timed(self.engine(case, given.precision, given.deterministic))
        row = {"networks": given.name, "precision": given.precision, "variant": given.what}
        self.report.add("variants", {**row, "us": us})
        return f"{digits(us)} us per step of a network"

    def evaluation(self, name: str) -> str:
        """Loss and accuracy of all networks on the whole training set, by the size of a piece."""
        case = self.cases[name]
        engine = self.engine(case, "float32")

        def evaluate_all() -> None:
            with deterministic_arithmetic(engine.packs):
                for training in engine.trainings:
                    list(evaluate(training.networks, training.loss, training.split))

        for pieces in (256, 4096):
            with mock.patch.dict(splits.EVALUATED, dict.fromkeys(splits.EVALUATED, pieces)):
                [seconds] = paired(evaluate_all, slow=True, repeats=self.size.repeats)
            us = 1e9 * seconds / case.count / self.size.samples
            row = {"networks": name, "mode": case.mode, "pieces": pieces, "us": us}
            self.report.add("evaluation", row)
        return f"{digits(us)} us for 1,000 samples of a network in pieces of {pieces:,}"

    def vgg(self) -> tuple[nn.Module, Tensor]:
        case = self.cases["VGG-11"]
        torch.manual_seed(0)
        model = build(case.network, case.shape, 10).to(self.device)
        return model, torch.rand(self.size.measured, *case.shape, device=self.device)

    def measured(self, dtype: str, variant: str, **options: Any) -> dict[str, Any]:
        """Time the family `geometry` of VGG-11. Returns the row of the table."""
        model, inputs = self.vgg()
        ours = functools.partial(flatlab.measure, model, inputs, dtype=dtype, **options)
        ours()  # starts the libraries
        [seconds] = paired(ours, slow=True, repeats=self.size.repeats)
        row = {"precision": dtype, "variant": variant, "us": 1e6 * seconds}
        self.report.add("geometry", row)
        return row

    def geometry(self, dtype: str) -> str:
        size = derivatives.CHUNK_BYTES[self.device] / GIB
        row = self.measured(dtype, f"by default: {size:.3g} GiB of derivatives at a time")
        model, inputs = self.vgg()
        least = work_of(model, tuple(inputs.shape[1:])).measuring(
            len(inputs), 10, torch.finfo(getattr(torch, dtype))
        )
        row |= {"reach_us": GEOMETRY[dtype], **self.report.limit(least, dtype)}
        return f"{digits(row['us'] / 1e3)} ms, to reach {row['reach_us'] / 1e3:g}"

    def geometries(self, dtype: str) -> str:
        for size in (1, 2, 8):
            with mock.patch.dict(derivatives.CHUNK_BYTES, {self.device: size * GIB}):
                self.measured(dtype, f"{size} GiB at a time")
        self.measured(dtype, "without costly quantities", costly=())
        both = ("elementwise-adaptive-trace", "operator-norm")
        row = self.measured(dtype, "operator norms too", costly=both)
        return f"{digits(row['us'] / 1e3)} ms with operator norms"

    def geometry_profile(self, dtype: str) -> str:
        model, inputs = self.vgg()
        kernels = profiled(lambda: flatlab.measure(model, inputs, dtype=dtype), self.device)
        row = self.report.row("geometry", {"precision": dtype})
        row["kernels"] = sum(kernel["calls"] for kernel in kernels)
        row["device_us"] = sum(kernel["us"] for kernel in kernels)
        self.report.profile(f"geometry, {dtype}", kernels, row)
        return f"{row['kernels']:,} kernels"


def run(report: Report, parts: dict[str, Part], budget_s: float) -> None:
    """Run the parts in turn. None begins after `budget_s` seconds, only profiles shortly before."""
    start = time.monotonic()
    report.left = list(parts)
    report.write()
    for name, part in parts.items():
        kept = 0.0 if name.startswith(PROFILE) else min(KEPT_S, budget_s / 3)
        if time.monotonic() - start >= budget_s - kept:
            print(f"{name}: not run, there is no time left", flush=True)
            continue
        try:
            said = part()
        except Exception as error:
            report.failed[name] = traceback.format_exc(limit=-6).replace(f"{ROOT}{os.sep}", "")
            said = f"FAILED: {type(error).__name__}: {str(error)[:200]}"
        report.left.remove(name)
        if torch.cuda.is_initialized():
            gc.collect()
            with contextlib.suppress(RuntimeError):  # some errors stay
                torch.cuda.empty_cache()
        report.seconds = time.monotonic() - start
        report.write()
        print(f"[{report.seconds:4.0f} s] {name}: {said}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether there is a GPU")
    parser.add_argument("--fake", action="store_true", help="tiny sizes on the CPU, no files")
    parser.add_argument("--parts", default="", help="only those with this in the name")
    parser.add_argument("--budget", type=float, default=480, help="seconds; then no part begins")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the report")
    given = parser.parse_args(arguments)
    if not given.fake and not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 1
    if given.check:
        return 0
    if not given.fake:  # say where it was when it crashed, or was ended because it hung
        faulthandler.enable()
        faulthandler.register(signal.SIGTERM, chain=True)
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    torch.manual_seed(0)
    about = machine(given.fake)
    name = f"{slug(about['GPU'])}-{about['date']}"
    report = Report(about, None if given.fake else given.results / name)
    with contextlib.ExitStack() as stack:
        if given.fake:
            from tests.gpu.fake import fake_gpu

            stack.enter_context(fake_gpu())
        bench = Bench(report, *(("cpu", FAKE) if given.fake else ("cuda", Size())))
        parts = bench.parts()
        chosen = {name: part for name, part in parts.items() if given.parts in name}
        if not chosen:
            parser.error(f"no part has {given.parts!r} in its name; they are: {'; '.join(parts)}")
        run(report, chosen, given.budget)
    print(report.text() if given.fake else f"The report is {report.path}.md")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
