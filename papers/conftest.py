"""What tests of the papers share with tests/: modules of studies, fixtures and which are quick."""

import pytest

import flatlab.core.studies  # noqa: F401
from flatlab.lab.figures import render
from tests.conftest import mlp, normal, pytest_collection_modifyitems, stripes  # noqa: F401


@pytest.fixture(autouse=True)
def one_format(monkeypatch):
    """Pictures are made in one format: what is drawn is asked here, not how files are written."""
    monkeypatch.setattr(render, "FORMATS", ("svg",))
