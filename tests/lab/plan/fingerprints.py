"""The module of fingerprints, and how it reads files anew after an edit."""

import importlib

from flatlab.core import registry

# The package has a function of the same name.
module = importlib.import_module("flatlab.lab.plan.fingerprint")


def forget():
    """As in a new process."""
    cached = (module.fingerprint, module.closure, module._imports, module._content)
    for function in (*cached, registry.syntax, registry.assignments):
        function.cache_clear()
