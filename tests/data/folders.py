"""Folders of images by class, and archives of them."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

from PIL import Image

from flatlab.data import DataError, load
from tests.refusals import refusal as refused

TARS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}
ENDINGS = [*TARS, ".zip"]


def write(folder, classes=("cat", "dog"), count=10, mode="L", size=(6, 4), form="png"):
    """Images whose pixels all have the value of their place in the class."""
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = number if mode == "L" else (number, 0, 255)
            Image.new(mode, size, colour).save(folder / name / f"{number:03}.{form}")
    return folder


def pack(folder, archive, below=".", names=None):
    """Everything in a folder as an archive; names: which members, in which order."""
    paths = sorted(folder.rglob("*"))
    names = names or [path.relative_to(folder).as_posix() for path in paths]
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                file.write(folder / name, Path(below, name))
    else:
        ending = next(ending for ending in TARS if archive.name.endswith(ending))
        with tarfile.open(archive, TARS[ending]) as file:
            for name in names:
                file.add(folder / name, Path(below, name), recursive=False)
    return archive


def add_to_tar(archive, name, kind=tarfile.REGTYPE, target=""):
    """One more member of an uncompressed archive."""
    with tarfile.open(archive, "a") as file:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        file.addfile(member, io.BytesIO())


def add_to_zip(archive, name, kind=stat.S_IFREG):
    """One more member of an archive."""
    with zipfile.ZipFile(archive, "a") as file:
        member = zipfile.ZipInfo("x")
        member.filename = name
        member.external_attr = (kind | 0o644) << 16
        file.writestr(member, b"target")


def refusal(place):
    """Why the images of a folder or an archive are refused."""
    return refused(DataError, load, "image-folder", str(place))
