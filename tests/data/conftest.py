"""A small folder of images."""

import pytest

from tests.data.folders import write


@pytest.fixture
def pets(tmp_path):
    """Images in colours with a split, as folders."""
    write(tmp_path / "pets" / "train", count=5, mode="RGB")
    write(tmp_path / "pets" / "test", count=3, mode="RGB")
    return tmp_path / "pets"
