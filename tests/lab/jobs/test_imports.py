"""What makes jobs faster has no side effects: imports without collection of garbage, and memory."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import gc, weakref
from flatlab.lab.jobs import quick_imports

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

with quick_imports():
    assert not gc.isenabled()
    import json
frozen = gc.get_freeze_count()
assert frozen > 1000
assert gc.isenabled()
later = cycle()
with quick_imports():
    pass
assert gc.get_freeze_count() == frozen  # garbage between two of them is not kept for good
gc.collect()
assert later() is None
"""


def outcome(program: str) -> subprocess.CompletedProcess[str]:
    """What a program of Python does that must succeed."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


def test_collection_goes_on_afterwards() -> None:
    outcome(PROGRAM)


def test_collection_goes_on_after_a_failed_import() -> None:
    program = PROGRAM.split("with quick")[0] + (
        "try:\n    with quick_imports():\n        import flatlab.nothing\n"
        "except ModuleNotFoundError:\n    assert gc.isenabled()\nelse:\n    raise SystemExit(1)\n"
    )
    outcome(program)


def test_jobs_with_torch_end_quietly() -> None:
    """A frozen triton would report itself as leaked; afterwards it can be imported."""
    program = (
        "import atexit, gc, sys\nfrom flatlab.lab.jobs import quick_imports\n"
        "from flatlab.lab.jobs.imports import freeze\ngc.disable()\natexit.register(freeze)\n"
        "with quick_imports():\n    import torch\n"
        "assert sys.modules.get('triton', torch) is not None\n"
        "try:\n    import triton\nexcept ModuleNotFoundError as error:\n"
        "    assert 'None' not in str(error)\n"
    )
    assert outcome(program).stderr == ""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_memory_is_used_again() -> None:
    """64 MB in pieces of 1 MB, freed and asked for again: by default some ten thousand pages."""
    program = (
        "import resource, sys, numpy as np\nimport flatlab.lab.jobs\n"
        "sys.modules['flatlab.lab.jobs.job'].keep_freed_memory()\n"
        "pages = []\nfor _ in range(6):\n    several = [np.ones(2**17) for _ in range(64)]\n"
        "    del several\n    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)\n"
        "print(pages[-1] - pages[1])\n"
    )
    assert int(outcome(program).stdout) < 1000
