"""docs/measures.md says of every quantity whether it is exact, and what it costs."""

import re
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest

import flatlab.metrics

PAGE = Path(__file__).parents[2] / "docs" / "measures.md"


def families():
    """The quantities of every module of the catalogue that has some."""
    package = Path(flatlab.metrics.__file__).parent
    names = sorted(p.stem for p in package.glob("[a-z]*.py"))
    modules = {name: import_module(f"flatlab.metrics.{name}") for name in names}
    return {
        name: list(module.QUANTITIES)
        for name, module in modules.items()
        if hasattr(module, "QUANTITIES")
    }


FAMILIES = families()


def rows():
    """Family, patterns of names, and the three other cells of each row."""
    text = re.search(r"<!-- costs -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL).group(1)
    for line in text.splitlines()[2:]:
        family, names, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        yield family.strip("` "), re.findall(r"`([^`]+)`", names), cells


def row_of(patterns, name):
    """The first row that fits, by its index."""
    return next((i for i, ps in enumerate(patterns) if any(fnmatchcase(name, p) for p in ps)), None)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_quantity_has_a_row_of_costs(family):
    patterns = [names for name, names, _ in rows() if name == family]
    assert not [name for name in FAMILIES[family] if row_of(patterns, name) is None]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_and_name_of_costs_is_of_some_quantity(family):
    patterns = [names for name, names, _ in rows() if name == family]
    used = {row_of(patterns, name) for name in FAMILIES[family]}
    assert used == {*range(len(patterns))}
    for pattern in (p for names in patterns for p in names):
        assert any(fnmatchcase(name, pattern) for name in FAMILIES[family]), pattern


def test_rows_are_complete_and_of_families():
    for family, names, cells in rows():
        assert family in FAMILIES
        assert names
        assert len(cells) == 3
        assert all(cells)
