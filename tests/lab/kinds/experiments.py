"""Experiments of the papers, as they are or changed and written to a file."""

from pathlib import Path

import yaml

from flatlab.core.registry import experiment_files
from flatlab.lab import plan


def content_of(key: str) -> dict:
    """The content of an experiment's file, to be changed."""
    return yaml.safe_load(experiment_files()[key].read_text())


def written(folder: Path, key: str, content: object) -> Path:
    """A file with this content among the experiments of a folder."""
    path = folder / "experiments" / f"{key}.yaml"
    path.parent.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    path.write_text(text)
    return path


def load(source: Path | str, scale: str = "demo") -> plan.Experiment:
    """An experiment from a file or by its key; others that it needs lie beside it, or are known."""
    files = dict(experiment_files())
    if isinstance(source, Path):
        files |= {path.stem: path for path in source.parent.glob("*.yaml")}

    def find(key: str, where: str = "") -> plan.Experiment:
        if key not in files:
            return plan.load_experiment(key, scale, find, where)
        return plan.read_experiment(files[key], scale, find)

    return find(source.stem if isinstance(source, Path) else source)


def sentence(refusal: object) -> str:
    """What a `PlanError` says, which is one sentence."""
    text = str(refusal.value)
    assert "\n" not in text
    return text
