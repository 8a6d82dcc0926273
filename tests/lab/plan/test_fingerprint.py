"""Fingerprints change with what a job computes, and with nothing else."""

import ast
import json
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest

from flatlab.core.registry import PACKAGE
from tests.lab.plan.fingerprints import forget, module

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("3.11", "3.12", "3.13")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A made-up package: write(**{"families/geometry": "code"}), then fingerprints of it."""
    folder = tmp_path / "flatlab"
    monkeypatch.setattr(module, "PACKAGE", folder)

    def write(files):
        for name, code in files.items():
            path = folder / (name if "." in name else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(textwrap.dedent(code))
        forget()

    write({"__init__": ""})
    yield write
    forget()


def of(*roots):
    return module.fingerprint(*(f"flatlab.{root}" for root in roots))


CODE = '''
"""What this file is."""
import os

LIMIT = 10
"""What the limit is."""


class Box:
    """What a box is."""

    units: Annotated[int, means("in the hidden layer", ge=1)]

    def size(self):
        """What its size is."""
        return LIMIT
'''
SAME = {
    "comments": CODE.replace("LIMIT = 10", "# why\nLIMIT = 10  # because"),
    "docstrings": CODE.replace("What", "How"),
    "no docstrings": "\n".join(line for line in CODE.splitlines() if '"""' not in line),
    "layout": CODE.replace("LIMIT = 10", "LIMIT = (\n    10\n)").replace("    ", "  "),
    "the meaning of an option": CODE.replace("in the hidden layer", "of one layer"),
    "quotes and numbers": CODE.replace("10", "0x0A"),
}
OTHER = {
    "a value": CODE.replace("10", "11"),
    "a type": CODE.replace("10", "10.0"),
    "a name": CODE.replace("size", "volume"),
    "an import": CODE.replace("import os", "import sys"),
    "the limit of an option": CODE.replace("ge=1", "ge=2"),
    "an order": CODE.replace("import os\n", "").replace("LIMIT = 10\n", "LIMIT = 10\nimport os\n"),
    "a sign": CODE.replace("return LIMIT", "return -LIMIT"),
    "a text that is used": CODE.replace("return LIMIT", "return 'LIMIT'"),
}


IMPORTS = [
    "import flatlab.far.last",
    "import flatlab.far.last as name",
    "from flatlab.far import last",
    "from flatlab.far.last import thing",
    "def function():\n    from flatlab.far import last",
    "if True:\n    import os, flatlab.far.last",
    "from .far import last",
    "from .far.last import thing",
]
CATALOGUE = '"""What there is."""\nfrom flatlab.far.last import thing\n__all__ = ["thing"]\n'
EXCLUDED = [
    "__init__",
    "lab/plan/__init__",
    "lab/plan/figures",
    "core/store",
    "lab/jobs/job",
    "cli",
]


def edits():
    """By what they are: files before and after, and whether `a.root` has another fingerprint."""
    yield from ((name, {"a/root": CODE}, {"a/root": text}, False) for name, text in SAME.items())
    yield from ((name, {"a/root": CODE}, {"a/root": text}, True) for name, text in OTHER.items())
    for line in IMPORTS:
        files = {"a/root": "import flatlab.middle", "middle": line, "far/last": "x = 1"}
        yield line, files, {"far/last": "x = 2"}, True
    around = {"a/root": "x = 1", "a/__init__": "y = 1"}  # importing a module runs it
    yield "the package around a module", around, {"a/__init__": "y = 2"}, True
    for name in EXCLUDED:
        module = f"flatlab/{name}".removesuffix("/__init__").replace("/", ".")
        after = {name: "x = 2\nimport flatlab.other", "other": "z = 3"}
        yield name, {"a/root": f"import {module}", name: "x = 1"}, after, False
    alike = {"a/root": "import flatlab.planes, flatlab.storage", "storage": "", "planes": "x = 1"}
    yield "named like an excluded one", alike, {"planes": "x = 2"}, True
    for reader in ("root", "other"):
        files = {
            "a/root": "x = 1",
            f"a/{reader}": 'READS = "printed/*.csv"',
            "a/printed/1.csv": "1",
        }
        yield f"a file that {reader} reads", files, {"a/printed/1.csv": "2"}, reader == "root"
    through = {"a/root": "from flatlab.far.other import x", "far/other": "x = 1", "far/last": ""}
    other, code = {"far/last": "x = 2"}, f"{CATALOGUE}thing += 1\n"
    for name, before, after, counts in (
        ("the text of a catalogue", '"""A docstring."""', {"far/__init__": CATALOGUE}, False),
        ("what a catalogue re-exports", CATALOGUE, other, False),
        ("a catalogue with code of its own", CATALOGUE, {"far/__init__": code}, True),
        ("what one with code re-exports", code, other, True),
    ):
        yield name, {**through, "far/__init__": before}, after, counts
    yield "what a root re-exports", {"a/root/__init__": CATALOGUE, "far/last": ""}, other, True
    apart = {"a/root": "x = 1", "a/other": "y = 1", "plane": "z = 1"}
    yield "modules that it does not import", apart, {"a/other": "y = 2", "plane": "z = 2"}, False


@pytest.mark.parametrize(("name", "files", "edited", "counts"), [*edits()])
def test_what_computes_counts_and_nothing_else(package, name, files, edited, counts):
    package(files)
    before = of("a.root")
    package(edited)
    assert (of("a.root") != before) == counts, name


def test_circles_of_imports_end(package):
    package({"a": "import flatlab.b", "b": "import flatlab.a"})
    assert of("a") == of("b")


ROOTS = {"flatlab.lab.claims"}
"""Catalogues that may be imported from: they are roots of all jobs whose code does so."""


def modules():
    paths = sorted(PACKAGE.rglob("*.py"))
    names = (".".join(("flatlab", *p.relative_to(PACKAGE).with_suffix("").parts)) for p in paths)
    return [name.removesuffix(".__init__") for name in names]


def catalogues():
    found = filter(module.is_catalogue, modules())
    return {name for name in found if not module._excluded(name)} - ROOTS


def test_no_module_imports_through_a_catalogue():
    """Its fingerprint would not follow the import to the module that defines the name."""
    known, every = catalogues(), {*modules()}
    for name in every - known:
        wrong = []
        for node in ast.walk(module.syntax(module._file(name))):
            if isinstance(node, ast.Import):
                wrong += [alias.name for alias in node.names if alias.name in known]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                own = [name for name in names if name not in every] if node.module in known else []
                wrong += [*own, *(name for name in names if name in known)]
        assert not wrong, f"{name} imports through a catalogue: {', '.join(wrong)}"


DIFFICULT = r'''
from __future__ import annotations
import flatlab.families.other
text = f"{x!r:>{width}} {y:.2f} {{}} {z = } \N{BULLET}" "and" f"{'a' if b else 'c'}" u"old"
raw = b"\x00" rb"\d", r"\d", u"old"
same = f"a{'b'}c" f"{d}" "e"
signs = "é – ∑ \U0001fae8 \u200b \x7f"
numbers = 1e309, 1_000, 0xFF, 2j, -0.0, 10**30
match point:
    case {"x": [1, *rest], **others} if (n := len(rest)) > 1: pass
    case Point(x=0) | None: pass
try: pass
except* ValueError as error: raise error from None
async def f(a, /, b: int = 1, *c, d=2, **e) -> list[int]:
    global g
    async with h as i, j: return [k async for k in l if m]
type_ = lambda *a, **k: (yield)
class A(B, metaclass=C):
    x: int
    @d.e(1)
    def f(self): return self[1:2, ..., *a]
def only_a_docstring():
    """Nothing else."""
'''

ELSEWHERE = """
import ast, json, pathlib, runpy, sys, types
registry = types.ModuleType("flatlab.core.registry")  # it needs compiled libraries
registry.PACKAGE = pathlib.Path(sys.argv[2])
registry.file_of = lambda module: None
registry.syntax = lambda path: ast.parse(path.read_bytes())
studies = types.ModuleType("flatlab.core.studies")
studies.studies = dict
studies.module_of_study = lambda module, study: module
sys.modules.update({module.__name__: module for module in (registry, studies)})
fingerprint = runpy.run_path(sys.argv[1])["fingerprint"]
print(json.dumps({room: fingerprint(*roots) for room, roots in json.loads(sys.argv[3]).items()}))
"""


def interpreter(version):
    """Some Python of this version: the running one, one on PATH, or one of uv or pyenv."""
    candidates = [sys.executable, shutil.which(f"python{version}")]
    for finder in (["uv", "python", "find", version], ["pyenv", "root"]):
        if shutil.which(finder[0]):
            found = subprocess.run(finder, capture_output=True, text=True, check=False).stdout
            is_root = finder[0] == "pyenv"
            pattern = f"versions/{version}.*/bin/python"
            candidates += Path(found.strip()).glob(pattern) if is_root else [found.strip()]
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, candidates):
        run = subprocess.run([path, "-c", probe], capture_output=True, text=True, check=False)
        if run.stdout.strip() == version:
            return str(path)
    pytest.skip(f"there is no Python {version} here")


@pytest.mark.more
@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_gives_the_same_fingerprints(package, version, tmp_path):
    """Of this package, each room as a whole, and of syntax that they parse differently."""
    python = interpreter(version)
    shutil.rmtree(tmp_path / "flatlab")
    shutil.copytree(ROOT / "flatlab", tmp_path / "flatlab")
    package({"difficult": DIFFICULT, "families/other": "x = 1"})
    rooms = defaultdict(list)
    for path in sorted((tmp_path / "flatlab").rglob("*.py")):
        parts = path.relative_to(tmp_path).with_suffix("").parts
        rooms[parts[:2][-1]].append(".".join(parts).removesuffix(".__init__"))
    assert len(rooms) > 10
    code = ROOT / "flatlab/lab/plan/fingerprint.py"
    arguments = [code, tmp_path / "flatlab", json.dumps(rooms)]
    run = subprocess.run(
        [python, "-I", "-W", "error", "-c", ELSEWHERE, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        room: module.fingerprint(*each) for room, each in rooms.items()
    }
