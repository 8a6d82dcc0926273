"""Imports without collection of garbage leave it as it was, and take nothing away for good."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, weakref
from flatlab.jobs import quick_imports

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

{before}
with quick_imports():
    assert not gc.isenabled()
    import json
frozen = gc.get_freeze_count()
assert frozen > 1000
assert gc.isenabled() == {enabled}
later = cycle()
with quick_imports():
    pass
assert gc.get_freeze_count() == frozen  # garbage between two of them is not kept for good
gc.collect()
assert later() is None
"""


@pytest.mark.parametrize(("before", "enabled"), [("", True), ("gc.disable()", False)])
def test_collection_goes_on_afterwards(before: str, enabled: bool) -> None:
    program = PROGRAM.format(before=before, enabled=enabled)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_collection_goes_on_after_a_failed_import() -> None:
    program = PROGRAM.split("{before}")[0] + (
        "try:\n    with quick_imports():\n        import flatlab.nothing\n"
        "except ModuleNotFoundError:\n    assert gc.isenabled()\nelse:\n    raise SystemExit(1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
