"""Say what works on this machine, what does not, and what to do about it.

Exit status: 1 if something is broken that `make` needs, 0 otherwise. What is absent but not needed,
such as a GPU, is marked with a dash.
"""

import argparse
import ast
import contextlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from flatlab import __version__
from flatlab.cli import _text as text
from flatlab.cli._main import WIDTH, load_plan
from flatlab.core.registry import PACKAGE, assignments, keys_of, path_of
from flatlab.core.schema import PlanError
from flatlab.lab.plan.plan import Plan

GROUP = "Plan and run"
WORKS, ABSENT, BROKEN = "ok", "-", "broken"
LOCK = Path("envs/requirements.txt")
MANY = 3
"""How many packages a line names."""
CGROUP = Path("/sys/fs/cgroup")
JOB_GB = 1.0
"""Memory of a job of the demo with torch, rounded up; its results need less space on disk."""


class Finding(NamedTuple):
    """What is so about one subject, and what to do about it."""

    state: str
    subject: str
    said: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(options: argparse.Namespace) -> int:
    rows = list(findings())
    print(f"flatlab {__version__} in {Path.cwd()}\n{text.table('<<<', *rows, width=WIDTH)}")
    broken = [each.subject for each in rows if each.state == BROKEN]
    able = "make" if Path("config.yaml").is_file() else "flatlab measure"
    told = f"needs what is broken: {', '.join(broken)}" if broken else "can run here"
    print(f"\n{able} {told}")
    return int(bool(broken))


def findings() -> Iterator[Finding]:
    """One for each subject, in the order in which they are needed."""
    yield from _packages()
    chosen: Plan | None = None
    if not Path("config.yaml").is_file():
        said = "none here: measure, rank and show work; figures need a clone of the project"
        yield Finding(ABSENT, "checkout", said)
    else:
        try:
            chosen = load_plan()
            papers = chosen.config.papers
            named = papers if isinstance(papers, str) else ", ".join(papers)
            said = f"scale {chosen.config.scale}, papers {named}, device {chosen.config.device}"
            yield Finding(WORKS, "config", said)
        except PlanError as error:
            yield Finding(BROKEN, "config", str(error))
    yield from (_cores(), _memory(), _disk(), _gpu(bool(chosen and chosen.config.device == "cuda")))
    yield _data(chosen)
    if Path("config.yaml").is_file():
        yield from (_slurm(), _object_store())


def _packages() -> Iterator[Finding]:
    """Python and packages against what the project asks for, and against the lock."""
    try:
        requirements = importlib.import_module("packaging.requirements")
        specifiers = importlib.import_module("packaging.specifiers")
    except ModuleNotFoundError:
        yield Finding(BROKEN, "packages", "packaging is missing: pip install packaging, then again")
        return
    python, asked = _asked()
    fits = specifiers.SpecifierSet(python).contains(platform.python_version())
    said = f"{platform.python_version()}, {sys.executable}"
    yield Finding(WORKS if fits else BROKEN, "Python", said if fits else f"{said}; not {python}")
    wanted = [requirements.Requirement(line) for line in asked]
    known = [(each.name, each.specifier, _installed(each.name)) for each in wanted]
    unfit = [f"{name}{spec}" for name, spec, at in known if not (at and spec.contains(at))]
    if unfit:
        remedy = "make sets up .venv, or: pip install '.[workflow]'"
        yield Finding(BROKEN, "packages", f"missing or unfit: {_some(unfit)}; {remedy}")
        return
    if not LOCK.is_file():
        yield Finding(WORKS, "packages", f"all {len(known)} that flatlab asks for; no lock here")
        return
    lines = [line.rstrip(" \\") for line in LOCK.read_text().splitlines() if "==" in line]
    locked = [requirements.Requirement(line) for line in lines]
    here = [each for each in locked if each.marker is None or each.marker.evaluate()]
    versions = [(each, _installed(each.name)) for each in here]
    other = [f"{each.name} {at}" for each, at in versions if at and not each.specifier.contains(at)]
    absent = [each.name for each, at in versions if at is None]
    said = f"{len(here) - len(other) - len(absent)} of {len(here)} as locked"
    said += f"; others: {_some(other)}: last bits may differ" if other else ""
    said += f"; not here: {_some(absent)}" if absent else ""
    yield Finding(WORKS, "packages", said)


def _asked() -> tuple[str, list[str]]:
    """The versions of Python and the packages that flatlab asks for; with Snakemake in a clone."""
    for folder in (Path(), PACKAGE.parent):  # here, or where this code lies
        with contextlib.suppress(OSError, tomllib.TOMLDecodeError):
            project = tomllib.loads((folder / "pyproject.toml").read_text()).get("project", {})
            if project.get("name") == "flatlab":
                extra = project["optional-dependencies"]["workflow"]
                return project["requires-python"], [*project["dependencies"], *extra]
    asked = metadata.requires("flatlab") or []
    return metadata.metadata("flatlab")["Requires-Python"], [
        line for line in asked if "extra ==" not in line
    ]


def _installed(name: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"{', '.join(names[:MANY])}{more}"


def _cores() -> Finding:
    """Those of the machine, less what affinity and control groups withhold."""
    everywhere = os.cpu_count() or 1
    try:
        allowed = importlib.import_module("joblib").cpu_count()
    except ModuleNotFoundError:
        allowed = everywhere
    if allowed == everywhere:
        return Finding(WORKS, "cores", f"{everywhere}")
    advice = f"Snakemake does not see quotas, so run: snakemake --cores {allowed}"
    return Finding(WORKS, "cores", f"{allowed} of {everywhere} are yours; {advice}")


def _memory() -> Finding:
    try:
        memory = importlib.import_module("psutil").virtual_memory()
    except ModuleNotFoundError:
        return Finding(BROKEN, "memory", "unknown: the package psutil is missing")
    total, free = memory.total, memory.available
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # control groups, version 2 and 1
        with contextlib.suppress(OSError, ValueError):
            limit = int((CGROUP / name).read_text())
            total, free = min(total, limit), min(free, limit)
    jobs = int(free / 1e9 / JOB_GB)
    said = f"{free / 1e9:.1f} GB free of {total / 1e9:.1f}"
    if not jobs:
        return Finding(BROKEN, "memory", f"{said}; a job takes up to {JOB_GB:g} GB: free some")
    enough = jobs >= (os.cpu_count() or 1)
    advice = "" if enough else f"; for the demo's jobs, at most: snakemake --cores {jobs}"
    return Finding(WORKS, "memory", said + advice)


def _disk() -> Finding:
    free = shutil.disk_usage(".").free / 1e9
    if not os.access(".", os.W_OK):
        return Finding(BROKEN, "disk", f"no permission to write in {Path.cwd()}")
    if free < JOB_GB:
        return Finding(
            BROKEN, "disk", f"{free:.1f} GB free; make room for {JOB_GB:g} GB of results"
        )
    return Finding(WORKS, "disk", f"{free:.0f} GB free; flatlab estimate says what a run takes")


def _gpu(needed: bool) -> Finding:
    """Listed by nvidia-smi; only if there is one, another process asks torch whether it sees it."""
    listed = _output("nvidia-smi", "--list-gpus")
    names = [line.partition(":")[2].partition("(")[0].strip() for line in listed.splitlines()]
    if not names:
        said = "nvidia-smi lists none; the scales demo and short need none"
        remedy = f"{said}, but config.yaml says device: cuda; set it to cpu"
        return Finding(BROKEN, "GPU", remedy) if needed else Finding(ABSENT, "GPU", said)
    asked = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    seen = _output(sys.executable, "-c", asked).strip()
    said = f"{len(names)} x {names[0]}"
    if seen not in ("", "0"):
        return Finding(WORKS, "GPU", f"{said}; torch sees {seen}: snakemake --config device=cuda")
    said += "; torch sees none: its build does not fit the driver, or CUDA_VISIBLE_DEVICES is empty"
    return Finding(BROKEN if needed else ABSENT, "GPU", said)


def _output(*command: str) -> str:
    """What a program prints; "" if there is none, or if it fails or takes more than a minute."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout
    return ""


def _data(chosen: Plan | None) -> Finding:
    """The data sets that are no part of a package, found as the literal FILES of each says."""
    configured = chosen.config.data_folder if chosen else None
    folder = Path(configured or os.environ.get("FLATLAB_DATA") or "data")
    declared = {key: assignments(path_of("data", key)).get("FILES") for key in keys_of("data")}
    known = {key: ast.literal_eval(files) for key, files in declared.items() if files}
    paths = {path.name for up in ("*", "*/*", "*/*/*") for path in folder.glob(up)}
    present = [key for key, names in known.items() if paths & {*names}]
    said = f"{', '.join(present) or 'none'} in {folder}"
    if not chosen:
        return Finding(WORKS, "data", said)
    keys = {key for figure in chosen.figures for key in figure.experiments}
    needed = {name for key in keys for name in chosen.experiment(key).data_sets}
    if lacking := sorted((needed & {*known}) - {*present}):
        remedy = "flatlab downloads what it can, see docs/data.md"
        return Finding(ABSENT, "data", f"{said}; {', '.join(lacking)} needed: {remedy}")
    return Finding(WORKS, "data", f"{said}; config.yaml needs no other")


def _slurm() -> Finding:
    plugin = _installed("snakemake-executor-plugin-slurm")
    if not shutil.which("sbatch"):
        return Finding(ABSENT, "Slurm", "no sbatch here: jobs run on this machine")
    if not plugin:
        return Finding(ABSENT, "Slurm", "its plugin is missing: pip install '.[cluster]'")
    return Finding(WORKS, "Slurm", f"plugin {plugin}: snakemake --workflow-profile profiles/slurm")


def _object_store() -> Finding:
    plugin = _installed("snakemake-storage-plugin-s3")
    if not plugin:
        said = "no plugin: results lie on disk; for S3: pip install '.[cluster]'"
        return Finding(ABSENT, "objects", said)
    if not os.environ.get("SNAKEMAKE_STORAGE_S3_ACCESS_KEY"):
        return Finding(ABSENT, "objects", f"plugin {plugin}, but no key is set (docs/cluster.md)")
    return Finding(WORKS, "objects", f"plugin {plugin} and a key (docs/cluster.md)")
