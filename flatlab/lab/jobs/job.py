"""What every job does around its computation: lock its outputs, log, record its provenance."""

import atexit
import contextlib
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import xarray as xr

from flatlab.core.paths import record_of
from flatlab.core.store import hash_of, replace, save_dataset, save_json, save_weights
from flatlab.core.studies import PACKAGE, user_studies
from flatlab.lab.jobs.lock import Guard
from flatlab.lab.jobs.memory import freeze, keep_freed_memory, take_gpu
from flatlab.version import __version__

HASHED = (".zarr.zip", ".safetensors")
"""Inputs of which a record has the hash."""


class RunningJob:
    """One job: its named inputs, outputs, params and wildcards, and the device that it uses."""

    def __init__(self, about: Any, guards: Sequence[Guard]) -> None:
        self.input, self.output, self.params = about.input, about.output, about.params
        self.wildcards, self.config = about.wildcards, about.config
        self.device = about.config.get("device", "cpu")
        self._guards = guards
        self._first = next(iter(about.output))

    @property
    def unfinished(self) -> str:
        """The folder for the state from which an interrupted job resumes; success deletes it.

        It is not an output: Snakemake deletes the outputs of a failed job.
        """
        stem = self._first.removesuffix(".safetensors").removesuffix(".zarr.zip")
        return f"{stem}.unfinished"

    def save(self, *content: Any, **named: Any) -> None:
        """Write the outputs: one unnamed content for a single output, otherwise by name."""
        for guard in self._guards:
            guard.check()
        paths = [getattr(self.output, name) for name in named] or [self._first]
        for path, value in zip(paths, content or named.values(), strict=True):
            if isinstance(value, xr.Dataset):
                save_dataset(path, value)
            elif isinstance(value, tuple):  # weights: arrays, description
                save_weights(path, *value)
            elif isinstance(value, bytes):  # a picture
                replace(path, value)
            else:
                save_json(path, value)


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[RunningJob]:
    """A `running` job of the workflow, with its warnings and its progress in the log.

    An error ends the process with one sentence on stderr; its traceback is in the log. What jobs
    make lives about as long as they: until one has imported torch (`quick_imports`) garbage is not
    collected, nor is it at the end of the process, both of which would take a quarter of the time.
    """
    log = Path(snakemake.log[0])
    gc.disable()
    atexit.register(freeze)
    try:
        with contextlib.ExitStack() as stack:
            # First, so that a job which is refused leaves the log of the other one alone.
            this = stack.enter_context(running(snakemake))
            log.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(contextlib.redirect_stderr(stack.enter_context(log.open("w"))))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("default")
            try:
                yield this
            except Exception:
                traceback.print_exc()
                raise
    except Exception as error:
        known = type(error).__module__.startswith("flatlab")
        sentence = str(error) if known else f"{type(error).__name__}: {error}"
        print(f"\nflatlab {snakemake.rule}: {sentence}\nlog: {log}\n", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        gc.enable()


@contextlib.contextmanager
def running(about: Any, together: int = 1) -> Iterator[RunningJob]:
    """Lock the outputs, use one thread and one GPU, write a `.provenance.json` beside each output.

    about: rule, input, output, params, wildcards, config and resources, as in Snakemake's scripts.
    together: how many jobs share the time, of which each records an equal part.
    """
    start, spent = time.time(), time.process_time()
    with contextlib.ExitStack() as stack:
        guards = [stack.enter_context(Guard(output)) for output in about.output]
        _single_thread()
        keep_freed_memory()
        _touch_if_in_future(about.input)
        # Before they are read: what changes meanwhile does not count as used.
        inputs = {path: hash_of(path) for path in about.input if path.endswith(HASHED)}
        this = RunningJob(about, guards)
        if this.device == "cuda" and getattr(about.resources, "gpu", 0):
            take_gpu()
        resumed = os.path.isdir(this.unfinished)
        yield this
        provenance = {**_provenance(about, start), "inputs": inputs}
        provenance["runtime_s"] = round((time.time() - start) / together, 3)
        provenance["processor_s"] = round((time.process_time() - spent) / together, 3)
        provenance["resumed"] = resumed  # then these are times of its last part alone
        for output in about.output:
            save_json(record_of(output), provenance)
        shutil.rmtree(this.unfinished, ignore_errors=True)


def _touch_if_in_future(inputs: Iterable[str]) -> None:
    """Set the date of inputs to now if a machine whose clock is ahead has written them.

    Snakemake would discard outputs that are older than their inputs.
    """
    for path in inputs:
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime > time.time():
                os.utime(path)


def _single_thread() -> None:
    """Use one thread: the number of threads changes the last bits of a result."""
    if torch := sys.modules.get("torch"):  # this package does not import it
        torch.set_num_threads(1)
    elif os.environ.get("OMP_NUM_THREADS") != "1":
        warnings.warn("OMP_NUM_THREADS is not 1: the last bits of results may differ", stacklevel=2)


def commit_of(folder: str | Path = ".") -> str:
    """The commit of a folder, with "-dirty" if files differ; "" if it is under no version control.

    folder: by default the one that the job runs in.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()
    return ""


def origin() -> dict[str, str]:
    """Which flatlab computes: `version`, `commit` ("" if not known) and, in words, `installed`."""
    url: dict[str, Any] = {}
    installed = "not installed, run from its folder"
    with contextlib.suppress(metadata.PackageNotFoundError):
        distribution = metadata.distribution("flatlab")
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        installed = "from a package index"
        if url.get("dir_info", {}).get("editable"):
            installed = "editable, from a checkout"
        elif "vcs_info" in url:
            installed = f"from {url['url']}"
        elif url:
            installed = f"from {url['url'].rpartition('/')[2]}"
    pinned = url.get("vcs_info", {}).get("commit_id", "")
    in_checkout = (PACKAGE.parent / "pyproject.toml").is_file()
    commit = pinned or (commit_of(PACKAGE.parent) if in_checkout else "")
    return {"version": __version__, "commit": commit, "installed": installed}


def origin_in_words() -> str:
    """The same in a sentence."""
    made = origin()
    commit = f", commit {made['commit']}" if made["commit"] else ""
    return f"Made with flatlab {made['version']}{commit}; installed: {made['installed']}."


def _provenance(snakemake: Any, start: float) -> dict[str, Any]:
    names = ("numpy", "scipy", "torch", "xarray", "zarr", "matplotlib", "seaborn")
    loaded = {name: sys.modules[name] for name in names if name in sys.modules}
    return {
        "rule": snakemake.rule,
        "wildcards": dict(snakemake.wildcards.items()),
        "code": snakemake.params.get("code"),
        "commit": commit_of(),
        **({"flatlab": origin()} if user_studies() else {}),  # the commit is the study's
        "settings": snakemake.params.get("settings"),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)),
        "host": platform.node(),
        "machine": platform.machine(),
        "gpu": getattr(snakemake.resources, "gpu", 0),
        "device": snakemake.config.get("device", "cpu"),
        "threads": loaded["torch"].get_num_threads() if "torch" in loaded else 1,
        "python": platform.python_version(),
        "versions": {n: str(module.__version__) for n, module in loaded.items()},
    }
