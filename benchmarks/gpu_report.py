"""The report of `benchmarks.gpu`: as text for people, and as JSON."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_work import Least
from flatlab.version import __version__

FAKE = "fake device, CPU: no timings of a GPU"
LONGEST = 10
"""Kernels in the table of a profile."""


def machine(fake: bool) -> dict[str, str]:
    """What the times were measured with."""
    if fake:
        gpu, memory = "none", "none"
    else:
        properties = torch.cuda.get_device_properties(0)
        gpu, memory = properties.name, f"{properties.total_memory / 2**30:.0f} GiB"
    git = "git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"
    driver = "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    return {
        "GPU": gpu,
        "memory": memory,
        "driver": _said(driver).split("\n")[0] or "unknown",
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "flatlab": f"{__version__}, commit {_said(git) or 'unknown'}",
        "CUDA_DEVICE_MAX_CONNECTIONS": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "default"),
        "date": time.strftime("%Y-%m-%d"),
    }


def _said(command: Sequence[str]) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()
    return ""


def slug(name: str) -> str:
    """A name as a part of a file name: NVIDIA H200 -> nvidia-h200."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass
class Report:
    """path: of its files, without the ending; None: it is kept nowhere.

    limits: bytes per second of a copy, and operations per second of a product, by precision.
    tables: rows by table. Times are in microseconds.  left: parts that have not been run.
    """

    machine: dict[str, str]
    path: Path | None
    limits: dict[str, float] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    profiles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, table: str, row: dict[str, Any]) -> None:
        self.tables.setdefault(table, []).append(row)

    def row(self, table: str, like: dict[str, Any]) -> dict[str, Any]:
        """The first row of a table that has these entries; another one if none has."""
        rows = self.tables.get(table, [])
        return next((row for row in rows if like.items() <= row.items()), {})

    def limit(self, least: Least, precision: str) -> dict[str, Any]:
        """The microseconds below which no step can be, as far as the limits are known."""
        found: dict[str, Any] = {"bytes": least.bytes, "operations": least.operations}
        with contextlib.suppress(KeyError):
            moving = 1e6 * least.bytes / self.limits["bytes"]
            computing = 1e6 * least.operations / self.limits[precision]
            found["limit_us"] = max(moving, computing)
            found["limit_by"] = "bytes" if moving > computing else "operations"
        return found

    def profile(self, name: str, kernels: list[dict[str, Any]], row: dict[str, Any]) -> None:
        """Keep the longest kernels of a row that is not fast enough."""
        if row.get("us", math.inf) > row.get("reach_us", 0.0):
            total = sum(kernel["us"] for kernel in kernels) or 1.0
            shares = [{**kernel, "share": kernel["us"] / total} for kernel in kernels]
            self.profiles[name] = shares[:LONGEST]

    def write(self) -> None:
        """Replace the files by what is known now."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**asdict(self), "path": None}, indent=1)
        for text, end in ((content, "json"), (self.text(), "md")):
            unfinished = self.path.parent / f"{self.path.name}.unfinished"
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self.path.parent / f"{self.path.name}.{end}")

    def text(self) -> str:
        gpu = FAKE if self.path is None else f"{self.machine['GPU']}, {self.machine['date']}"
        parts = [f"# Benchmark on a GPU: {gpu}", self._state(), _table(list(self.machine.items()))]
        sections = (_limits, _training, _launching, _variants, _evaluation, _geometry)
        parts += filter(None, (section(self) for section in sections))
        for name, kernels in self.profiles.items():
            parts.append(f"## What takes the time: {name}\n\n{_kernels(kernels)}")
        for name, error in self.failed.items():
            parts.append(f"## Failed: {name}\n\n```\n{error.strip()}\n```")
        return "\n\n".join(parts) + "\n"

    def _state(self) -> str:
        said = [f"Failed: {'; '.join(self.failed)}." if self.failed else "No part failed."]
        if self.left:
            said.append(f"Not run: {'; '.join(self.left)}.")
        rows = [row for table in self.tables.values() for row in table if "reach_us" in row]
        if rows and self.path:
            good = sum(row["us"] <= row["reach_us"] for row in rows)
            said.append(f"{good} of {len(rows)} rows reach what is to be reached on an H200.")
        return f"{' '.join(said)} All of it took {self.seconds:.0f} s."


def _table(rows: list[Any], head: Sequence[str] = ("", ""), right: int = 9) -> str:
    """right: the number of the first column of numbers."""
    ends = ["---:" if number >= right else "---" for number in range(len(head))]
    lines = [head, ends, *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def digits(value: float | None) -> str:
    """Three digits, or as many as there are before the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ms(value: float | None) -> str:
    return digits(None if value is None else value / 1e3)


def _reached(row: dict[str, Any]) -> str:
    ratio = row["us"] / row["reach_us"]
    return "yes" if ratio <= 1 else f"no, {digits(ratio)} times it"


def _share(row: dict[str, Any]) -> list[str]:
    if "limit_us" not in row:
        return ["–", "–"]
    return [row["limit_by"], f"{row['limit_us'] / row['us']:.0%}"]


def _limits(report: Report) -> str:
    found = report.limits
    if not found:
        return ""
    rows = [("copy, read and written", f"{found['bytes'] / 1e12:.3g} TB/s")]
    rows += [
        (f"matrix product, {name}", f"{speed / 1e12:.3g} TFLOP/s")
        for name, speed in found.items()
        if name != "bytes"
    ]
    return f"## Limits, as measured\n\n{_table(rows, ('', 'rate'), 1)}"


def _training(report: Report) -> str:
    rows = [
        (
            f"{row['count']} {row['networks']}",
            row["mode"],
            row["precision"],
            digits(row["us"]),
            digits(row["eager_us"]),
            f"{row['eager_us'] / row['us']:.3g}",
            digits(row["bytes"] / 1e6),
            digits(row["operations"] / 1e6),
            digits(row.get("limit_us")),
            *_share(row),
            digits(row["reach_us"]),
            _reached(row),
        )
        for row in report.tables.get("training", [])
    ]
    if not rows:
        return ""
    head = ("networks", "mode", "precision", "µs", "eager µs", "eager / ours", "MB", "MFLOP")
    head += ("limit µs", "by", "of limit", "to reach µs", "reached")
    return (
        "## Training: a step of one network, batches of 20\n\n"
        "`eager`: a loop over networks with autograd and torch.optim. `MB`, `MFLOP`: what such a "
        "step moves and computes at least; `limit`: the time for that at the rates above.\n\n"
        f"{_table(rows, head, 3)}"
    )


def _launching(report: Report) -> str:
    rows = [
        (
            f"{row['count']} {row['networks']}",
            row["precision"],
            digits(row["us"]),
            digits(row["host_us"]),
            digits(row.get("device_us")),
            digits(row.get("kernels")),
        )
        for row in report.tables.get("training", [])
        if "host_us" in row
    ]
    if not rows:
        return ""
    head = (
        "networks",
        "precision",
        "all µs",
        "host µs",
        "kernels µs",
        "kernels in a step of a stack",
    )
    return (
        "## Host and device: a step of one network\n\n"
        "`host`: until all is launched. `kernels`: the sum of their times, which is more than all "
        "of it where several run at once. A stack is one network in mode `graphs`.\n\n"
        f"{_table(rows, head, 2)}"
    )


def _variants(report: Report) -> str:
    training = report.tables.get("training", [])
    usual = {(row["networks"], row["precision"]): row["us"] for row in training}
    rows = []
    for row in report.tables.get("variants", []):
        before = usual.get((row["networks"], row["precision"]))
        ratio = "–" if before is None else f"{row['us'] / before:.2f}"
        times = digits(row["us"]), digits(before), ratio
        rows.append((row["networks"], row["precision"], row["variant"], *times))
    if not rows:
        return ""
    head = ("networks", "precision", "variant", "µs", "as above µs", "variant / above")
    return f"## Variants: a step of one network\n\n{_table(rows, head, 3)}"


def _evaluation(report: Report) -> str:
    rows = [
        (row["networks"], row["mode"], row["pieces"], digits(row["us"]))
        for row in report.tables.get("evaluation", [])
    ]
    if not rows:
        return ""
    head = ("networks", "mode", "samples in a piece", "µs")
    return (
        "## Evaluation: 1,000 samples of one network, float32\n\n"
        f"Loss and accuracy on the training set.\n\n{_table(rows, head, 2)}"
    )


def _geometry(report: Report) -> str:
    rows = []
    for row in report.tables.get("geometry", []):
        main = "reach_us" in row
        reach = [_ms(row["reach_us"]), _reached(row)] if main else ["", ""]
        share = _share(row) if main else ["", ""]
        limit = _ms(row.get("limit_us")) if main else ""
        kernels = f"{row['kernels']:,.0f}" if "kernels" in row else ""
        busy = _ms(row["device_us"]) if "device_us" in row else ""
        times = _ms(row["us"]), busy, kernels, limit, *share, *reach
        rows.append((row["precision"], row["variant"], *times))
    if not rows:
        return ""
    head = ("derivatives", "variant", "ms", "kernels ms", "kernels", "limit ms", "by", "of limit")
    head += ("to reach ms", "reached")
    return (
        "## Measuring: `geometry` of VGG-11, 100 samples, 10 outputs, per checkpoint\n\n"
        f"Gram matrices are in float64 always.\n\n{_table(rows, head, 2)}"
    )


def _kernels(kernels: list[dict[str, Any]]) -> str:
    rows = []
    for kernel in kernels:
        name = " ".join(kernel["name"].split()).replace("|", "\\|").replace("`", "'")
        name = name if len(name) <= 90 else f"{name[:60]} … {name[-27:]}"
        rows.append(
            (f"`{name}`", f"{kernel['calls']:,}", digits(kernel["us"]), f"{kernel['share']:.0%}")
        )
    return _table(rows, ("kernel", "calls", "µs", "share"), 1)
