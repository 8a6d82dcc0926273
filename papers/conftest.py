"""What tests of the papers share with tests/: modules of studies, fixtures and which are quick."""

import flatlab.core.studies  # noqa: F401
from tests.conftest import mlp, normal, pytest_collection_modifyitems, stripes  # noqa: F401
