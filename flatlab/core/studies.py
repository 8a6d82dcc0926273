"""Studies: folders, each of which holds what belongs to one question.

A study has `figures.py` (with `PAPER` and `FIGURES`) and perhaps `claims.py`, modules of its
figures, `experiments/*.yaml`, and files in `data`, `networks`, `families`, `losses`, `simulations`
and `train/...`. Its key is the name of its folder in lower case, letters and digits alone. Its
files are modules of flatlab: `networks/mine.py` is `flatlab.networks.mine`, `claims.py` is
`flatlab.papers.<key>.claims`, in every process of a workflow. The studies that ship with the
project, `papers/*`, are always in use; a configuration adds some of its own. The package's own
files come first, and a study in which a file has the name of one of the package's, or of another
study's, is refused.
"""

import ast
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from flatlab.core.schema import PlanError, closest

PACKAGE = Path(__file__).resolve().parents[1]
VARIABLE = "FLATLAB_STUDIES"
"""The environment variable with the folders of the studies, which jobs inherit."""
FOLDERS = (
    *("data", "networks", "families", "losses", "simulations"),
    *(
        f"train/{kind}"
        for kind in ("layers", "optimizers", "regularizers", "augmentations", "initializations")
    ),
)
"""What a study's folder may hold besides experiments, figures and claims."""
RESERVED = ("all", "published", "explain")


def workflow_folder() -> Path:
    """Where Snakefile, rules and experiments lie: the project, or the installed package."""
    installed = PACKAGE / "workflow"
    return installed if (installed / "Snakefile").is_file() else PACKAGE.parent


HOMES = {"train": "lab/train"}
"""Where the package keeps what lies in these folders of a study; in the others it lies alike."""


def package_folder(name: str) -> Path:
    """Where the package has what a study has under this name: "networks", "train/layers"."""
    first, slash, rest = name.partition("/")
    return PACKAGE / f"{HOMES.get(first, first)}{slash}{rest}"


def key_of(folder: Path) -> str:
    """The key of a study: the name of its folder, letters and digits alone."""
    return re.sub("[^a-z0-9]", "", folder.name.lower())


PAPERS = workflow_folder() / "papers"
"""The studies that ship with the project."""


def shipped() -> dict[str, Path]:
    """The folders of the project's papers, by key."""
    return _shipped(PAPERS)


@functools.cache
def _shipped(folder: Path) -> dict[str, Path]:
    return {key_of(path.parent): path.parent for path in sorted(folder.glob("*/figures.py"))}


def user_studies() -> dict[str, Path]:
    """The folders of the studies that a configuration adds, by key."""
    paths = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return {key_of(Path(path)): Path(path) for path in paths}


def studies() -> dict[str, Path]:
    """The folders of all studies in use, by key; the papers first."""
    return {**shipped(), **user_studies()}


def use_studies(folders: Sequence[str], context: str) -> None:
    """Make these folders the user's studies of this process and of those that it starts.

    folders: absolute, or relative to the working folder.
    context: what names them, for the message of the `PlanError` if one of them cannot be used.
    """
    chosen: dict[str, Path] = {}
    for name in folders:
        folder = Path(name).resolve()
        key = key_of(folder)
        if not folder.is_dir():
            raise PlanError(f"{context}: {name} is not a folder")
        if not (folder / "figures.py").is_file():
            raise PlanError(
                f"{context}: {name} has no figures.py; add one, `flatlab new` makes an example"
            )
        check_name(folder, context)
        if key in chosen:
            raise PlanError(f"{context}: two studies are called {key}: {chosen[key]} and {folder}")
        chosen[key] = folder
    _refuse_shadows({**shipped(), **chosen}, context)
    os.environ[VARIABLE] = os.pathsep.join(map(str, chosen.values()))


def check_name(folder: Path, context: str) -> None:
    """Raise `PlanError` if the name of a folder cannot name a study."""
    key = key_of(folder)
    if not re.match("[a-z]", key) or key in RESERVED:
        raise PlanError(
            f"{context}: {folder.name} is not a valid study name; rename the folder: "
            "a letter first, then letters and digits"
        )
    if key in shipped():
        raise PlanError(f"{context}: {key} is a paper of flatlab; rename the folder")


def _refuse_shadows(chosen: dict[str, Path], context: str) -> None:
    owners: dict[str, str] = {}
    for key, folder in chosen.items():
        files = [path for name in FOLDERS for path in (folder / name).glob("*.py")]
        files += (folder / "experiments").glob("*.yaml")
        for path in files:
            name = path.relative_to(folder).as_posix()
            ours = package_folder(name)
            if ours.exists() or ours.with_suffix("").exists() or owners.get(name) in shipped():
                sentence = f"{name} of {folder.name} has the name of one of flatlab's; rename it"
                raise PlanError(f"{context}: {sentence}")
            if name in owners:
                raise PlanError(f"{context}: {owners[name]} and {key} both have {name}; rename one")
            owners[name] = key


def module_of_study(module: str, study: str) -> str:
    """The module of flatlab that a module in a study's folder is."""
    return f"flatlab.papers.{study}.{module}"


def study_of(folder: Path, context: str) -> str:
    """The key of the study in a folder; `PlanError` if it is none."""
    for key, path in studies().items():
        if path == folder.resolve():
            return key
    raise PlanError(f"{context}: such experiments belong to a study, and this file does not")


def module_of_function(name: str, study: str, context: str) -> str:
    """The module of flatlab that has a function of a study: a root for fingerprints.

    name: "mine:build"; it is found without importing it.
    study: its key.
    context: the place that names it, for the message of the `PlanError` if it cannot be had.
    """
    module, _, function = name.partition(":")
    folder, ours = studies()[study], module_of_study(module, study)
    file = file_of(ours)
    path = file / "__init__.py" if file is not None and file.is_dir() else file
    if path is None or not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.py"))
        raise PlanError(
            f"{context}: {folder.name} has no module {module!r}; {closest(module, known)}"
        )
    if _exists_elsewhere(module.partition(".")[0], folder):
        raise PlanError(f"{context}: {module} has the name of an installed module; rename it")
    names: list[str] = []
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    if function not in names:
        raise PlanError(f"{context}: {module} has no {function!r}; {closest(function, names)}")
    return ours


def _exists_elsewhere(module: str, folder: Path) -> bool:
    """Whether Python, without the study's folder, has a module of this name."""
    others = [path for path in sys.path if Path(path or ".").resolve() != folder]
    if module in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(module, others)
    return spec is not None and spec.origin is not None


def study_folders(folder: str) -> list[Path]:
    """Where the studies keep what the package has in a folder: "networks", "papers/<study>"."""
    first, _, rest = folder.partition("/")
    if first == "papers":
        return [path for key, path in studies().items() if key == rest]
    return [path / folder for path in studies().values()]


def file_of(module: str) -> Path | None:
    """Path of a module that a study provides, or None."""
    _, *parts = module.split(".")
    if parts == ["papers"]:
        return PAPERS
    if parts[0] == "papers" and len(parts) > 1:
        roots, rest = study_folders("/".join(parts[:2])), parts[2:]
    else:
        name = "/".join(parts)
        for ours, home in HOMES.items():
            name = re.sub(f"^{home}/", f"{ours}/", name)
        roots, rest = [*studies().values()], name.split("/")
        if not any("/".join(rest).startswith(f"{name}/") for name in FOLDERS):
            return None
    for root in roots:
        path = root.joinpath(*rest)
        if path.is_dir():
            return path
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
    return None


class _Finder(MetaPathFinder):
    """Finds modules of studies where the package has none."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        found = file_of(name) if name.startswith("flatlab.") else None
        if found is None:
            return None
        if found.is_file():
            return importlib.util.spec_from_file_location(name, found)
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(found)]
        return spec


sys.meta_path.append(_Finder())
