"""Lay the papers' files among those of the package, as they are imported: for mypy and contracts.

    python -m tools.joined build/joined

A file that has not changed keeps its time, so that what was checked before is not checked again.
"""

import shutil
import sys
from pathlib import Path

from flatlab.core.studies import FOLDERS, PACKAGE, package_folder, shipped


def join(target: Path) -> None:
    """Copy the package and the studies that ship with it to `target`/flatlab."""
    there = target / PACKAGE.name
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(PACKAGE, there, ignore=shutil.ignore_patterns("__pycache__", "template"))
    for key, folder in shipped().items():
        own = there / "papers" / key
        own.mkdir(parents=True)
        for package in (own.parent, own):
            (package / "__init__.py").touch()
        for path in folder.glob("*.py"):
            shutil.copy2(path, own)
        for name in FOLDERS:
            for path in (folder / name).glob("*.py"):
                shutil.copy2(path, there / package_folder(name).relative_to(PACKAGE))


if __name__ == "__main__":
    join(Path(sys.argv[1]))
