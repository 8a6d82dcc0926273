"""Folders of images, on disk or in an archive that is read into memory and never unpacked to disk.

Hidden files, whose names begin with a dot, and what macOS adds to archives are ignored.
"""

from __future__ import annotations

import io
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from flatlab.data import DataError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz", ".zip")
CHUNK = 2**18
LARGEST = 2**28
"""The most bytes that one image file in an archive may have."""

DAMAGE = (
    *(EOFError, OSError, NotImplementedError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""What the standard library raises for a file that is truncated, altered or not an archive."""

Members = Iterator[tuple[str, str, int, Callable[[], bytes]]]
"""The members of an archive: name, kind, size in bytes, and a function that reads the content."""


@dataclass
class Packed:
    """A file or folder in an archive, with the methods of `Path` that reading images takes."""

    where: str
    name: str = ""
    content: bytes | None = None
    inside: dict[str, Packed] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.where

    def is_dir(self) -> bool:
        return self.content is None

    def iterdir(self) -> Iterator[Packed]:
        return iter(self.inside.values())

    def read_bytes(self) -> bytes:
        return self.content or b""


Tree = Path | Packed


def open_tree(place: Tree) -> Tree:
    """A folder as it is, or the content of an archive; raise `DataError` for anything else."""
    if place.is_dir():
        return place
    if isinstance(place, Path) and place.is_file() and place.name.lower().endswith(ARCHIVES):
        return _open_archive(place)
    raise DataError(
        f"{place} is not a folder or an archive ({', '.join(ARCHIVES)}); put images there, in one "
        "folder per class"
    )


def folders(tree: Tree) -> dict[str, Tree]:
    """The folders in a folder, by name and sorted."""
    return {each.name: each for each in _sorted(tree) if each.is_dir()}


def images(tree: Tree) -> list[Tree]:
    """The image files directly in a folder, sorted by name."""
    return [each for each in _sorted(tree) if _is_image(each.name)]


def decode(file: Tree) -> Any:
    """The image in a file, as Pillow's; raise `DataError` with its name if it is damaged."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(file.read_bytes()))
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
        raise DataError(f"{file} cannot be read as an image; replace or delete it") from None
    return image


def _open_archive(path: Path) -> Packed:
    """All images of an archive. Raises `DataError` for damage and for forbidden members.

    A folder that contains everything else is skipped: train/cat/1.png becomes cat/1.png if the
    archive has nothing beside train.
    """
    try:
        top = _read(path)
    except DataError:
        raise
    except PermissionError:
        raise DataError(f"{path} may not be read; change its permissions") from None
    except DAMAGE as error:
        # The library's messages may have several lines.
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
        raise DataError(
            f"{path} is damaged or incomplete ({reason}); copy or create it again"
        ) from None
    while len(top.inside) == 1 and (only := next(top.iterdir())).is_dir():
        top = only
    return top


def _read(path: Path) -> Packed:
    top = Packed(str(path))
    free = psutil.virtual_memory().available
    members = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    bar = tqdm(members(path), desc=f"reading {path.name}", unit=" files", disable=None)
    for name, kind, size, read in bar:
        parts = _parts(path, name, kind)
        if not all(map(_counts, parts)) or not (kind == "folder" or _is_image(name)):
            continue
        node = top
        for part in parts:
            node = node.inside.setdefault(part, Packed(f"{node}/{part}", part))
        if kind == "folder":
            continue
        free -= size
        if size > LARGEST:
            raise DataError(f"{node} unpacks to {size:,} bytes, too many for an image; remove it")
        if free < 0:
            raise DataError(f"{path} does not fit into memory; unpack it and give the folder")
        node.content = read()
        if len(node.content) < size:
            raise EOFError("unexpected end of data")
    return top


def _tar_members(path: Path) -> Members:
    with tarfile.open(path, "r:*", tarinfo=_StrictInfo) as archive:
        for member in archive:
            link = "a link" if member.issym() or member.islnk() else "not a file or folder"
            kind = "folder" if member.isdir() else "file" if member.isreg() else link
            file = archive.extractfile(member) if kind == "file" else None
            yield member.name, kind, member.size, file.read if file else bytes
        while archive.fileobj and archive.fileobj.read(CHUNK):
            pass  # the checksum of a .gz comes after the last member


class _StrictInfo(tarfile.TarInfo):
    """The header of a member; an invalid one is an error.

    The standard library takes it for the end of the archive, and would read a part without a word.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _StrictInfo:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise  # the regular end
            raise tarfile.ReadError(f"{error or 'no'} header") from None


def _zip_members(path: Path) -> Members:
    kinds = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "a link"}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = kinds.get(stat.S_IFMT(member.external_attr >> 16), "not a file or folder")
            kind = "folder" if member.is_dir() and kind == "file" else kind
            # The name as it is written: `filename` ends at a zero byte.
            yield member.orig_filename, kind, member.file_size, partial(archive.read, member)


def _parts(path: Path, name: str, kind: str) -> list[str]:
    """The folders and the file in a member's name; raise `DataError` if it is forbidden."""
    parts = re.split(r"[/\\]", name)
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        kind = "an absolute path"
    elif ".." in parts:
        kind = "a path that leaves the archive"
    if kind not in ("file", "folder"):
        raise DataError(
            f"{path}: {name!r} is {kind}, which is refused; pack regular files and folders alone"
        )
    return [part for part in parts if part not in ("", ".")]


def _sorted(tree: Tree) -> list[Any]:
    return sorted((each for each in tree.iterdir() if _counts(each.name)), key=lambda p: p.name)


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES)
