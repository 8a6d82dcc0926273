"""Hashes of files and folders: results depend on content, not on dates.

A file may be replaced by an older one, or by one of equal size: `cp -p`, `rsync -a` and archives
keep dates. The hashes of large files are kept beside Snakemake's records, by what the system says
of a file, of which the time of the last change cannot be set.
"""

import atexit
import contextlib
import functools
import glob
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

KEPT = Path(".snakemake", "flatlab-contents.json")
RECENT = 2e9
"""Nanoseconds in which a file may change twice without another time."""
MANY = 100_000
"""Files that are read for a plan; all of ImageNet's would take hours."""


def content_of(path: str | Path, above: frozenset[Path] = frozenset()) -> str:
    """A hash of a file, or of the names and the content of all files in a folder.

    Hidden files do not count; what links lead to does, but for folders that the link lies in.

    above: the folders that the path lies in, by links too.
    """
    path = Path(path)
    if path.is_dir():
        if (here := path.resolve()) in above:
            return ""
        shown = sorted(each for each in path.glob("[!.]*") if each.exists())
        lines = [f"{each.name} {content_of(each, above | {here})}" for each in shown]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    about, key = path.stat(), os.path.abspath(path)
    now = [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]
    if (known := _kept().get(key)) and known[1:] == now:
        return str(known[0])
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    if time.time_ns() - about.st_ctime_ns > RECENT:
        _kept()[key] = [found, *now]
    return found


def content_within(folder: Path, names: Iterable[str]) -> str:
    """A hash of the files and folders of these names, or patterns, in a folder; "" if none exists.

    Of more than `MANY` files it is one of their names, sizes and dates.
    """
    inside = [os.path.join(glob.escape(str(folder)), name) for name in names]  # or elsewhere
    paths = [Path(path) for pattern in inside for path in sorted(glob.glob(pattern))]
    files = [each for path in paths for each in (path, *sorted(path.rglob("[!.]*")))]
    if len(files) > MANY:
        found = [(each, each.stat()) for each in files if each.is_file()]
        lines = [f"{each} {about.st_size} {about.st_mtime_ns}" for each, about in found]
    else:
        lines = [f"{path.name} {content_of(path)}" for path in paths]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


@functools.cache
def _kept() -> dict[str, list[str | int]]:
    """Hashes with size, times and number of their files, which are written when Python ends."""
    kept, place = _read(), KEPT.absolute()
    before = dict(kept)

    def write() -> None:
        if kept != before and place.parent.is_dir():
            part = place.with_suffix(f".{os.getpid()}")
            with contextlib.suppress(OSError):
                part.write_text(json.dumps({**_read(place), **kept}))
                os.replace(part, place)

    atexit.register(write)
    return kept


def _read(place: Path = KEPT) -> dict[str, list[str | int]]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(place.read_text())
        return found if isinstance(found, dict) else {}
    return {}
