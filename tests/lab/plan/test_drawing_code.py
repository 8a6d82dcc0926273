"""What draws a figure: the modules whose edit changes its code, of this figure alone.

Any edit that computes changes the fingerprint of a module, and no other does: test_fingerprint.py.
"""

import importlib

import pytest

from flatlab.lab import plan
from tests.lab.plan.fingerprints import module as fingerprints

# The package has a function of the same name.
figures = importlib.import_module("flatlab.lab.plan.figures")


def drawn_by(*templates):
    modules = {f"flatlab.lab.figures.{template}" for template in templates}
    return {f.target for f in plan.figures() if f.settings["drawn_by"] in modules}


@pytest.mark.parametrize(
    ("module", "targets"),
    [
        *((f"lab.figures.{name}", drawn_by(name)) for name in ("matrix", "pairs", "sweep")),
        *((f"lab.figures.{name}", drawn_by(name)) for name in ("intervals", "lines")),
        ("lab.figures.render", {figure.target for figure in plan.figures()}),
        ("lab.figures.curves", {"beyond_fig1", "beyond_fig7", *drawn_by("curves")}),
        ("papers.petzka2021.minima", {f"petzka2021_fig{number}" for number in range(5, 9)}),
        ("papers.petzka2021.fig4", {"petzka2021_fig4"}),
        ("papers.petzka2021.figures", set()),
        ("papers.petzka2021.claims", set()),
    ],
)
def test_an_edit_changes_the_code_of_what_uses_it(module, targets, monkeypatch):
    assert fingerprints._file(f"flatlab.{module}").is_file()
    monkeypatch.setattr(figures, "fingerprint", fingerprints.closure)
    found = {figure.target for figure in plan.figures() if f"flatlab.{module}" in figure.code}
    assert found == targets
