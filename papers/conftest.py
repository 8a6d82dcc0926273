"""What tests of the papers share: modules of studies can be imported, and fixtures of tests/."""

import flatlab.core.studies  # noqa: F401
from tests.conftest import mlp, normal, stripes  # noqa: F401
