"""Sphinx's configuration: `make site` builds the site from this folder and published results."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from flatlab.version import __version__  # noqa: E402 - the package lies beside this folder

project = "flatlab"
author = "the flatlab authors"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",  # of this folder, as are the next
    "written",  # fills marks such as `<!-- keys -->` with what the code knows
    "published",  # writes the pages of figures, gallery and scoreboard
]
exclude_patterns = ["_templates", "tutorials"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
default_role = "literal"  # single backticks in docstrings
autodoc_member_order = "bysource"

autosummary_generate = True
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "generated/tutorials",
    "backreferences_dir": "generated/used",  # pages of the API show the tutorials that use them
    "doc_module": ("flatlab",),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from other machines
    "min_reported_time": 1e9,  # times differ from build to build
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "furo"
html_title = f"flatlab {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sort.js"]
html_copy_source = False
html_show_copyright = False
