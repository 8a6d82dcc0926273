"""`python -m benchmarks.gpu`, without a GPU: every row is reported, and so is every failure."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import gpu
from benchmarks.gpu_cases import CASES, GEOMETRY, variants
from benchmarks.gpu_report import FAKE, Report
from benchmarks.gpu_work import work_of

ROOT = Path(__file__).parents[2]
MACHINE = {"GPU": "NVIDIA H200", "date": "2026-11-23"}

WITHOUT = """
import runpy, sys
sys.modules |= dict.fromkeys({missing!r})  # as if they were not installed
sys.argv = ["benchmarks.gpu", "--fake"]
runpy.run_module("benchmarks.gpu", run_name="__main__")
"""
MISSING = {"snakemake", "matplotlib", "seaborn", "sphinx", "hypothesis", "timm", "sklearn", "PIL"}
MISSING |= {"pooch", "requests", "joblib", "jinja2", "pytest"}


@pytest.mark.long
def test_all_is_run_without_a_gpu_and_with_no_more_than_training_needs():
    before = {path: path.stat().st_mtime_ns for path in gpu.RESULTS.parent.rglob("*.md")}
    command = [sys.executable, "-c", WITHOUT.format(missing=MISSING)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    progress, _, report = done.stdout.partition(f"# Benchmark on a GPU: {FAKE}\n")
    lines = report.splitlines()
    assert "No part failed." in report
    assert "Not run" not in report

    def row(*cells):
        return [line for line in lines if all(f" {cell} |" in line for cell in cells)]

    for name, case in CASES.items():
        for precision in ("float32", "tf32"):
            assert row(f"2 {name}", case.mode, precision, f"{case.reach:g}")
            assert f"profile of {name}, {precision}:" in progress
    for each in variants():
        [found] = row(each.name, each.precision, each.what)
        assert "–" not in found
    for dtype, reach in GEOMETRY.items():
        assert row(dtype, f"{reach / 1e3:g}")
        for size in (1, 2, 8):
            assert row(dtype, f"{size} GiB at a time")
    for name in ("perceptrons", "LeNet5", "vgg-narrow"):
        assert row(name, "256")
        assert row(name, "4096")
    assert before == {path: path.stat().st_mtime_ns for path in gpu.RESULTS.parent.rglob("*.md")}


def broken():
    raise RuntimeError("the cable is broken")


def test_a_part_that_fails_is_reported_and_the_others_go_on(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "ENVIRONMENT", {})
    parts = lambda bench: {"first": broken, "limits": bench.limits}  # noqa: E731
    monkeypatch.setattr(gpu.Bench, "parts", parts)
    assert gpu.main(["--fake"]) == 1
    said = capsys.readouterr().out
    for words in (
        "FAILED: RuntimeError: the cable is broken",
        "Failed: first.",
        "## Failed: first\n",
    ):
        assert words in said
    assert "matrix product, float64" in said
    monkeypatch.setattr(gpu.Bench, "parts", lambda bench: {"limits": bench.limits})
    assert gpu.main(["--fake"]) == 0


def test_the_limit_of_a_step_is_that_of_its_bytes_and_operations():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    work = work_of(model, (3,))
    products = 3 * 4 + 4 * 2
    assert (work.weights, work.outputs) == (3 * 4 + 4 + 4 * 2 + 2, 4 + 2)
    assert work.forward == 2 * products
    # All three products of the backward pass but the gradient of the inputs.
    assert work.both == 2 * (3 * products - 3 * 4)
    least = work.training(batch=5)
    assert least == (4 * 6 * (26 + 5 * 6), 5 * work.both)
    measured = work.measuring(7, 2, torch.finfo(torch.float64))
    assert measured == (7 * 6 * 2 * 6 * 8, 7 * 5 * work.forward)
    report = Report(MACHINE, None, limits={"bytes": 1e3, "float32": 1e6, "float64": 1.0})
    assert report.limit(least, "float32")["limit_us"] == pytest.approx(1e3 * least.bytes)
    assert report.limit(least, "float64")["limit_by"] == "operations"
    assert "limit_us" not in report.limit(least, "tf32")
