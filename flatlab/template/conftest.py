"""Tests of this study see its folder as the workflow does."""

from pathlib import Path

from flatlab.core.studies import use_studies

use_studies([str(Path(__file__).parent)], "conftest.py")
