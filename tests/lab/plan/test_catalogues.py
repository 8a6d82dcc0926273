"""Catalogues, `__init__.py` files that only re-export, do not count in fingerprints."""

from __future__ import annotations

import ast
import importlib

from flatlab.core.registry import PACKAGE

fingerprints = importlib.import_module("flatlab.lab.plan.fingerprint")

CATALOGUE = '"""What there is."""\nfrom flatlab.far.last import thing\n__all__ = ["thing"]\n'

ROOTS = {"flatlab.lab.claims"}
"""Catalogues that may be imported from: they are roots of all jobs whose code does so."""


def test_a_catalogue_counts_as_an_empty_file(tmp_path, monkeypatch):
    """Neither what it re-exports counts nor its own text; with code of its own it counts again."""
    monkeypatch.setattr(fingerprints, "PACKAGE", tmp_path / "flatlab")
    cached = ("fingerprint", "_content", "closure", "_imports", "syntax")

    def of_the_middle(catalogue, thing="thing = 1"):
        files = {"": "", "far": catalogue, "far/last": thing, "far/other": "x = 1"}
        files["middle"] = "from flatlab.far.other import x"
        for name, code in files.items():
            is_package = name in ("", "far")
            path = tmp_path / "flatlab" / (f"{name}/__init__.py" if is_package else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
        for function in cached:
            getattr(fingerprints, function).cache_clear()
        return fingerprints.fingerprint("flatlab.middle")

    def of_the_catalogue(thing):
        of_the_middle(CATALOGUE, thing)
        return fingerprints.fingerprint("flatlab.far")

    assert of_the_catalogue("thing = 1") != of_the_catalogue("thing = 2")
    before = of_the_middle('"""A docstring alone."""\n')
    assert of_the_middle(CATALOGUE) == before
    assert of_the_middle(CATALOGUE, "thing = 2") == before
    code = f"{CATALOGUE}thing += 1\n"
    assert of_the_middle(code) != before
    assert of_the_middle(code, "thing = 2") != of_the_middle(code)
    for function in cached:
        getattr(fingerprints, function).cache_clear()


def modules():
    paths = sorted(PACKAGE.rglob("*.py"))
    names = (".".join(("flatlab", *p.relative_to(PACKAGE).with_suffix("").parts)) for p in paths)
    return [name.removesuffix(".__init__") for name in names]


def catalogues():
    found = filter(fingerprints.is_catalogue, modules())
    return {name for name in found if not fingerprints._excluded(name)} - ROOTS


def test_no_module_imports_through_a_catalogue():
    """Its fingerprint would not follow the import to the module that defines the name."""
    known, every = catalogues(), {*modules()}
    for module in every - known:
        wrong = []
        for node in ast.walk(fingerprints.syntax(fingerprints._file(module))):
            if isinstance(node, ast.Import):
                wrong += [alias.name for alias in node.names if alias.name in known]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                own = [name for name in names if name not in every] if node.module in known else []
                wrong += [*own, *(name for name in names if name in known)]
        assert not wrong, f"{module} imports through a catalogue: {', '.join(wrong)}"
