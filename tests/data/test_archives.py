"""Images in archives: as in folders, and whatever is wrong with an archive is named."""

import gzip
import io
import shutil
import stat
import sys
import tarfile
import tempfile
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from flatlab.data import load
from tests.data.folders import ENDINGS, add_to_tar, add_to_zip, pack, refusal, write


@pytest.mark.parametrize("below", [".", "part"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_archives_of_train_and_test_are_the_split(ending, below, pets, tmp_path):
    folder = tmp_path / "archives" / "pets"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        pack(pets / part, folder / f"{part}{ending}", below=part if below == "part" else ".")
    before = sorted(folder.rglob("*"))
    assert load("image-folder", str(folder)).identical(load("image-folder", str(pets)))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("below", [".", "pets", "a/b"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_one_archive_may_hold_train_and_test_in_any_order(ending, below, pets, tmp_path):
    files = sorted(path.relative_to(pets).as_posix() for path in pets.rglob("*.png"))
    shuffled = np.random.default_rng(0).permutation(files).tolist()
    for names in (None, shuffled):
        archive = pack(pets, tmp_path / f"animals{ending}", below, names)
        ours = load("image-folder", str(archive))
        assert ours.equals(load("image-folder", str(pets)))
        assert ours.attrs["title"] == "animals"
        assert ours.attrs["source"] == f"images in the archive animals{ending}"
        assert ours.attrs["classes"] == ["cat", "dog"]


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_one_archive_of_classes_is_split_like_a_folder(ending, tmp_path):
    folder = write(tmp_path / "pets")
    archive = pack(folder, tmp_path / f"pets{ending}")
    assert load("image-folder", str(archive)).equals(load("image-folder", str(folder)))


def test_a_split_may_be_half_a_folder_and_half_an_archive(pets):
    whole = load("image-folder", str(pets))
    pack(pets / "test", pets / "test.tar")
    for path in sorted((pets / "test").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (pets / "test").rmdir()
    assert load("image-folder", str(pets)).identical(whole)


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../cat/1.png", tarfile.REGTYPE, ""),
        ("cat/../../1.txt", tarfile.REGTYPE, ""),
        ("train/cat/9.png", tarfile.SYMTYPE, "/etc/hostname"),
        ("train/cat/9.png", tarfile.LNKTYPE, "../../../../etc/hostname"),
        ("train/cat/9.png", tarfile.CHRTYPE, ""),
        ("train/cat/9.png", tarfile.FIFOTYPE, ""),
    ],
)
def test_members_of_a_tar_archive_that_lead_out_of_it_are_refused(name, kind, target, pets):
    archive = pack(pets, pets.parent / "pets.tar")
    add_to_tar(archive, name, kind, target)
    assert f"{archive} cannot be unpacked (" in (message := refusal(archive))
    assert name in message


def test_members_of_a_zip_archive_stay_in_it(pets, tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "below"))
    archive = pack(pets, tmp_path / "pets.zip")
    whole = load("image-folder", str(archive))
    add_to_zip(archive, "../../outside.png")
    add_to_zip(archive, "/outside.png")
    assert load("image-folder", str(archive)).identical(whole)
    assert not [path for path in tmp_path.glob("*.png")]
    add_to_zip(archive, "train/cat/9.png", stat.S_IFLNK)
    assert "train/cat/9.png cannot be read as an image" in refusal(archive)


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_an_archive_that_does_not_fit_onto_the_disk_is_refused(ending, pets, tmp_path, monkeypatch):
    (pets / "test" / "cat" / "!.png").write_bytes(bytes(50_000))  # the first of all
    archive = pack(pets, tmp_path / f"pets{ending}")
    assert archive.stat().st_size < 20_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=90_000))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert f"{archive} cannot be unpacked (its content takes more than half" in refusal(archive)
    assert sum(path.stat().st_size for path in tmp_path.glob("flatlab-*/**/*.png")) < 50_000


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_truncated_archive_is_named_wherever_it_ends(ending, pets, tmp_path):
    archive = pack(pets, tmp_path / f"pets{ending}")
    content = archive.read_bytes()
    end = len(content)
    if ending == ".tar":  # what follows the last member are zeros; every header is tried
        end = len(content.rstrip(b"\0"))
    cuts = {*range(0, end, 512), *range(1, end, max(1, end // 20)), end - 1}
    for cut in sorted(cuts):
        archive.write_bytes(content[:cut])
        assert f"{archive} cannot be unpacked (" in refusal(archive)


def in_an_image(content):
    """Not every byte of a head means something."""
    return content.index(b"001.png") + len("001.png") + 5


def in_a_header(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as file:
        return file.getmembers()[-3].offset


ALTERED = {
    **{
        ending: (ending, lambda c: len(c) // 3, "") for ending in (".tar.gz", ".tar.xz", ".tar.bz2")
    },
    ".zip": (".zip", in_an_image, ""),
    "header": (".tar", in_a_header, ""),
    "checksum at the end": (".tar.gz", lambda content: -8, "CRC check failed"),
}


@pytest.mark.parametrize(("ending", "place", "reason"), ALTERED.values(), ids=ALTERED)
def test_an_altered_archive_is_named(ending, place, reason, pets, tmp_path):
    archive = pack(pets, tmp_path / f"pets{ending}")
    content = bytearray(archive.read_bytes())
    content[place(bytes(content))] ^= 0xFF
    archive.write_bytes(content)
    assert f"{archive} cannot be unpacked ({reason}" in refusal(archive)


def test_what_follows_the_end_of_an_archive_is_not_held_in_memory(tmp_path):
    archive = pack(write(tmp_path / "animals"), tmp_path / "animals.tar.gz")
    with gzip.open(archive, "ab", compresslevel=1) as file:
        for _ in range(256):
            file.write(bytes(2**20))
    tracemalloc.start()
    load("image-folder", str(archive))
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_what_is_no_archive_is_named(tmp_path):
    for ending in ENDINGS:
        archive = tmp_path / f"pets{ending}"
        archive.write_bytes(b"no archive" * 100)
        assert f"{archive} cannot be unpacked (" in refusal(archive)


@pytest.mark.parametrize("ending", [".tar.xz", ".zip"])
def test_what_cannot_be_used_in_an_archive_is_named(ending, pets, tmp_path):
    archive, image = tmp_path / f"pets{ending}", pets / "train" / "cat" / "003.png"
    place = f"{archive.name}/train/cat/003.png"
    image.write_bytes(b"no image")
    assert f"{place} cannot be read as an image" in refusal(pack(pets, archive))
    Image.new("L", (9, 9)).save(image)
    assert f"{place} has (9, 9) pixels, others have (4, 6)" in refusal(pack(pets, archive))
    image.unlink()
    (pets / "train" / "empty").mkdir()
    (pets / "test" / "empty").mkdir()
    assert f"{archive.name}/train/empty has no images" in refusal(pack(pets, archive))
    one = pack(pets / "train" / "cat", tmp_path / f"one{ending}", below="cat")
    assert "one" in refusal(one)
    assert "at least two classes" in refusal(one)


def test_an_archive_that_may_not_be_read_is_named(pets, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    archive = pack(pets, tmp_path / "pets.tar")
    monkeypatch.setattr(tarfile, "open", refuse)
    assert f"{archive} cannot be unpacked ([Errno 13] Permission denied)" in refusal(archive)


def test_an_archive_with_a_password_is_named(pets, tmp_path):
    archive = pack(pets, tmp_path / "pets.zip")
    content = bytearray(archive.read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flags of every member
        start = content.find(mark)
        while start >= 0:
            content[start + place] |= 1
            start = content.find(mark, start + 1)
    archive.write_bytes(content)
    assert "encrypted" in refusal(archive)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["train.tar.xz"], "has train.tar.xz but no test"),
        (["train.tar", "train.zip", "test.tar"], "has train.tar and train.zip; keep one of them"),
    ],
)
def test_a_split_is_one_archive_for_each_part(names, sentence, pets, tmp_path):
    folder = tmp_path / "archives"
    folder.mkdir()
    for name in names:
        pack(pets / name.partition(".")[0], folder / name)
    assert f"{folder} {sentence}" in refusal(folder)


def test_bars_are_shown_on_a_terminal_alone(pets, tmp_path, monkeypatch, capsys):
    archive = pack(pets, tmp_path / "pets.tar")
    load("image-folder", str(archive))
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    load("image-folder", str(archive))
    for part in ("unpacking pets.tar", "pets.tar: 100%", "16/16"):
        assert part in terminal.getvalue()
