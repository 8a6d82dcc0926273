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
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from flatlab import __version__
from flatlab.cli._main import WIDTH, load_plan
from flatlab.core import text
from flatlab.core.registry import PACKAGE, assignments, path_of
from flatlab.lab import plan

WORKS, ABSENT, BROKEN = "ok", "-", "broken"
LOCK = Path("envs/requirements.txt")
JOB_GB = 1.0
"""Memory of a job of the demo with torch, rounded up."""


class Finding(NamedTuple):
    """What is so about one subject, and what to do about it."""

    state: str
    subject: str
    said: str


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
    chosen = None
    if Path("config.yaml").is_file():
        try:
            chosen = load_plan()
        except plan.PlanError as error:
            yield Finding(BROKEN, "config", str(error))
    yield from (_cores(), _memory(), _gpu(bool(chosen and chosen.config.device == "cuda")))
    yield _data(chosen)


def _packages() -> Iterator[Finding]:
    """Python and packages against what the project asks for, and against the lock."""
    python, asked = _asked()
    fits = SpecifierSet(python).contains(platform.python_version())
    said = f"{platform.python_version()}, {sys.executable}"
    yield Finding(WORKS if fits else BROKEN, "Python", said if fits else f"{said}; not {python}")
    wanted = [Requirement(line) for line in asked]
    known = [(each.name, each.specifier, _installed(each.name)) for each in wanted]
    unfit = [f"{name}{spec}" for name, spec, at in known if not (at and spec.contains(at))]
    if unfit:
        remedy = "make sets up .venv, or: pip install '.[workflow]'"
        yield Finding(BROKEN, "packages", f"missing or unfit: {text.some(unfit)}; {remedy}")
        return
    if not LOCK.is_file():
        yield Finding(WORKS, "packages", f"all {len(known)} that flatlab asks for; no lock here")
        return
    lines = [line.rstrip(" \\") for line in LOCK.read_text().splitlines() if "==" in line]
    locked = [Requirement(line) for line in lines]
    here = [each for each in locked if each.marker is None or each.marker.evaluate()]
    versions = {each: _installed(each.name) for each in here}
    lacking = {each.name: at for each, at in versions.items() if not (at and at in each.specifier)}
    other = [f"{name} {at or 'missing'}" for name, at in lacking.items()]
    said = f"{len(here) - len(other)} of {len(here)} as locked"
    said += f"; others: {text.some(other)}: last bits may differ" if other else ""
    yield Finding(WORKS, "packages", said)


def _asked() -> tuple[str, list[str]]:
    """The versions of Python and the packages that flatlab asks for; with Snakemake in a clone."""
    clone = PACKAGE.parent / "pyproject.toml"
    if clone.is_file() and (PACKAGE.parent / "Snakefile").is_file():
        project = tomllib.loads(clone.read_text())["project"]
        extra = project["optional-dependencies"]["workflow"]
        return project["requires-python"], [*project["dependencies"], *extra]
    asked = metadata.requires("flatlab") or []
    needed = [line for line in asked if "extra ==" not in line]
    return metadata.metadata("flatlab")["Requires-Python"], needed


def _installed(name: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _cores() -> Finding:
    """Those of the machine, less what is withheld, which Snakemake does not see."""
    everywhere = os.cpu_count() or 1
    allowed = everywhere
    with contextlib.suppress(ModuleNotFoundError):
        allowed = importlib.import_module("joblib").cpu_count()
    advice = f"; {allowed} are yours: snakemake --cores {allowed}" if allowed < everywhere else ""
    return Finding(WORKS, "cores", f"{everywhere}{advice}")


def _memory() -> Finding:
    try:
        memory = importlib.import_module("psutil").virtual_memory()
    except ModuleNotFoundError:
        return Finding(BROKEN, "memory", "unknown: the package psutil is missing")
    said = f"{memory.available / 1e9:.1f} GB free of {memory.total / 1e9:.1f}"
    if memory.available >= 1e9 * JOB_GB:
        return Finding(WORKS, "memory", said)
    return Finding(BROKEN, "memory", f"{said}; a job takes up to {JOB_GB:g} GB: free some")


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


def _data(chosen: plan.Plan | None) -> Finding:
    """The data sets that are no part of a package, found as the literal FILES of each says."""
    configured = chosen.config.data_folder if chosen else None
    folder = Path(configured or os.environ.get("FLATLAB_DATA") or "data")
    declared = {key: assignments(path_of("data", key)).get("FILES") for key in plan.keys_of("data")}
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


def run_check(options: argparse.Namespace) -> int:
    """Check the configuration, the experiments and the hashes of all result files."""
    from flatlab.cli.show import LOADERS  # numpy and xarray, which the doctor may find missing
    from flatlab.core import store

    load_plan()
    for scale in plan.SCALES:
        load_plan(scale, packs="all")
    print("configuration and experiments: valid at every scale")
    checked, problems = 0, []
    for path in sorted(plan.RESULTS.rglob("*")):
        if path.parent.name == "networks":  # published for others, without a hash
            continue
        for load in (load for ending, load in LOADERS.items() if path.name.endswith(ending)):
            checked += 1
            try:
                load(path)
            except store.StoreError as error:
                problems.append(str(error))
    print("\n".join([*problems, f"{checked} result files checked, {len(problems)} damaged"]))
    return 1 if problems else 0
