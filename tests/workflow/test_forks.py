"""Jobs on this machine are copies of a process: what of Snakemake, and of Linux, that relies on."""

import inspect
import os
import signal

import pytest
from snakemake.script import PythonScript, ScriptBase

from flatlab.lab.jobs import forks

SCRIPT = "import os, sys\nopen({place!r}, 'a').write(f'{{os.getpid()}} ')\n{end}"


def test_snakemake_still_runs_a_script_by_the_method_that_is_replaced():
    assert [*inspect.signature(PythonScript.execute_script).parameters] == ["self", "fname", "edit"]
    known = inspect.signature(ScriptBase.__init__).parameters
    assert {"conda_env", "container_img", "env_modules", "rulename"} <= known.keys()
    assert "self.execute_script(fd.name" in inspect.getsource(ScriptBase.evaluate)


@pytest.fixture
def run(tmp_path):
    """Runs a script that notes its process and then ends so; returns the exit code."""

    def script(end: str) -> int:
        path = tmp_path / "job.py"
        path.write_text(SCRIPT.format(place=str(tmp_path / "processes"), end=end))
        return forks._run("draw", str(path))

    yield script
    vars(forks._servers).pop("draw").close()


def test_a_job_is_a_process_of_its_own_whose_exit_code_comes_back(run, tmp_path):
    assert [run(""), run("sys.exit(3)"), run("sys.exit('no')"), run("1 / 0")] == [0, 3, 1, 1]
    processes = (tmp_path / "processes").read_text().split()
    assert len({*processes}) == 4
    assert str(os.getpid()) not in processes


def test_what_kills_a_job_or_the_process_of_which_it_is_a_copy_fails_the_job_alone(run):
    assert run("os.kill(os.getpid(), 9)") == 128 + signal.SIGKILL
    assert run("os.kill(os.getppid(), 9)") == 1
    assert run("") == 0


def test_signals_are_for_the_copy(run):
    assert run("os.kill(os.getppid(), 2)") == 0
    assert run("os.kill(os.getpid(), 15)") == 128 + signal.SIGTERM
