"""What draws a figure: an edit changes the code of those figures alone that use it."""

import re
import shutil

import pytest

from flatlab.core.registry import PACKAGE
from flatlab.lab import plan
from tests.lab.plan.fingerprints import forget, module

BEFORE: dict[str, str] = {}
"""The code of each figure without an edit."""


@pytest.fixture
def package(tmp_path, monkeypatch, papers):
    """A copy of the package and the papers: edit(change, *paths) -> targets whose code changed."""
    shutil.copytree(PACKAGE, tmp_path / "flatlab", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "flatlab")

    def codes():
        forget()
        return {figure.target: figure.code for figure in plan.figures()}

    def edit(change, *paths):
        BEFORE.update(BEFORE or codes())
        for path in paths:
            place = tmp_path / path
            text = place.read_text()
            place.write_text(change(text))
            assert place.read_text() != text
        after = codes()
        return {target for target in BEFORE if BEFORE[target] != after[target]}

    yield edit
    forget()


def drawn_by(*templates):
    modules = {f"flatlab.lab.figures.{template}" for template in templates}
    return {f.target for f in plan.figures() if f.settings["drawn_by"] in modules}


def with_code(text):
    return f"{text}\nX = 1\n"


def in_other_words(text):
    """Docstrings and comments are others."""
    text = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
    return text.replace("from __future__", "# why\nfrom __future__")


@pytest.mark.first(1)
@pytest.mark.parametrize("template", ["pairs", "intervals", "matrix", "sweep"])
def test_an_edited_template_changes_the_code_of_its_figures_alone(template, package):
    assert package(with_code, f"flatlab/lab/figures/{template}.py") == drawn_by(template)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("flatlab/lab/figures/render.py", {figure.target for figure in plan.figures()}),
        ("flatlab/lab/figures/curves.py", {"beyond_fig1", "beyond_fig7", *drawn_by("curves")}),
        ("papers/petzka2021/minima.py", {f"petzka2021_fig{number}" for number in range(5, 9)}),
        ("papers/petzka2021/fig4.py", {"petzka2021_fig4"}),
        ("papers/petzka2021/figures.py", set()),
        ("papers/petzka2021/claims.py", set()),
    ],
)
def test_an_edit_changes_the_code_of_what_uses_it(path, targets, package):
    assert package(with_code, path) == targets


def test_comments_and_docstrings_change_no_code(package):
    edited = [f"flatlab/lab/figures/{name}.py" for name in ("render", "matrix", "style")]
    assert package(in_other_words, *edited, "papers/petzka2021/fig3.py") == set()
