"""The process of a workflow: what its jobs inherit, and where Snakemake keeps its records."""

import os
import platform
import shutil
import tempfile
from pathlib import Path

from flatlab.core.schema import PlanError


def set_job_environment(folder: str) -> None:
    """Make the jobs of this process import flatlab from `folder` and use one thread each.

    The number of threads changes the last bits of a result; several jobs run in parallel instead.
    """
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    ours, path = str(Path(folder, "profiles", "slurm", "bin")), os.environ.get("PATH", "")
    if shutil.which("sbatch") and ours not in path.split(os.pathsep):
        os.environ["PATH"] = f"{ours}{os.pathsep}{path}"  # status commands that keep trying


def check_records() -> None:
    """Raise `PlanError` if Snakemake could not keep its records, instead of its traceback."""
    records = Path(".snakemake")
    try:
        (records / "locks").mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=records).close()
    except OSError as error:
        raise PlanError(
            f"{records.absolute()} cannot be written to ({error.strerror}); Snakemake keeps its "
            "records there"
        ) from None


def record_start() -> None:
    """Record the machine and the process of this run for `profiles/slurm/resume`."""
    Path(".snakemake", "started").write_text(f"{platform.node()} {os.getpid()}\n")
