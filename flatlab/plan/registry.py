"""What there is: the folders of the package are the registries, a file's stem is the key.

Keys have hyphens where file names have underscores: `mlp4-small` lives in `networks/mlp4_small.py`.
Nothing is imported here: planning must not wait for torch or matplotlib.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

from flatlab.plan.schema import SCALES, PlanError, closest, refuse_unknown

PACKAGE = Path(__file__).resolve().parents[1]


def keys_of(folder: str) -> list[str]:
    """The keys of one registry: data, networks, metrics, simulations or verify."""
    files = (PACKAGE / folder).glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def module_of(folder: str, key: str) -> str:
    """The module that defines a key: ("networks", "mlp4-small") -> flatlab.networks.mlp4_small."""
    return f"flatlab.{folder}.{key.replace('-', '_')}"


def _path(folder: str, key: str) -> Path:
    return PACKAGE / folder / f"{key.replace('-', '_')}.py"


def check_known(folder: str, key: str, where: str) -> None:
    """Raise `PlanError` with the closest match where a registry does not have a key."""
    if key not in keys_of(folder):
        raise PlanError(f"{where}: unknown {key!r}; {closest(key, keys_of(folder))}")


def mode_of(network: str) -> str:
    """How the training engine advances many networks of an architecture: its literal MODE."""
    return _literal(_path("networks", network), "MODE")


def parameters_of(network: str) -> int:
    """About how many parameters an architecture has: its literal PARAMETERS."""
    return _literal(_path("networks", network), "PARAMETERS")


def families_of_grids() -> list[str]:
    """The families that grids are measured by: those with a literal SETTINGS."""
    return [key for key in keys_of("metrics") if "SETTINGS" in _assigned(_path("metrics", key))]


def joined(families: str) -> list[str]:
    """The families that one job measures and one file holds: `accuracy+geometry` are two."""
    return families.split("+")


def settings_of(families: str) -> list[str]:
    """The keys of a grid's `measure` section that families depend on: their literals SETTINGS.

    families: one, or several as in `joined`. One with a function `measure` is evaluated on the
    grid's sample sets, and depends on them.
    """
    used: list[str] = []
    for path in (_path("metrics", family) for family in joined(families)):
        body = ast.parse(path.read_text()).body
        on_samples = "measure" in {n.name for n in body if isinstance(n, ast.FunctionDef)}
        used += [*(["samples"] if on_samples else []), *_literal(path, "SETTINGS")]
    return list(dict.fromkeys(used))


def scales_of(study: str) -> dict[str, dict[str, Any]]:
    """The settings of a study by scale: its literal SCALES, checked.

    Those of scale paper are complete; the other scales hold what they change.
    """
    where = f"studies/{_path('studies', study).name}: SCALES"
    scales = _literal(_path("simulations", study), "SCALES")
    refuse_unknown(scales, SCALES, where)
    for scale in SCALES:
        if scale not in scales:
            raise PlanError(f"{where}: {scale!r} is missing")
        refuse_unknown(scales[scale], scales["paper"], f"{where}: {scale}")
    return scales


OWN_IMAGES = ("image-folder", "cifar10-jpeg")
"""Data sets that are whatever lies in a folder; all others are known by their checksums."""


def experiment_keys() -> list[str]:
    """What a figure can show: all grids, zoos and simulations."""
    files = (
        path for folder in ("grids", "zoos") for path in (PACKAGE.parent / folder).glob("*.yaml")
    )
    return sorted([*(path.stem for path in files), *keys_of("simulations")])


@functools.cache
def _assigned(path: Path) -> list[str]:
    """The names that a file gives values to."""
    nodes = ast.parse(path.read_text()).body
    return [ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)]


@functools.cache
def _literal(path: Path, name: str) -> Any:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                break
    raise PlanError(f"{path.parent.name}/{path.name}: {name} must be there, and a literal")
