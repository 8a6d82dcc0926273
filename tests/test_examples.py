"""The examples in docstrings of entry points give what they say."""

import doctest
import importlib

import pytest

MODULES = [
    "flatlab.derivatives.per_sample.engine",
    *("flatlab.api.landscape", "flatlab.api.measure", "flatlab.api.tracker"),
    *(
        f"flatlab.families.{family}"
        for family in (
            *("adaptive", "capacity", "diagonal", "flatness", "geometry"),
            *("hessian", "jacobian", "linear", "sharpness"),
            *("representations", "feature_robustness", "representativeness"),
            *("ma_ying", "normalized_sharpness", "redrawn", "uniform_robustness"),
            "spectrum",
        )
    ),
]
"""Those whose docstrings have examples."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed
