"""Papers and other studies with their figures: `<study>/figures.py`.

Every declaration is checked when it is loaded. A wrong value is a `PlanError` of one sentence that
names the paper, the figure, the culprit and the closest match; other mistakes are Python's errors.
"""

import functools
import importlib.util
import re
import warnings
from collections.abc import Collection, Container, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from flatlab.core.registry import experiment_files, path_of
from flatlab.core.schema import PlanError, Strict, closest, convert
from flatlab.core.studies import studies, user_studies
from flatlab.lab.plan.declarations import TEMPLATES, Declaration, Paper, misspelt
from flatlab.lab.plan.fingerprint import fingerprint

FIGURE_KEY = r"(fig|table)[A-Z]?[0-9]+"
"""The pattern of the keys of figures, and of the wildcard in the Snakefile."""


class Figure(Strict, frozen=True, kw_only=True):
    """One data figure or table of a paper: a target, and its declaration in figures.py.

    cited: "Chen et al. (2026), Figure H8".
    publication: whether its paper is one; a study of one's own is not.
    """

    paper: str
    key: str
    cited: str
    publication: bool
    declared: Declaration

    @property
    def target(self) -> str:
        """The name of its Snakemake target, such as chen2026_figH8."""
        return f"{self.paper}_{self.key}"

    @property
    def experiments(self) -> list[str]:
        """The experiments whose tables it shows."""
        return list(self.declared.keys)

    @property
    def correlated(self) -> list[str]:
        """The experiments whose correlation matrices it reads."""
        return list(self.declared.correlated)

    def restricted_to(self, known: Container[str]) -> "Figure":
        """A copy that shows only these experiments and says so in its caption.

        The whole figure where it is not drawn experiment by experiment, or shows none of these.
        """
        kept = tuple(key for key in self.experiments if key in known)
        lacking = [key for key in self.experiments if key not in known]
        if not (self.declared.BY_EXPERIMENT and kept and lacking):
            return self
        caption = self.declared.caption
        said = f"Not measured, and therefore not shown: {', '.join(lacking)}."
        sentences = (*([caption] if isinstance(caption, str) else caption), said)
        declared = replace(self.declared, experiments=kept, caption=sentences)
        return replace(self, declared=declared)

    @property
    def settings(self) -> dict[str, Any]:
        """What its draw job depends on besides code and tables, as plain data."""
        content = self.declared.resolved()
        for column, alike in misspelt(self.declared.columns_shown).items():
            told = f"{self.target} shows {column!r}, which no measure family defines"
            warnings.warn(f"{told}; did you mean {alike!r}?", stacklevel=2)
        module = f"flatlab.papers.{self.paper}.{self.declared.module or self.key}"
        modules = {name: content[name] or module for name in ("selected_by", "drawn_by")}
        about = {key: getattr(self, key) for key in ("paper", "key", "cited", "publication")}
        return {**about, **content, **modules}

    @property
    def code(self) -> str:
        """The fingerprint of the code that draws it."""
        settings = self.settings
        return fingerprint(
            "flatlab.lab.figures.render", settings["selected_by"], settings["drawn_by"]
        )


Papers = dict[str, tuple[Paper, list[Figure]]]


def papers() -> dict[str, Paper]:
    """All papers, by the names of their folders."""
    return {name: paper for name, (paper, _) in _loaded(*studies().values()).items()}


def figures() -> list[Figure]:
    """Every figure that a paper declares, in order."""
    return [figure for _, declared in _loaded(*studies().values()).values() for figure in declared]


def targets() -> list[str]:
    """Every data figure and table of the papers, and the project's own figures, in order."""
    return [
        f"{name}_{key}"
        for name, (paper, declared) in _loaded(*studies().values()).items()
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
    return fingerprint("flatlab.lab.tables.networks")


def claims_code(paper: str) -> str:
    """The fingerprint of the code that judges the claims of a paper, which may have none."""
    claims = [f"flatlab.papers.{paper}.claims"]
    has_claims = path_of(f"papers/{paper}", "claims").is_file()
    return fingerprint("flatlab.lab.claims", *(claims if has_claims else []))


@functools.cache
def _loaded(*_of_studies: Path) -> Papers:
    if not (keys := experiment_files()):
        raise PlanError(
            "this flatlab is installed apart from the project, without its experiments; in the "
            "project's folder use: python -m flatlab"
        )
    return load(studies(), keys)


def load(folders: Mapping[str, Path], experiments: Collection[str]) -> Papers:
    """Run and check the figures.py of each study.

    folders: by key.
    experiments: all known keys.

    A user's studies come first, then the newest papers, and what has no year in its name last.
    """

    def age(name: str) -> tuple[bool, int, str]:
        year = re.search(r"\d{4}$", name)
        return name not in user_studies(), -int(year[0]) if year else 0, name

    return {name: _load(name, folders[name], experiments) for name in sorted(folders, key=age)}


def _module(name: str, folder: Path) -> ModuleType:
    """The figures.py of a paper, imported; that of a folder elsewhere is executed each time."""
    if folder == studies().get(name):
        return importlib.import_module(f"flatlab.papers.{name}.figures")
    spec = importlib.util.spec_from_file_location(f"{name}.figures", folder / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


def _load(name: str, folder: Path, experiments: Collection[str]) -> tuple[Paper, list[Figure]]:
    place = folder.name if name in user_studies() else f"papers/{name}"
    context = f"{place}/figures.py"
    try:
        content = vars(_module(name, folder))
    except (ImportError, TypeError) as error:
        if not re.search(r"flatlab\.lab\.plan|(keyword|required) argument", str(error)):
            raise
        raise PlanError(f"{context}: {error}") from error
    for constant, kind in (("PAPER", Paper), ("FIGURES", dict)):
        if not isinstance(content.get(constant), kind):
            raise PlanError(f"{context}: {constant} must be there, and a {kind.__name__}")
    paper = _checked(content["PAPER"], f"{context}: PAPER: ")
    figures = []
    for key, declaration in content["FIGURES"].items():
        declared = _declared(key, declaration, paper, experiments, f"{context}: {key}: ")
        module = f"{declared.module or key}.py"
        if not declared.SELECTS and not (folder / module).is_file():
            what = "draws it" if not declared.DRAWN_BY else "selects what it shows"
            raise PlanError(f"{context}: {key}: {place}/{module}, which {what}, is missing")
        number = key.replace("fig", "Figure ").replace("table", "Table ")
        about = {"cited": f"{paper.cited}, {number}", "publication": paper.publication}
        figures.append(Figure(paper=name, key=key, declared=declared, **about))
    if paper.targets:
        figures.sort(key=lambda figure: paper.targets.index(figure.key))
    return paper, figures


def _declared(
    key: str, declaration: Any, paper: Paper, experiments: Collection[str], context: str
) -> Declaration:
    """An entry of FIGURES, checked."""
    if not re.fullmatch(FIGURE_KEY, key):
        raise PlanError(f"{context}a figure's key is like fig2, figH8 or table1")
    if paper.targets and key not in paper.targets:
        raise PlanError(f"{context}not among the paper's targets; {closest(key, paper.targets)}")
    if not isinstance(declaration, TEMPLATES):
        kinds = ", ".join(template.__name__ for template in TEMPLATES)
        raise PlanError(f"{context}expected one of {kinds}, found {declaration!r}")
    declared: Declaration = _checked(declaration, context)
    for experiment in declared.keys:
        if experiment not in experiments:
            hint = closest(experiment, experiments)
            raise PlanError(f"{context}unknown experiment {experiment!r}; {hint}")
    if declared.ONE_EXPERIMENT and len(declared.keys) > 1:
        kind = type(declared).__name__
        raise PlanError(f"{context}experiments: {kind} shows one, found {', '.join(declared.keys)}")
    return declared


def _checked(record: Any, context: str) -> Any:
    content = {name: getattr(record, name) for name in record.__struct_fields__}
    return convert(content, type(record), context)
