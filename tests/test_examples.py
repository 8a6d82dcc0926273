"""The examples in docstrings of entry points give what they say."""

import doctest
import importlib

import pytest

from flatlab.core.registry import imported, keys_of, measures_samples

FAMILIES = [
    imported("families", key).__name__ for key in keys_of("families") if measures_samples(key)
]
MODULES = ["flatlab.derivatives.per_sample.engine", "flatlab.api.landscape"]
MODULES += ["flatlab.api.measure", "flatlab.api.tracker", *FAMILIES]
"""Those whose docstrings have examples."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed
