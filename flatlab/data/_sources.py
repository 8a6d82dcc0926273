"""Published files: found in the data folder or downloaded into it, checked by their md5 sums.

The sources of a file, in this order: places in the data folder, the mirrors that the environment
variable FLATLAB_MIRROR names, the addresses at which it is published.
"""

from __future__ import annotations

import hashlib
import os
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from tqdm import tqdm

from flatlab.data import DataError
from flatlab.jobs import Guard
from flatlab.store import StoreError

MIRRORS = "FLATLAB_MIRROR"
"""The environment variable with the addresses of mirrors, separated by spaces."""

TRIES = 3
"""How often a source is asked for a file before the next one is."""

PAUSE_S = 1.0
"""Seconds before the second try; each later pause is twice as long."""

TIMEOUT_S = 30.0
"""Seconds of silence after which a connection counts as broken."""

CHUNK = 2**18
PASSING = (408, 416, 425, 429)
"""Refusals of a client after which the same source may be asked again."""


@dataclass(frozen=True)
class Published:
    """A file as published: its name, its md5 checksum and the addresses of folders that hold it."""

    name: str
    md5: str
    folders: tuple[str, ...]


class _Failed(Exception):
    """A try to download that failed; `final`: the same source need not be asked again."""

    def __init__(self, reason: object, final: bool = False) -> None:
        super().__init__(" ".join(str(reason).split()) or type(reason).__name__)
        self.final = final


def md5_of(path: Path) -> str:
    """The md5 checksum of a file in hexadecimal digits."""
    with path.open("rb") as file:
        # Saying that nothing is secured by it lets it run where md5 is forbidden for security.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check(path: Path, md5: str) -> Path:
    """The path of a file whose checksum is right; `DataError` where it is not."""
    try:
        right = md5_of(path) == md5
    except OSError as error:
        raise DataError(f"{path} cannot be read ({_reason(error)}); make it readable") from None
    if not right:
        raise DataError(
            f"{path} is damaged or incomplete (wrong checksum); delete it and run again"
        )
    return path


def obtain(title: str, files: Sequence[Published], places: Sequence[Path]) -> list[Path]:
    """Where files lie: in the first place that has them, else downloaded into the last.

    Checksums are checked. Raises `DataError` with every source and its reason.
    """
    there = [_find(file.name, places) for file in files]
    missing = [file for file, path in zip(files, there, strict=True) if path is None]
    for file in missing:
        try:
            download(file, places[-1] / file.name)
        except _Failed as failed:
            names = ", ".join(file.name for file in missing)
            raise DataError(
                f"{title} is not complete in {' or '.join(map(str, places))} (missing: {names}) "
                f"and could not be downloaded: {failed}; put what is missing there, or name its "
                f"folder by data_folder or a mirror by {MIRRORS}"
            ) from None
    return [
        check(path or places[-1] / file.name, file.md5)
        for file, path in zip(files, there, strict=True)
    ]


def download(file: Published, target: Path) -> None:
    """Put a published file in its place; until its checksum is right it is called `.part`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Guard(target):
            if not target.is_file():  # another process may have been faster
                _from_any_source(file, target)
    except StoreError as error:
        raise DataError(str(error)) from None
    except OSError as error:  # of this machine: those of the network are `_Failed`
        raise DataError(
            f"{target} cannot be written ({_reason(error)}); make room or name another folder by "
            "data_folder"
        ) from None


def _find(name: str, places: Sequence[Path]) -> Path | None:
    return next((place / name for place in places if (place / name).is_file()), None)


def _from_any_source(file: Published, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    reasons = []
    for folder in (*os.environ.get(MIRRORS, "").split(), *file.folders):
        url = f"{folder.rstrip('/')}/{file.name}"
        try:
            _from_source(url, part, file.md5)
        except _Failed as failed:
            reasons.append(f"{url} ({failed})")
            continue
        os.replace(part, target)
        return
    raise _Failed("; ".join(reasons) or "no source is known")


def _from_source(url: str, part: Path, md5: str) -> None:
    """Complete `part` from one source, or raise `_Failed` with the last reason."""
    for number in range(1, TRIES + 1):
        try:
            if not (part.is_file() and md5_of(part) == md5):  # a kill may have left all of it
                _try(url, part, md5)
            return
        except _Failed as failed:
            if failed.final or number == TRIES:
                raise
        time.sleep(PAUSE_S * 2 ** (number - 1))


def _try(url: str, part: Path, md5: str) -> None:
    start = part.stat().st_size if part.is_file() else 0
    with _open(url, start, part) as response:
        # A server that cannot go on from a byte sends all of the file.
        resumed = start > 0 and _first_byte(response) == start
        _receive(response, part, start if resumed else 0)
    if md5_of(part) != md5:
        part.unlink()
        # What was there before may be to blame; if nothing was, the source has another file.
        raise _Failed("wrong checksum", final=not resumed)


def _open(url: str, start: int, part: Path) -> Any:
    headers = {"User-Agent": "flatlab"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        with error:
            if error.code == 416:
                part.unlink(missing_ok=True)  # it is longer than the file
            final = 400 <= error.code < 500 and error.code not in PASSING
            raise _Failed(f"HTTP {error.code} {error.reason}", final) from None
    except ValueError:
        raise _Failed("not an address", final=True) from None
    except (OSError, HTTPException) as error:
        raise _Failed(_reason(error)) from None


def _first_byte(response: Any) -> int:
    """Where the part of a file that a server sends begins: 0 where it sends all."""
    if response.status != 206:
        return 0
    text = response.headers.get("Content-Range", "").removeprefix("bytes").strip()
    first = text.partition("-")[0]
    if not first.isdigit():
        raise _Failed("the server sends a part without saying which", final=True)
    return int(first)


def _receive(response: Any, part: Path, start: int) -> None:
    """Write what a server sends after the first `start` bytes of `part`."""
    length = response.headers.get("Content-Length")
    total = start + int(length) if length and length.isdigit() else None
    with (
        part.open("r+b" if start else "wb") as file,
        tqdm(
            desc=part.stem,
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=None,  # shown on a terminal alone
        ) as bar,
    ):
        file.seek(start)
        while chunk := _chunk(response):
            file.write(chunk)
            bar.update(len(chunk))
        file.flush()
        os.fsync(file.fileno())
        received = file.tell()
    if total is not None and received < total:
        raise _Failed(f"the connection broke after {received:,} of {total:,} bytes")


def _chunk(response: Any) -> bytes:
    try:
        return response.read1(CHUNK)  # what has come, so that a kill loses little
    except (OSError, HTTPException) as error:
        raise _Failed(_reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        error = error.reason if isinstance(error.reason, Exception) else Exception(error.reason)
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
