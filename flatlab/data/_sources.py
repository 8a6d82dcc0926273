"""Published files: found in the data folder, or downloaded into it and verified by md5 checksum.

A missing file is requested from the mirrors listed in the environment variable FLATLAB_MIRROR, then
from the addresses where it is published.
"""

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from flatlab.data._dataset import DataError

MIRRORS = "FLATLAB_MIRROR"
"""The environment variable with the addresses of mirrors, separated by spaces."""

RETRIES = 2
"""Further attempts at each source before moving on to the next."""

TIMEOUT_S = 30.0
"""Seconds of silence after which a connection counts as broken."""


class Published(NamedTuple):
    """A published file: its name, md5 checksum and the URLs of the folders that contain it."""

    name: str
    md5: str
    folders: tuple[str, ...]


def check(path: Path, md5: str) -> Path:
    """Return the path of a file if its checksum is right; raise `DataError` otherwise."""
    try:
        with path.open("rb") as file:
            right = hashlib.file_digest(file, "md5").hexdigest() == md5
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); make it readable") from None
    if not right:
        raise DataError(
            f"{path} is damaged or incomplete (wrong checksum); delete it and run again"
        )
    return path


def obtain(title: str, files: Sequence[Published], places: Sequence[Path]) -> list[Path]:
    """The paths of files: in the first place that has them, else downloaded into the last.

    Verifies checksums. Raises `DataError` with every source and why it failed.
    """
    mirrors = os.environ.get(MIRRORS, "").split()
    local = [Path(url2pathname(urlsplit(url).path)) for url in mirrors if url.startswith("file:")]
    remote = [url for url in mirrors if not url.startswith("file:")]
    paths = []
    for file in files:
        candidates = [place / file.name for place in (*places, *local)]
        paths.append(next(filter(Path.is_file, candidates), places[-1] / file.name))
    missing = [file for file, path in zip(files, paths, strict=True) if not path.is_file()]
    for file in missing:
        if reasons := _download(file, [*remote, *file.folders], places[-1]):
            names = ", ".join(file.name for file in missing)
            raise DataError(
                f"{title} is not complete in {' or '.join(map(str, [*places, *local]))} (missing: "
                f"{names}) and could not be downloaded: {'; '.join(reasons)}; put the missing "
                f"files there, or set data_folder to their folder or {MIRRORS} to a mirror"
            )
    return [check(path, file.md5) for file, path in zip(files, paths, strict=True)]


def _download(file: Published, sources: Sequence[str], folder: Path) -> list[str]:
    """Download a file from the first source that has it; return why all of them failed, if so."""
    import pooch  # imported here: machines that have the files need not have these packages
    from requests import RequestException

    fetch = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=2**18,
        timeout=TIMEOUT_S,
        headers={"Accept-Encoding": "identity"},  # a .gz file is to stay compressed
    )
    reasons = []
    for source in sources:
        base, registry = f"{source.rstrip('/')}/", {file.name: f"md5:{file.md5}"}
        try:
            registered = pooch.create(folder, base, registry=registry, retry_if_failed=RETRIES)
            Path(registered.fetch(file.name, downloader=fetch)).chmod(0o644)
            return []
        except RequestException as error:
            # In one line, without the address; of a connection, what the operating system says.
            reason = re.sub(r".*\[Errno -?\d+\] |[)'\"]+$| for url.*", "", str(error))
            reasons.append(f"{base}{file.name} ({reason})")
        except ValueError:
            reasons.append(f"{base}{file.name} (wrong checksum)")
        except OSError as error:
            raise DataError(
                f"{folder / file.name} cannot be written ({error.strerror or error}); free some "
                "space or set data_folder to another folder"
            ) from None
    return reasons or ["no source is known"]
