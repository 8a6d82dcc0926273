"""Jobs on this machine as copies of a process that has imported what they need.

A job of small networks takes some seconds, and two more to import torch and xarray. Here each
thread of Snakemake keeps such a process, which copies itself (`fork`) for each job. The copy reads
the job's script as a new process would.
"""

import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from importlib import import_module
from typing import Any

IMPORTED = {
    "compute": ("torch", "sympy", "flatlab.lab.train.run", "flatlab.families.geometry"),
    "draw": ("flatlab.lab.figures.render", "flatlab.lab.figures.style", "flatlab.lab.claims"),
}
"""What jobs of both kinds need, and what takes longest; sympy is imported by torch's `vmap`."""
COMPUTES = ("train", "measure")
_servers = threading.local()


def use(script: Any) -> None:
    """Let Snakemake run jobs in its own environment so, on Linux.

    macOS has libraries that do not survive a fork.

    script: `snakemake.script.PythonScript`, of which `execute_script` is replaced. It is an
        internal: tests/workflow/test_forks.py says if it changes.
    """
    if sys.platform != "linux":
        return
    plain = script.execute_script

    def execute_script(self: Any, fname: str, edit: bool = False) -> None:
        if self.conda_env or self.container_img or self.env_modules:
            plain(self, fname, edit)
        elif code := _run("compute" if self.rulename.startswith(COMPUTES) else "draw", fname):
            raise subprocess.CalledProcessError(code, [sys.executable, fname])

    script.execute_script = execute_script


def _run(kind: str, script: str) -> int:
    """The exit code of a script that a copy of this thread's process has run."""
    server = getattr(_servers, kind, None)
    if server is None:
        server, its = socket.socketpair()
        command = [sys.executable, "-m", __name__, kind]
        stdin = (os.POSIX_SPAWN_DUP2, its.fileno(), 0)
        os.posix_spawn(sys.executable, command, os.environ, file_actions=[stdin])
        its.close()
        setattr(_servers, kind, server)
    server.sendall(os.fsencode(script))
    if answer := server.recv(1):
        return answer[0]
    server.close()  # it was killed
    delattr(_servers, kind)
    return 1


def _code_of(script: str) -> int:
    """The exit code of a script, which is run as a process of its own would."""
    sys.argv = [script]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve(kind: str) -> None:
    """Import; then copy this process for each script that stdin names, and answer its exit code.

    Signals are for the copies, which save their state: this process ends with the one that started
    it. Copies end without Python's own end, which searches all that was imported: half a second.
    """
    from flatlab.lab.jobs.memory import quick_imports

    asked = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signals = {
        each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)
    }
    with quick_imports():
        for name in ("snakemake.script", "flatlab.lab.jobs.bodies", *IMPORTED[kind]):
            import_module(name)
    while script := os.fsdecode(asked.recv(4096)):
        if not (copy := os.fork()):
            asked.close()
            for each, handler in signals.items():
                signal.signal(each, handler)
            code = _code_of(script)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
        asked.sendall(bytes([code if code >= 0 else 128 - code]))  # as shells say it


if __name__ == "__main__":
    serve(sys.argv[1])
