"""Papers and their figures, found by listing `flatlab/papers/*/figures.py`.

Every declaration is checked when it is loaded. An invalid one is a `PlanError` of one sentence that
names the paper, the figure, the culprit and the closest match.
"""

import ast
import functools
import re
import runpy
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flatlab.plan.declarations import Declaration, Paper
from flatlab.plan.fingerprint import fingerprint
from flatlab.plan.registry import PACKAGE, assignments, experiment_keys, path_of
from flatlab.plan.schema import PlanError, Strict, closest, convert
from flatlab.plan.templates import ONE_EXPERIMENT, TEMPLATES, Own

KEY = r"(fig|table)[A-Z]?[0-9]+"
"""The key of a figure; the wildcard constraint in the Snakefile is the same."""


class Figure(Strict, frozen=True, kw_only=True):
    """One data figure or table of a paper: a target, and its declaration in figures.py.

    cited: "Chen et al. (2026), Figure H8".
    """

    paper: str
    key: str
    cited: str
    declared: Declaration

    @property
    def target(self) -> str:
        """The name of its Snakemake target, such as chen2026_figH8."""
        return f"{self.paper}_{self.key}"

    @property
    def title(self) -> str:
        return self.declared.title

    @property
    def experiments(self) -> list[str]:
        """The experiments whose tables it shows."""
        return list(self.declared.keys)

    @property
    def correlated(self) -> list[str]:
        """The experiments whose correlation matrices it reads."""
        return list(self.declared.correlated)

    @property
    def settings(self) -> dict[str, Any]:
        """What its draw job depends on besides code and tables, as plain data."""
        about = {"paper": self.paper, "key": self.key, "cited": self.cited}
        return {**about, **self.declared.resolved()}

    @property
    def code(self) -> str:
        """The fingerprint of the code that draws it."""
        own = isinstance(self.declared, Own)
        place = f"papers.{self.paper}.{self.key}" if own else f"plotting.{self.declared.template}"
        return fingerprint("flatlab.plotting", f"flatlab.{place}")


RECORDS: dict[str, type[Strict]] = {t.__name__: t for t in TEMPLATES} | {"Paper": Paper}

Papers = dict[str, tuple[Paper, list[Figure]]]


def papers() -> dict[str, Paper]:
    """All papers, by the names of their folders."""
    return {name: paper for name, (paper, _) in _loaded().items()}


def figures() -> list[Figure]:
    """Every figure that a paper declares, in order."""
    return [figure for _, declared in _loaded().values() for figure in declared]


def targets() -> list[str]:
    """Every data figure and table of the papers, and the project's own figures, in order."""
    return [
        f"{name}_{key}"
        for name, (paper, declared) in _loaded().items()
        for key in paper.targets or [figure.key for figure in declared]
    ]


def why_not(target: str) -> str:
    """Why a target cannot be built; "" if it can. Raises `PlanError` for an unknown target."""
    if target not in targets():
        known = ["all", "published", *papers(), *targets()]
        hint = closest(target, known).partition("Known: ")[0]
        raise PlanError(f"unknown target {target!r}; {hint}`flatlab figures` lists them all")
    if target in (figure.target for figure in figures()):
        return ""
    name, _, key = target.partition("_")
    needs = papers()[name].needs.get(key)
    return f"{target} is not part of this version{f'; it needs {needs}' if needs else ''}"


def correlations_code() -> str:
    """The fingerprint of the code that correlates the quantities of a table."""
    return fingerprint("flatlab.tables.correlations")


def claims_code(paper: str) -> str:
    """The fingerprint of the code that judges the claims of a paper, which may have none."""
    own = [f"flatlab.papers.{paper}.claims"]
    there = path_of(f"papers/{paper}", "claims").is_file()
    return fingerprint("flatlab.claims.verify", *(own if there else []))


@functools.cache
def _loaded() -> Papers:
    if not (keys := experiment_keys()):
        raise PlanError(
            "this flatlab is installed apart from the project, without its experiments; in the "
            "project's folder use: python -m flatlab"
        )
    return load(PACKAGE / "papers", keys)


def load(folder: Path, experiments: Collection[str]) -> Papers:
    """Run and check the figures.py of each paper in `folder`.  experiments: all known keys.

    The newest papers come first, and what has no year in its name last.
    """

    def age(path: Path) -> tuple[int, str]:
        year = re.search(r"\d{4}$", path.parent.name)
        return -int(year[0]) if year else 0, path.parent.name

    files = sorted(folder.glob("*/figures.py"), key=age)
    return {path.parent.name: _load(path, experiments) for path in files}


def _load(path: Path, experiments: Collection[str]) -> tuple[Paper, list[Figure]]:
    where = f"papers/{path.parent.name}/figures.py"
    try:
        content = runpy.run_path(str(path))
    except Exception as error:
        raise PlanError(f"{where}: {_explained(error, path)}") from None
    for name, kind in (("PAPER", Paper), ("FIGURES", dict)):
        if not isinstance(content.get(name), kind):
            raise PlanError(f"{where}: {name} must be there, and a {kind.__name__}")
    paper = _checked(content["PAPER"], f"{where}: PAPER: ")
    declared = [
        _figure(path, f"{where}: {key}: ", paper, key, found, experiments)
        for key, found in content["FIGURES"].items()
    ]
    if paper.targets:
        declared.sort(key=lambda figure: paper.targets.index(figure.key))
    return paper, declared


def _figure(
    path: Path, where: str, paper: Paper, key: str, found: Any, experiments: Collection[str]
) -> Figure:
    if not re.fullmatch(KEY, key):
        raise PlanError(f"{where}a figure's key is like fig2, figH8 or table1")
    if paper.targets and key not in paper.targets:
        raise PlanError(f"{where}not among the paper's targets; {closest(key, paper.targets)}")
    if not isinstance(found, TEMPLATES):
        kinds = ", ".join(template.__name__ for template in TEMPLATES)
        raise PlanError(f"{where}expected one of {kinds}, found {found!r}")
    declared = _checked(found, where)
    for experiment in declared.keys:
        if experiment not in experiments:
            hint = closest(experiment, experiments)
            raise PlanError(f"{where}unknown experiment {experiment!r}; {hint}")
    if isinstance(declared, ONE_EXPERIMENT) and len(declared.keys) > 1:
        kind = type(declared).__name__
        raise PlanError(f"{where}experiments: {kind} shows one, found {', '.join(declared.keys)}")
    if isinstance(declared, Own) and not (path.parent / f"{key}.py").is_file():
        raise PlanError(f"{where}papers/{path.parent.name}/{key}.py, which draws it, is missing")
    number = key.replace("fig", "Figure ").replace("table", "Table ")
    cited = f"{paper.cited}, {number}"
    return Figure(paper=path.parent.name, key=key, cited=cited, declared=declared)


def _checked(record: Any, where: str) -> Any:
    content = {name: getattr(record, name) for name in record.__struct_fields__}
    return convert(content, type(record), where)


def _explained(error: Exception, path: Path) -> str:
    """The figure or the line, then the culprit and the closest match."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {error.msg}"
    steps = traceback.walk_tb(error.__traceback__)
    inside = [(f.f_globals, line) for f, line in steps if f.f_code.co_filename == str(path)]
    if not inside:
        return f"{type(error).__name__}: {error}"
    names, line = inside[-1]
    place = _figure_at(path, inside[0][1]) or f"line {line}"
    return f"{place}: {_culprit(error, names, path.read_text().splitlines()[line - 1])}"


def _culprit(error: Exception, names: dict[str, Any], line: str) -> str:
    """names: those of the file.  line: where the error arose."""
    text = str(error)
    if isinstance(error, NameError | AttributeError):
        known = dir(error.obj) if isinstance(error, AttributeError) else {*names, *RECORDS}
        hint = closest(str(error.name), (name for name in known if not name.startswith("_")))
        return f"unknown name {error.name!r}; {hint}"
    if unknown := re.fullmatch("Unexpected keyword argument '(.*)'", text):
        record = re.search(rf"\b({'|'.join(RECORDS)})\(", line)
        fields = RECORDS[record[1]].__struct_fields__ if record else ()
        return f"unknown option {unknown[1]!r}; {closest(unknown[1], fields)}"
    if missing := re.fullmatch("Missing required argument '(.*)'", text):
        return f"{missing[1]} is missing"
    if text == "Extra positional arguments provided":
        return "only the experiments may be positional; write option=value for the rest"
    return f"{type(error).__name__}: {text}"


def _figure_at(path: Path, line: int) -> str:
    """The key in `FIGURES` whose declaration includes a line; "" if none does."""
    figures = assignments(path).get("FIGURES")
    if isinstance(figures, ast.Dict):
        for key, value in zip(figures.keys, figures.values, strict=True):
            if isinstance(key, ast.Constant) and key.lineno <= line <= (value.end_lineno or 0):
                return str(key.value)
    return ""
