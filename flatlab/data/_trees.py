"""Folders of images, on disk or in an archive that is never unpacked to disk.

Names that begin with a dot, and what macOS adds to archives, do not count.
"""

from __future__ import annotations

import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from flatlab.data import DataError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz", ".zip")
CHUNK = 2**18
DAMAGE = (
    *(EOFError, OSError, NotImplementedError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""What the standard library raises for an archive that is cut off, altered or not one."""


class Tree(Protocol):
    """A folder of images."""

    def folders(self) -> list[str]:
        """The names of the folders in it, sorted."""

    def images(self) -> list[str]:
        """The names of the images in it, sorted; those in its folders do not count."""

    def below(self, folder: str) -> Tree:
        """One of the folders in it."""

    def read(self, image: str) -> bytes:
        """The content of one of its images."""

    def where(self, name: str = "") -> str:
        """How an error names the folder, or something in it."""


@dataclass(frozen=True)
class Folder:
    """A folder on disk."""

    path: Path

    def folders(self) -> list[str]:
        return sorted(p.name for p in self.path.iterdir() if p.is_dir() and _counts(p.name))

    def images(self) -> list[str]:
        return sorted(p.name for p in self.path.iterdir() if _is_image(p.name) and _counts(p.name))

    def below(self, folder: str) -> Folder:
        return Folder(self.path / folder)

    def read(self, image: str) -> bytes:
        return (self.path / image).read_bytes()

    def where(self, name: str = "") -> str:
        return str(self.path / name)


@dataclass(frozen=True)
class Archive:
    """A folder in an archive whose images have been read.

    content: what each folder of the archive has, by the folder's name: images by their names, and
    None for a folder.  at: the folder that is meant; the archive's top is empty.
    """

    path: Path
    content: dict[str, dict[str, bytes | None]]
    at: str = ""

    def folders(self) -> list[str]:
        return sorted(name for name, image in self.content[self.at].items() if image is None)

    def images(self) -> list[str]:
        return sorted(name for name, image in self.content[self.at].items() if image is not None)

    def below(self, folder: str) -> Archive:
        return replace(self, at=_join(self.at, folder))

    def read(self, image: str) -> bytes:
        content = self.content[self.at][image]
        assert content is not None
        return content

    def where(self, name: str = "") -> str:
        inside = _join(self.at, name)
        return f"{inside} in {self.path}" if inside else str(self.path)


def is_archive(path: Path) -> bool:
    """Whether a file has the name of an archive that can be read."""
    return bool(_ending(path.name)) and path.is_file()


def without_ending(name: str) -> str:
    """What an archive is called: pets for pets.tar.xz."""
    return name[: len(name) - len(_ending(name))]


def archive_beside(folder: Path, name: str) -> Path | None:
    """The archive with a name in a folder: train.tar.xz for train; two are a `DataError`."""
    found = [folder / f"{name}{ending}" for ending in ARCHIVES]
    found = [path for path in found if path.is_file()]
    if len(found) > 1:
        raise DataError(f"{folder} has {found[0].name} and {found[1].name}; keep one of them")
    return found[0] if found else None


def open_archive(path: Path) -> Archive:
    """All images of an archive. Raises `DataError` for damage and for members that are refused.

    Folders around the only folder are left out: train/cat/1.png is cat/1.png where all is in train.
    """
    content: dict[str, dict[str, bytes | None]] = {"": {}}
    members = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    with tqdm(desc=f"reading {path.name}", unit=" files", disable=None) as bar:
        try:
            for name, is_folder, read in members(path):
                parts = _parts(path, name)
                if all(map(_counts, parts)):
                    _add(content, parts, is_folder, read)
                bar.update()
        except DataError:
            raise
        except PermissionError:
            raise DataError(f"{path} may not be read; change its permissions") from None
        except DAMAGE as error:
            raise DataError(
                f"{path} is damaged or incomplete ({_reason(error)}); copy or make it again"
            ) from None
    top = Archive(path, content)
    while len(top.folders()) == 1 and not top.images():
        top = top.below(top.folders()[0])
    return top


def _add(
    content: dict[str, dict[str, bytes | None]],
    parts: list[str],
    is_folder: bool,
    read: Callable[[], bytes],
) -> None:
    if not parts or not (is_folder or _is_image(parts[-1])):
        return
    for depth in range(len(parts) - (not is_folder)):
        folder = "/".join(parts[: depth + 1])
        content["/".join(parts[:depth])][parts[depth]] = None
        content.setdefault(folder, {})
    if not is_folder:
        content["/".join(parts[:-1])][parts[-1]] = read()


def _tar_members(path: Path) -> Iterator[tuple[str, bool, Callable[[], bytes]]]:
    with tarfile.open(path, "r:*", tarinfo=_WholeInfo) as archive:
        for member in archive:
            if not (member.isdir() or member.isreg()):
                kind = "a link" if member.issym() or member.islnk() else "not a file or folder"
                raise _refusal(path, member.name, kind)

            def read(member: tarfile.TarInfo = member) -> bytes:
                file = archive.extractfile(member)
                assert file is not None
                content = file.read()
                if len(content) < member.size:
                    raise tarfile.ReadError("unexpected end of data")
                return content

            yield member.name, member.isdir(), read
        while archive.fileobj and archive.fileobj.read(CHUNK):
            pass  # the checksum of a .gz comes after the last member


class _WholeInfo(tarfile.TarInfo):
    """The head of a member, where only an archive's regular end is taken for its end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _WholeInfo:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise
            # The library would end here without a word.
            raise tarfile.ReadError(f"{error or 'no'} header") from None


def _zip_members(path: Path) -> Iterator[tuple[str, bool, Callable[[], bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                what = "a link" if kind == stat.S_IFLNK else "not a file or folder"
                raise _refusal(path, member.filename, what)
            # The name as it is written: the library cuts it off at a zero byte.
            yield (
                member.orig_filename,
                member.is_dir(),
                lambda member=member: archive.read(member),  # type: ignore[misc]
            )


def _parts(path: Path, name: str) -> list[str]:
    """The folders and the file of a member's name; refused where it would leave the archive."""
    parts = re.split(r"[/\\]", name)
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        raise _refusal(path, name, "an absolute path")
    if ".." in parts:
        raise _refusal(path, name, "a path that leaves the archive")
    return [part for part in parts if part not in ("", ".")]


def _refusal(path: Path, member: str, kind: str) -> DataError:
    return DataError(
        f"{path}: {member!r} is {kind}, which is refused; pack the archive anew with files alone"
    )


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES)


def _ending(name: str) -> str:
    return next((ending for ending in ARCHIVES if name.lower().endswith(ending)), "")


def _join(folder: str, name: str) -> str:
    return "/".join(filter(None, (folder, name)))


def _reason(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]  # the library's details are many
    return lines[0].rstrip(":")
