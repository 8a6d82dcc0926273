"""A folder whose results are published, and one whose results are only built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flatlab.lab import publish as publication
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    FIGURES,
    ROOT,
    ZOO,
    chosen,
    compute,
    draw,
    make_table,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder of the project with four experiments, whose results are made up, and published."""
    folder = tmp_path_factory.mktemp("publication") / "template"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flatlab.lab.plan.figures", lambda: FIGURES)
        patch.setattr("flatlab.lab.plan.published.figures", lambda: FIGURES)
        patch.setattr("flatlab.lab.plan.published.experiment_keys", lambda: list(EXPERIMENTS))
        patch.chdir(folder)
        Path("experiments").mkdir()
        for key in EXPERIMENTS[:3]:
            shutil.copy2(ROOT / f"experiments/{key}.yaml", f"experiments/{key}.yaml")
        Path("experiments/small-zoo.yaml").write_text(yaml.safe_dump(ZOO))
        Path("config.yaml").write_text("scale: demo\n")
        for key in EXPERIMENTS:
            compute(key)
            make_table(key)
        draw(*(each.target for each in FIGURES))
        publication.publish(chosen())
        yield folder


@pytest.fixture
def published(template, tmp_path, monkeypatch):
    """A copy of it, to be changed."""
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "project"))


@pytest.fixture
def built(published):
    """The same before anything was published."""
    shutil.rmtree("results/published")
