"""Sphinx's configuration: `make site` builds the site from this folder and published results."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from flatlab.version import __version__  # noqa: E402 - the package lies beside this folder

project = "flatlab"
author = "the flatlab developers"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "docstrings",  # of this folder, as is the next
    "published",  # writes the pages of figures, gallery and scoreboard
]
exclude_patterns = ["_templates"]

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
default_role = "literal"  # single backticks in docstrings
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"flatlab {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sort.js"]
html_copy_source = False
html_show_copyright = False
