"""What makes jobs faster has no side effects: imports without collection of garbage, and memory."""

import ctypes
import subprocess
import sys

import pytest

CYCLE = """
import gc, weakref
from flatlab.lab.jobs.memory import quick_imports

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)
"""
COLLECTED = f"""{CYCLE}
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
FAILED = f"""{CYCLE}
try:
    with quick_imports():
        import flatlab.nothing
except ModuleNotFoundError:
    assert gc.isenabled()
else:
    raise SystemExit(1)
"""
TORCH = """
import atexit, gc, sys
from flatlab.lab.jobs.memory import freeze, quick_imports
gc.disable()
atexit.register(freeze)
with quick_imports():
    import torch
assert sys.modules.get('triton', torch) is not None
try:  # a frozen triton would report itself as leaked; afterwards it can be imported
    import triton
except ModuleNotFoundError as error:
    assert 'None' not in str(error)
"""
PAGES = """
import resource, numpy as np
from flatlab.lab.jobs.memory import keep_freed_memory
keep_freed_memory()
pages = []
for _ in range(6):
    several = [np.ones(2**17) for _ in range(64)]
    del several
    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(pages[-1] - pages[1])
"""


def outcome(program):
    """What a program of Python does that must succeed, and say nothing of errors."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("program", [COLLECTED, FAILED, TORCH], ids=["all", "failed", "torch"])
def test_collection_goes_on_after_imports_which_end_quietly(program):
    outcome(program)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_memory_is_used_again():
    """64 MB in pieces of 1 MB, freed and asked for again: by default some ten thousand pages."""
    assert int(outcome(PAGES)) < 1000
