"""Experiments of the papers, as they are or changed and written to a file; their tables."""

from pathlib import Path

import yaml

from flatlab.core.registry import experiment_files
from flatlab.core.schema import closest
from flatlab.lab import plan


def content_of(key):
    """The content of an experiment's file, to be changed."""
    return yaml.safe_load(experiment_files()[key].read_text())


def set_key(content, path, value):
    """Change a key, by dots; `key+` adds keys to those that are there, DELETE removes it."""
    *sections, key = (int(part) if part.isdigit() else part for part in path.split("."))
    for section in sections:
        content = content[section]
    if value == "DELETE":
        del content[key]
    elif isinstance(key, str) and key.endswith("+"):
        content[key.removesuffix("+")] |= value
    else:
        content[key] = value


def changed(path, value, key="mlp-grid"):
    """The papers' grid of perceptrons, or another one, with a key changed; see `set_key`.

    At scale paper it is what stands above the scales, with the same blocks of seeds.
    """
    content = content_of(key)
    content["scales"]["paper"] = {}
    set_key(content, path, value)
    return content


def written(folder, key, content):
    """A file with this content among the experiments of a folder."""
    path = folder / "experiments" / f"{key}.yaml"
    path.parent.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    path.write_text(text)
    return path


def load(source, scale="demo"):
    """An experiment from a file or by its key; others that it needs lie beside it, or are known."""
    files = dict(experiment_files())
    if isinstance(source, Path):
        files |= {path.stem: path for path in source.parent.glob("*.yaml")}

    def find(key, where=""):
        if key not in files:
            raise plan.PlanError(f"{where}unknown experiment {key!r}; {closest(key, files)}")
        return plan.read_experiment(files[key], scale, find)

    return find(source.stem if isinstance(source, Path) else source)


def table_of(grid, raw):
    """A grid trained and measured in this process: its table, and what each pack trained."""
    from flatlab.lab.tables.runs import of_grid
    from flatlab.lab.train import train_packs
    from flatlab.measuring.grid import measure_pack

    trained, parts = {}, []
    for key in grid.packs:
        [trained[key]] = train_packs(raw, [grid.training(key).settings], "cpu")
        weights = [trained[key].weights, trained[key].dense]
        stages = [grid.measuring(key, family) for family in grid.families]
        parts += [measure_pack(weights, raw, stage.settings) for stage in stages]
    return of_grid(parts, grid.tabulating(grid).settings), trained
