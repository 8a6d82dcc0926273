"""The names that docs/promises.md calls public are there."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/promises.md"
NAMES = re.findall(r"`(flatlab\.[\w.]+)`", PAGE.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there(name):
    module, _, part = name.rpartition(".")
    assert hasattr(import_module(module), part) or find_spec(name)


def test_the_front_door_is_public():
    import flatlab

    assert {f"flatlab.{name}" for name in flatlab.__all__} <= {*NAMES, "flatlab.__version__"}
    with pytest.raises(AttributeError, match="measures"):
        _ = flatlab.measures
