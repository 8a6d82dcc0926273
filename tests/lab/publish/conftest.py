"""A folder whose results are published, and one whose results are only built."""

import shutil
from pathlib import Path

import pytest
import yaml

from flatlab.lab.publish.publish import publish
from tests.lab.publish.made_up import (
    EXPERIMENTS,
    ROOT,
    TARGETS,
    ZOO,
    chosen,
    compute,
    draw,
    make_table,
    use_made_up,
)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The papers with one more experiment, and a folder where made-up results are published."""
    folder = tmp_path_factory.mktemp("publish")
    ignored = shutil.ignore_patterns("tests", "__pycache__")
    papers = shutil.copytree(ROOT / "papers", folder / "papers", ignore=ignored)
    (papers / "beyond/experiments/small-zoo.yaml").write_text(yaml.safe_dump(ZOO))
    with pytest.MonkeyPatch.context() as patch:
        use_made_up(patch, papers)
        (folder / "project").mkdir()
        patch.chdir(folder / "project")
        Path("config.yaml").write_text("scale: demo\n")
        compute(*EXPERIMENTS)
        make_table(*EXPERIMENTS)
        draw(*TARGETS)
        publish(chosen())
    return folder


@pytest.fixture
def published(template, tmp_path, monkeypatch):
    """A copy of it, to be changed."""
    use_made_up(monkeypatch, template / "papers")
    monkeypatch.chdir(shutil.copytree(template / "project", tmp_path / "project"))


@pytest.fixture
def built(published):
    """The same before anything was published."""
    shutil.rmtree("results/published")
