"""Fingerprints of the code of a job.

Snakemake tracks scripts, but not the modules that they import. Each rule therefore has a parameter
with the fingerprint of its modules and of everything they import from this package, so that an edit
re-runs exactly the jobs that it can affect. Comments, docstrings, layout and the version of Python
do not change a fingerprint.

A catalogue, an `__init__.py` of a docstring, imports and `__all__` alone, counts as an empty file:
what it re-exports concerns those jobs alone that import it from the modules that define it. Modules
of the package therefore never import through a catalogue. A root that is a catalogue stands for
all that it re-exports.

A module that reads other files of the package names them in `READS`, a pattern of paths beside it:
its fingerprint has their content, too.
"""

import ast
import functools
import hashlib
from collections.abc import Callable, Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from flatlab.core.registry import PACKAGE, file_of, syntax
from flatlab.core.studies import module_of_study, studies

# Planning, storage, the code around a job, the command line and the version number do not change
# the results of a job; the format of stored files has its own version.
EXCLUDED = (
    *("flatlab.core", "flatlab.cli", "flatlab.version"),
    *("flatlab.lab.jobs", "flatlab.lab.kinds", "flatlab.lab.plan"),
)

QUANTITIES = "flatlab.families"
"""Where `label` is what figures call a quantity, on which no result depends."""


@functools.cache
def fingerprint(*roots: str) -> str:
    """A short hash of the modules `roots` and of everything they import from flatlab."""
    digest = hashlib.sha256()
    for module in sorted(closure(*roots)):
        digest.update(_content(module))
    return digest.hexdigest()[:16]


@functools.cache
def _content(module: str) -> bytes:
    empty = is_catalogue(module) or _is_folder(module)
    tree = ast.Module([], []) if empty else syntax(_file(module))
    texts = ("label",) if f"{module}.".startswith(f"{QUANTITIES}.") else ()
    return f"{module}\n{_text_of(tree, texts)}\n".encode() + _data(module, tree)


def _data(module: str, tree: ast.Module) -> bytes:
    """The names and the content of the files that a module reads."""
    patterns = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "READS"
    ]
    files = sorted(path for each in patterns for path in _file(module).parent.glob(each))
    return b"".join(path.name.encode() + path.read_bytes() for path in files)


@functools.cache
def closure(*roots: str) -> frozenset[str]:
    """The modules `roots` and all modules of this package that they import, also indirectly."""
    modules: set[str] = set()
    waiting = [*roots, *(name for root in roots if is_catalogue(root) for name in _imported(root))]
    while waiting:
        module = waiting.pop()
        if module in modules or (_excluded(module) and module not in roots):
            continue
        modules.add(module)
        waiting += _imports(module)
        waiting.append(module.rpartition(".")[0])  # importing a module runs its package
    return frozenset(modules)


def _excluded(module: str) -> bool:
    return module in ("", "flatlab") or f"{module}.".startswith(tuple(f"{e}." for e in EXCLUDED))


def is_catalogue(module: str) -> bool:
    """Whether a module is an `__init__.py` with `__all__`, and nothing but imports besides."""
    path = _file(module)
    if path.name != "__init__.py" or not path.is_file():
        return False
    body = [node for node in syntax(path).body if not _is_text(node)]
    rest = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return len(rest) == 1 and ast.unparse(rest[0]).startswith("__all__ =")


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    return () if is_catalogue(module) or _is_folder(module) else _imported(module)


def _is_folder(module: str) -> bool:
    """Whether it is a folder of a study without `__init__.py`."""
    path = _file(module)
    return path.name == "__init__.py" and not path.is_file()


def _imported(module: str) -> tuple[str, ...]:
    is_package = _file(module).name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    names = map(_named_by(module), _names_in(syntax(_file(module)), package))
    ours = (name for name in names if name.split(".")[0] == "flatlab")
    return tuple(name for name in ours if _file(name).is_file())


@functools.cache
def _names_in(tree: ast.Module, package: str) -> tuple[str, ...]:
    """What the statements of a module of a package import, or may import: modules and names."""
    names = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            names += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
    return tuple(names)


def _named_by(module: str) -> Callable[[str], str]:
    """The name in flatlab of what a module imports; modules of a study may name others plainly."""
    study = module.split(".")[2] if module.startswith("flatlab.papers.") else ""
    if study not in studies():
        return str
    return lambda name: name if f"{name}.".startswith("flatlab.") else module_of_study(name, study)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a file, nested ones included; far fewer nodes than all of its syntax."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield child
            yield from _statements(child)


def _file(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        path = file_of(module) or path
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _canonical(node: object, texts: tuple[str, ...]) -> str:
    """A syntax tree as text, without docstrings, descriptions, positions and empty fields.

    texts: arguments and fields that are text for readers, as docstrings and descriptions are.
    """
    if isinstance(node, ast.Name):  # the same as below, in a third of the time
        return f"Name(id={node.id!a},ctx={type(node.ctx).__name__}())"
    if isinstance(node, ast.AST):
        fields = [f"{name}={_canonical(value, texts)}" for name, value in _fields(node, texts)]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join([_canonical(each, texts) for each in node])}]"
    return ascii(node)  # repr would depend on the version of Python


_text_of = functools.cache(_canonical)


def _fields(node: Any, texts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The fields of a node that count, by name."""
    for name in node._fields:
        value: Any = getattr(node, name, None)
        if name == "body" and isinstance(value, list):
            value = [child for child in value if not _is_text(child, texts)]
        elif name == "values" and isinstance(node, ast.JoinedStr):
            # Python 3.12 parses f-strings anew: under 3.11 the same file had another hash.
            value = _joined(node.values)
        elif name == "keywords":
            # What a figure calls a quantity is a keyword of its definition: before it was left out
            # here, a better label measured every network again.
            value = [child for child in value if child.arg not in ("description", *texts)]
        elif name in ("kwonlyargs", "kw_defaults"):
            # The same where a function that makes definitions passes labels on.
            pairs = zip(node.kwonlyargs, value, strict=True)
            value = [part for argument, part in pairs if argument.arg not in texts]
        elif name == "args" and getattr(getattr(node, "func", None), "id", "") == "means":
            # Options stand in the files that compute: a typing error in the description of a key
            # would train anew. The limits of its values, keywords of the same call, count.
            value = []
        # Fields without a value differ between versions of Python, which add some. `kind` is the u
        # of u"text", `type_comment` a comment.
        if value is not None and value != [] and name not in ("kind", "type_comment"):
            yield name, value


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with adjacent text joined; Python versions split it differently."""
    result: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant) and result and isinstance(result[-1], ast.Constant):
            result[-1] = ast.Constant(f"{result[-1].value!s}{part.value!s}")
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            result.append(part)
    return result


def _is_text(node: object, texts: tuple[str, ...] = ()) -> bool:
    """Whether a statement is a docstring, or declares a field that is text for readers."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id in texts
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
