"""The project's grid of perceptrons, changed and written to a file."""

import copy
from pathlib import Path

import pytest
import yaml

from flatlab.lab import plan
from flatlab.lab.kinds.grid import Grid

ROOT = Path(__file__).resolve().parents[4]


EXPERIMENTS = ROOT / "experiments"


GRID = yaml.safe_load((EXPERIMENTS / "mlp-grid.yaml").read_text())
GRID["scales"]["paper"] = {}  # its own blocks of seeds


DELETE = object()


def written(folder: Path, content: object) -> Path:
    """The file of a grid that holds `content`."""
    path = folder / "experiments" / "mlp-grid.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def changed(path: tuple, value: object) -> dict:
    """The project's grid with one key changed or deleted."""
    grid = copy.deepcopy(GRID)
    place = grid
    for key in path[:-1]:
        place = place[key]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return grid


def load_grid(path: Path, scale: str) -> Grid:
    """A grid at a scale; it names no other experiment."""
    return plan.load_experiment(path.parent, path.stem, scale, find=None)


def one_sentence(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text
