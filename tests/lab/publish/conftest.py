"""A folder whose results are published."""

import shutil
from pathlib import Path

import pytest

from flatlab.core.registry import experiment_files
from flatlab.lab.publish.publish import publish
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    FIGURES,
    OTHER,
    PACK,
    TARGETS,
    chosen,
    compute,
    draw,
    make_table,
    measure,
)


def use_made_up(patch):
    """Let this process know the made-up figures and their experiments alone, which is quick."""
    for module in ("plan", "plan.published"):
        patch.setattr(f"flatlab.lab.{module}.figures", lambda: FIGURES)
    files = {key: experiment_files()[key] for key in (*EXPERIMENTS, "vision-grid")}  # of vision-zoo
    patch.setattr("flatlab.lab.plan.plan.experiment_files", lambda: files)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The folder, made once."""
    folder = tmp_path_factory.mktemp("publish")
    with pytest.MonkeyPatch.context() as patch:
        use_made_up(patch)
        patch.chdir(folder)
        Path("config.yaml").write_text("scale: demo\n")
        compute(*EXPERIMENTS, "vision-grid")
        grid = chosen().experiment("mlp-grid")
        measure(grid, PACK, 1.0)
        measure(grid, OTHER, 2.0)
        make_table(*EXPERIMENTS, value=0.0)
        draw(*TARGETS)
        publish(chosen())
    return folder


@pytest.fixture
def published(template, tmp_path, monkeypatch):
    """A copy of it, to be changed."""
    use_made_up(monkeypatch)
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "project"))
