"""Folders of images, and archives of them, which are unpacked into a temporary folder.

Hidden files, whose names begin with a dot, and what macOS adds to archives are ignored.
"""

import atexit
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flatlab.data._dataset import DataError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz", ".zip")


def as_folder(place: Path) -> Path:
    """A folder as it is, or the content of an archive; raise `DataError` for anything else.

    In an archive, a folder that contains everything else is skipped: train/cat/1.png becomes
    cat/1.png if there is nothing beside train.
    """
    if place.is_dir():
        return place
    if not (place.is_file() and place.name.lower().endswith(ARCHIVES)):
        raise DataError(
            f"{place} is not a folder or an archive ({', '.join(ARCHIVES)}); put images there, in "
            "one folder per class"
        )
    top = unpacked(place)
    while len(inside := folders(top)) == 1 and not images(top):
        top = inside[0]
    return top


def folders(folder: Path) -> list[Path]:
    """The folders in a folder, sorted by name."""
    return [path for path in _visible(folder) if path.is_dir()]


def images(folder: Path) -> list[Path]:
    """The image files directly in a folder, sorted by name."""
    return [path for path in _visible(folder) if path.name.lower().endswith(IMAGES)]


def _visible(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name[0] != "." and p.name != "__MACOSX")


def decode(file: Path) -> Any:
    """The image in a file, as Pillow's; raise `DataError` with its name if it is damaged."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            image.load()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
        raise DataError(f"{file} cannot be read as an image; replace or delete it") from None
    return image


def unpacked(path: Path) -> Path:
    """The content of an archive, in a temporary folder that is deleted when the process ends.

    Raises `DataError` for damage, for members outside the archive and for too many bytes.
    """
    temporary = tempfile.mkdtemp(prefix="flatlab-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    folder = Path(temporary, path.name)
    try:
        folder.mkdir()
        _unpack(path, folder)
    except Exception as error:  # tarfile, zipfile and each decompressor have errors of their own
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise DataError(
            f"{path} cannot be unpacked ({reason}); copy or create it again, or use a folder"
        ) from None
    return folder


def _unpack(path: Path, folder: Path) -> None:
    room = shutil.disk_usage(folder).free // 2
    zipped = path.name.lower().endswith(".zip")
    with zipfile.ZipFile(path) if zipped else tarfile.open(path) as opened:
        archive: Any = opened
        members = archive.infolist() if zipped else archive
        for member in tqdm(members, desc=f"unpacking {path.name}", unit=" files", disable=None):
            room -= member.file_size if zipped else member.size
            if room < 0:
                raise OSError(f"its content takes more than half of the free space of {folder}")
            if zipped:
                archive.extract(member, folder)  # never outside the folder
            else:
                archive.extract(member, folder, filter="data")
        if not zipped:
            # tarfile takes an invalid header for the end. Reading on also compares checksums; it is
            # done in pieces, since zeros of any size pack into a small file.
            pieces = iter(lambda: archive.fileobj.read(2**20), b"")
            blank = [not piece.strip(b"\0") for piece in pieces]
            if not blank or not all(blank):
                raise tarfile.ReadError("unexpected end of data")
