"""A copy of the repository in a folder, in which tests run its own Snakefile."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SMALL = """
FIGURES["figH8"] = Matrix(
    "mlp-grid",
    quantities=CORRELATED[:2],
    title="two quantities",
    caption=(captions.AT_THE_END, captions.PAIRS),
    size_inches=(4.0, 4.0),
)
"""
"""The one figure, of two of its quantities."""

LEAKING = ("OMP_", "MKL_", "OPENBLAS_", "PYTHON", "SNAKEMAKE", "FLATLAB", "PYTEST")
TIMEOUT_S = 300
JOB = re.compile(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What one call of Snakemake did."""

    output: str

    @property
    def order(self) -> list[str]:
        """The jobs that it started, or would start: "measure geometry lr0.1-b20-s0-1"."""
        return [_job(rule, fields) for rule, fields in JOB.findall(self.output)]

    @property
    def jobs(self) -> list[str]:
        """The same, sorted."""
        return sorted(self.order)

    @property
    def remedy(self) -> list[str]:
        """The arguments of the command by which an error says that a file is rebuilt."""
        command = re.findall(r"rebuild it with: (.+)", self.output)[0]
        program, *arguments = shlex.split(command)
        assert program == "snakemake"
        return arguments


def _job(rule: str, fields: str) -> str:
    line = re.search(r"^    wildcards: (.*)$", fields, re.MULTILINE)
    pairs = dict(pair.split("=", 1) for pair in line[1].split(", ")) if line else {}
    here = ("scale", "paper", *(["experiment"] if pairs.get("experiment") == "mlp-grid" else []))
    named = [value for key, value in pairs.items() if key not in here]
    return " ".join([rule, *named])


class Lab:
    """A copy of the repository in `folder`."""

    PACKS = ("lr0.05-b20-s0-1", "lr0.1-b20-s0-1")
    FAMILIES = ("accuracy", "geometry")
    ANALYSIS = ("table", "correlate", "draw figH8", "verify figH8", "score", "all")
    GRID = "papers/chen2026/experiments/mlp-grid.yaml"
    TABLE = "results/demo/tables/mlp-grid.zarr.zip"
    FIGURE = "results/demo/figures/chen2026/figH8"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    @staticmethod
    def weights(pack: str) -> str:
        """The weights of one pack."""
        return f"results/demo/models/mlp-grid/{pack}.safetensors"

    @staticmethod
    def curves(pack: str) -> str:
        """The training curves of one pack: the second output of its job."""
        return f"results/demo/models/mlp-grid/{pack}.curves.zarr.zip"

    @staticmethod
    def metrics(family: str, pack: str) -> str:
        """The quantities of one family, measured on one pack."""
        return f"results/demo/metrics/mlp-grid/{family}/{pack}.zarr.zip"

    @classmethod
    def jobs_from_training(cls, *packs: str) -> list[str]:
        """Training these packs, measuring them, and the analysis."""
        measured = [f"measure {family} {pack}" for family in cls.FAMILIES for pack in packs]
        return [*(f"train {pack}" for pack in packs), *measured, *cls.ANALYSIS]

    def __truediv__(self, path: str) -> Path:
        return self.folder / path

    def declare(self, paper: str, *figures: str) -> None:
        """Let a paper have these of its figures, and no others."""
        path = f"papers/{paper}/figures.py"
        chosen = f"FIGURES = {{key: FIGURES[key] for key in {figures}}}"
        (self / path).write_text(f"{(ROOT / path).read_text()}\n{chosen}\n")
        if "figH8" in figures:
            self.append(path, SMALL)

    def copy(self, folder: Path) -> Lab:
        """The same laboratory elsewhere, with all results, dates and Snakemake's records."""
        shutil.copytree(self.folder, folder)
        return Lab(folder)

    def start(
        self, *arguments: str, program: str = "snakemake", **environment: str
    ) -> subprocess.Popen[str]:
        """Start Snakemake, or another program of the project, in a process group of its own."""
        return self.start_command(sys.executable, "-m", program, *arguments, **environment)

    def start_command(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start any program in the laboratory; the same Python is first on its path."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith(LEAKING)}
        ours["PATH"] = f"{Path(sys.executable).parent}:{ours['PATH']}"
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**ours, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def stop(self) -> None:
        """End what still runs."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def finish(self, process: subprocess.Popen[str], succeeds: bool = True) -> Run:
        """Wait for what `start` has started."""
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.stop()
            raise
        assert (process.returncode == 0) == succeeds, output
        return Run(output)

    @staticmethod
    def wait(process: subprocess.Popen[str], found: Callable[[], Any], seconds: float = 120) -> Any:
        """Wait for what a process brings about before it ends; returns what is found."""
        deadline = time.monotonic() + seconds
        while not (it := found()):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "it does not come"
            time.sleep(0.002)
        return it

    def snakemake(self, *arguments: str, succeeds: bool = True) -> Run:
        """Run Snakemake to its end."""
        return self.finish(self.start(*arguments), succeeds)

    def runs_exactly(self, *jobs: str, targets: tuple[str, ...] = ()) -> None:
        """A run does these jobs, and then nothing is left to do."""
        assert self.snakemake("--cores", "2", *targets).jobs == sorted(jobs)
        if jobs:
            self.has_nothing_to_do(*targets)

    def plans_exactly(self, *jobs: str, targets: tuple[str, ...] = ()) -> None:
        """A run would do these jobs: a dry run lists them."""
        assert self.snakemake("--dry-run", *targets).jobs == sorted(jobs)

    def has_nothing_to_do(self, *targets: str) -> None:
        """A dry run plans no job."""
        self.plans_exactly(targets=targets)

    def append(self, path: str, line: str) -> None:
        """Add a line to the end of a file."""
        with (self / path).open("a") as file:
            file.write(f"\n{line}\n")

    def rewrite_grid(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the content of the grid's file."""
        path = self / self.GRID
        content = yaml.safe_load(path.read_text())
        content["scales"]["paper"] = {}  # the same blocks of seeds at each scale
        change(content)
        path.write_text(yaml.safe_dump(content, sort_keys=False))

    def damage(self, path: str) -> None:
        """Flip a bit in the middle of a file, in a way that its size and date do not show."""
        content, date = bytearray((self / path).read_bytes()), (self / path).stat()
        content[len(content) // 2] ^= 1
        (self / path).write_bytes(content)
        os.utime(self / path, ns=(date.st_atime_ns, date.st_mtime_ns))

    def results(self) -> dict[str, bytes]:
        """Every result file, without the records of when and where it was made."""
        files = (path for path in (self / "results").rglob("*") if path.is_file())
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in files
            if not path.name.endswith(".provenance.json")
        }
