"""The names that modules had before, by which fingerprints and the imports of studies know them.

A module that only moves computes what it computed: fingerprints hash it, and what it imports, under
its former name, so that nothing runs again. A study that imports a former name gets the module of
today, and one sentence with its name.
"""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "flatlab.core": "flatlab.plan",
    "flatlab.core.progress": "flatlab.jobs.progress",
    "flatlab.core.resume_state": "flatlab.jobs.resume_state",
    "flatlab.core.store": "flatlab.store",
    "flatlab.lab": "flatlab",
    "flatlab.lab.figures": "flatlab.plotting",
    "flatlab.lab.kinds": "flatlab.experiments",
    "flatlab.lab.kinds.user_networks": "flatlab.execution",
    **{
        f"flatlab.lab.kinds.user_networks.{name}": f"flatlab.execution.own_{name}"
        for name in ("code", "measurement", "networks", "samples")
    },
    "flatlab.lab.publish": "flatlab.publication",
}
"""Former names by today's; what lies below them moved with them, unless it is listed as well."""

_SAME_NAME = {
    "core": {
        f"flatlab.plan.{name}": name
        for name in ("options", "paths", "registry", "schema", "studies")
    },
    "lab": {f"flatlab.{name}": name for name in ("claims", "jobs", "plan", "tables", "train")},
}
CURRENT = {
    **{former: name for name, former in MOVED.items() if former not in ("flatlab", "flatlab.plan")},
    **{
        old: f"flatlab.{half}.{name}"
        for half in _SAME_NAME
        for old, name in _SAME_NAME[half].items()
    },
}
"""Today's names by former ones."""


def _mapped(name: str, names: dict[str, str]) -> str:
    start, rest = name, ""
    while start:
        if start in names:
            return names[start] + rest
        start, dot, last = start.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return name


def former(module: str) -> str:
    """The name by which fingerprints know a module."""
    return _mapped(module, MOVED)


def current(module: str) -> str:
    """Where a module lies today that a study imports by its former name, or by today's."""
    return _mapped(module, CURRENT)


class _Finder(MetaPathFinder, Loader):
    """Imports the module of today in place of a former one."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if current(name) != name else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = current(spec.name)
        parent, _, last = spec.name.rpartition(".")
        if name != f"{current(parent)}.{last}":  # else the sentence of its folder says it
            warnings.warn(f"{spec.name} is now {name}", FutureWarning, stacklevel=2)
        module = importlib.import_module(name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the machinery has replaced it


sys.meta_path.insert(0, _Finder())
