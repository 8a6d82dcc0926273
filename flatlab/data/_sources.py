"""Published files: found in the data folder, or downloaded into it and verified by md5 checksum.

A missing file is requested from the mirrors listed in the environment variable FLATLAB_MIRROR, then
from the addresses where it is published. An interrupted download resumes where it stopped.
"""

import hashlib
import os
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tqdm import tqdm

from flatlab.data import DataError
from flatlab.jobs import Guard
from flatlab.store import StoreError

MIRRORS = "FLATLAB_MIRROR"
"""The environment variable with the addresses of mirrors, separated by spaces."""

TRIES = 3
"""Attempts at each source before moving on to the next."""

PAUSE_S = 1.0
"""Seconds before the second attempt; the pause doubles before each further one."""

TIMEOUT_S = 30.0
"""Seconds of silence after which a connection counts as broken."""

CHUNK = 2**18
TEMPORARY = (408, 416, 425, 429)
"""HTTP client errors after which the same source is tried again."""


@dataclass(frozen=True)
class Published:
    """A published file: its name, md5 checksum and the URLs of the folders that contain it."""

    name: str
    md5: str
    folders: tuple[str, ...]


class _Failed(Exception):
    """A failed attempt to download; final: trying the same source again would not help."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def check(path: Path, md5: str) -> Path:
    """Return the path of a file if its checksum is right; raise `DataError` otherwise."""
    try:
        right = _md5_of(path) == md5
    except OSError as error:
        raise DataError(f"{path} cannot be read ({_reason(error)}); make it readable") from None
    if not right:
        raise DataError(
            f"{path} is damaged or incomplete (wrong checksum); delete it and run again"
        )
    return path


def obtain(title: str, files: Sequence[Published], places: Sequence[Path]) -> list[Path]:
    """The paths of files: in the first place that has them, else downloaded into the last.

    Verifies checksums. Raises `DataError` with every source and why it failed.
    """
    paths = [_find(file.name, places) for file in files]
    missing = [file for file, path in zip(files, paths, strict=True) if not path.is_file()]
    try:
        for file in missing:
            download(file, places[-1] / file.name)
    except _Failed as failed:
        names = ", ".join(file.name for file in missing)
        raise DataError(
            f"{title} is not complete in {' or '.join(map(str, places))} (missing: {names}) "
            f"and could not be downloaded: {failed}; put the missing files there, or set "
            f"data_folder to their folder or {MIRRORS} to a mirror"
        ) from None
    return [check(path, file.md5) for file, path in zip(files, paths, strict=True)]


def download(file: Published, target: Path) -> None:
    """Download a file, under the name `.part` until its checksum is right."""
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Guard(target):
            if not target.is_file():  # another process may have been faster
                _complete(part, file)
                os.replace(part, target)
    except StoreError as error:
        raise DataError(str(error)) from None
    except OSError as error:  # of this machine: those of the network are `_Failed`
        raise DataError(
            f"{target} cannot be written ({_reason(error)}); free some space or set data_folder "
            "to another folder"
        ) from None


def _find(name: str, places: Sequence[Path]) -> Path:
    return next((p / name for p in places if (p / name).is_file()), places[-1] / name)


def _complete(part: Path, file: Published) -> None:
    """Download a file, or the rest of it, from the first source that has it."""
    if part.is_file() and _md5_of(part) == file.md5:
        return  # a process was killed before it could rename the file
    reasons = []
    for folder in (*os.environ.get(MIRRORS, "").split(), *file.folders):
        url = f"{folder.rstrip('/')}/{file.name}"
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S * 2 ** (number - 1))
            try:
                _try(url, part, file.md5)
                return
            except _Failed as failed:
                reason = f"{url} ({failed})"
                if failed.final:
                    break
        reasons.append(reason)
    raise _Failed("; ".join(reasons) or "no source is known")


def _try(url: str, part: Path, md5: str) -> None:
    """Download all or the rest of a file from one source; raise `_Failed` with the reason."""
    start = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": "flatlab"} | ({"Range": f"bytes={start}-"} if start else {})
    with _network_errors(part):
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    resumed = start > 0 and response.status == 206  # otherwise the whole file is sent
    received = start if resumed else 0
    length = response.headers.get("Content-Length", "")
    total = received + int(length) if length.isdigit() else None
    bar = tqdm(
        desc=part.stem, total=total, initial=received, unit="B", unit_scale=True, disable=None
    )
    with response, part.open("ab" if resumed else "wb") as file, bar:
        while chunk := _chunk(response, part):
            file.write(chunk)
            bar.update(len(chunk))
            received += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and received < total:
        raise _Failed(f"the connection broke after {received:,} of {total:,} bytes")
    if _md5_of(part) != md5:
        part.unlink()
        # After a resumption the earlier bytes may be to blame; otherwise the source is.
        raise _Failed("wrong checksum", final=not resumed)


def _chunk(response: Any, part: Path) -> bytes:
    with _network_errors(part):
        return response.read1(CHUNK)  # whatever has arrived, so that a kill loses little


@contextmanager
def _network_errors(part: Path) -> Iterator[None]:
    """Turn errors of the source into `_Failed`, so that they differ from those of the disk."""
    try:
        yield
    except HTTPError as error:
        error.close()
        if error.code == 416:
            part.unlink(missing_ok=True)  # it is longer than the file
        final = 400 <= error.code < 500 and error.code not in TEMPORARY
        raise _Failed(f"HTTP {error.code} {error.reason}", final) from None
    except ValueError:
        raise _Failed("not an address", final=True) from None
    except (OSError, HTTPException) as error:
        raise _Failed(_reason(error)) from None


def _md5_of(path: Path) -> str:
    with path.open("rb") as file:
        # As a declared non-security use, md5 also runs where policy forbids it for security.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _reason(error: Exception) -> str:
    """The message of an error in one line."""
    cause = getattr(error, "reason", error)  # inside urllib's own exception
    text = getattr(cause, "strerror", None) or str(cause)
    return " ".join(text.split()) or type(cause).__name__
