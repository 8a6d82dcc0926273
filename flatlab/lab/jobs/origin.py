"""Which flatlab computes: its version, its commit, and how it was installed."""

import json
from importlib import metadata
from typing import Any

from flatlab.core.studies import PACKAGE
from flatlab.lab.jobs.job import commit_of
from flatlab.version import __version__


def origin() -> dict[str, str]:
    """`version`, `commit` ("" if it is not known) and `installed`, in words."""
    url: dict[str, Any] = {}
    installed = "not installed, run from its folder"
    try:
        distribution = metadata.distribution("flatlab")
    except metadata.PackageNotFoundError:
        pass
    else:
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        installed = "from a package index"
        if url.get("dir_info", {}).get("editable"):
            installed = "editable, from a checkout"
        elif "vcs_info" in url:
            installed = f"from {url['url']}"
        elif url:
            installed = f"from {url['url'].rpartition('/')[2]}"
    pinned = url.get("vcs_info", {}).get("commit_id", "")
    in_checkout = (PACKAGE.parent / "pyproject.toml").is_file()
    commit = pinned or (commit_of(PACKAGE.parent) if in_checkout else "")
    return {"version": __version__, "commit": commit, "installed": installed}


def origin_in_words() -> str:
    """The same in a sentence."""
    made = origin()
    commit = f", commit {made['commit']}" if made["commit"] else ""
    return f"Made with flatlab {made['version']}{commit}; installed: {made['installed']}."
