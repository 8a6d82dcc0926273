"""Imports without collection of garbage end with it on, and keep no garbage for good."""

import subprocess
import sys

PROGRAM = """
import gc, weakref
from flatlab.jobs import quick_imports

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


def test_collection_goes_on_afterwards() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_collection_goes_on_after_a_failed_import() -> None:
    program = PROGRAM.split("with quick")[0] + (
        "try:\n    with quick_imports():\n        import flatlab.nothing\n"
        "except ModuleNotFoundError:\n    assert gc.isenabled()\nelse:\n    raise SystemExit(1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_jobs_with_torch_end_quietly() -> None:
    """A frozen triton would report itself as leaked; afterwards it can be imported."""
    program = (
        "import atexit, gc, sys\nfrom flatlab.jobs import quick_imports\n"
        "from flatlab.jobs.imports import freeze\ngc.disable()\natexit.register(freeze)\n"
        "with quick_imports():\n    import torch\n"
        "assert sys.modules.get('triton', torch) is not None\n"
        "try:\n    import triton\nexcept ModuleNotFoundError as error:\n"
        "    assert 'None' not in str(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
