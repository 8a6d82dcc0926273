"""Images in folders of classes and in archives; whatever is wrong with them is named."""

import gzip
import io
import os
import shutil
import stat
import sys
import tarfile
import tempfile
import tracemalloc
import zipfile
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
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


@pytest.fixture
def pets(tmp_path):
    """Images in colours with a split, as folders."""
    write(tmp_path / "pets" / "train", count=5, mode="RGB")
    write(tmp_path / "pets" / "test", count=3, mode="RGB")
    return tmp_path / "pets"


def test_every_fifth_image_of_a_class_is_for_testing(tmp_path):
    data = load("image-folder", str(write(tmp_path / "pets")))
    assert data.attrs["classes"] == ["cat", "dog"]
    assert data["train_inputs"].shape == (16, 4, 6)
    assert data["test_labels"].values.tolist() == [0, 0, 1, 1]
    assert data["test_inputs"].values[:, 0, 0].tolist() == [4, 9, 4, 9]
    assert data.attrs["title"] == "pets"


def test_colours_come_first_and_grey_images_among_them_become_colours(tmp_path):
    write(tmp_path, classes=("a", "b"), mode="RGB")
    Image.new("L", (6, 4), 7).save(tmp_path / "a" / "000.png")
    inputs = load("image-folder", str(tmp_path))["train_inputs"].values
    assert inputs.shape == (16, 3, 4, 6)
    assert np.all(inputs[0] == 7)
    assert inputs[1, :, 0, 0].tolist() == [1, 0, 255]


@pytest.mark.parametrize("part", ["train", "test"])
def test_one_part_in_grey_becomes_colours_where_the_other_has_them(part, tmp_path):
    for name in ("train", "test"):
        write(tmp_path / name, mode="L" if name == part else "RGB")
    data = load("image-folder", str(tmp_path))
    assert data["train_inputs"].shape == data["test_inputs"].shape == (20, 3, 4, 6)
    assert data[f"{part}_inputs"].values[9, :, 0, 0].tolist() == [9, 9, 9]


def test_folders_train_and_test_are_the_split_and_theirs_the_title(pets, monkeypatch):
    data = load("image-folder", str(pets))
    assert (data.sizes["train_sample"], data.sizes["test_sample"]) == (10, 6)
    (pets.parent / "link").symlink_to(pets)
    assert load("image-folder", f"{pets}/").attrs["title"] == "pets"
    assert load("image-folder", f"{pets}/../link").attrs["title"] == "link"
    monkeypatch.chdir(pets)
    assert load("image-folder", ".").attrs["title"] == "pets"


def test_a_class_may_be_called_train(tmp_path):
    folder = write(tmp_path / "traffic", classes=("bus", "train"))
    assert load("image-folder", str(folder)).attrs["classes"] == ["bus", "train"]


def test_an_archive_of_classes_is_split_like_a_folder_and_hidden_files_do_not_count(tmp_path):
    folder = write(tmp_path / "pets")
    (folder / ".cache").mkdir()
    (folder / "cat" / "._000.png").write_bytes(b"no image")
    whole = load("image-folder", str(folder))
    assert whole.sizes["train_sample"] == 16
    for ending in (".tar.gz", ".zip"):
        archive = pack(folder, tmp_path / f"pets{ending}")
        assert load("image-folder", str(archive)).equals(whole)


@pytest.mark.parametrize("ending", ["", ".tar.xz", ".zip"])
def test_what_cannot_be_used_is_named_by_its_place_in_a_folder_or_archive(ending, pets, tmp_path):
    name = f"pets{ending}"
    image, place = pets / "test" / "cat" / "001.png", f"{name}/test/cat/001.png"

    def told():
        return refusal(pack(pets, tmp_path / name) if ending else pets)

    for content in (b"no image", b"", image.read_bytes()[:40]):
        image.write_bytes(content)
        assert f"{place} cannot be read as an image; replace or delete it" in told()
    Image.new("L", (9, 9)).save(image)
    assert f"{place} has (9, 9) pixels, others have (4, 6); resize them" in told()
    Image.new("I;16", (6, 4)).save(image)
    assert f"{place} has more than 8 bits per colour (I;16); convert it" in told()
    image.unlink()
    (cow := pets / "test" / "cow").mkdir()
    assert f"{name}/test/cow has no images" in told()
    cow.rmdir()
    (pets / "test" / "dog").rename(cow)
    assert "different classes" in told()
    shutil.rmtree(cow)
    assert "at least two classes" in told()
    assert "is not a folder or an archive" in refusal(tmp_path / f"none{ending}")


def test_cifar10_as_jpeg_holds_50000_and_10000_images():
    folder = os.environ.get("FLATLAB_DATA")
    if not folder:
        pytest.skip("FLATLAB_DATA does not name a folder of data sets")
    if not Path(folder, "cifar10-jpeg").is_dir():
        pytest.skip("the folder FLATLAB_DATA does not have a folder cifar10-jpeg")
    raw = load("image-folder", str(Path(folder, "cifar10-jpeg")))
    for part, count in (("train", 50_000), ("test", 10_000)):
        assert raw[f"{part}_inputs"].shape == (count, 3, 32, 32)
        assert raw[f"{part}_inputs"].dtype == np.uint8
        assert raw[f"{part}_labels"].values.tolist() == sorted([*range(10)] * (count // 10))
    assert raw.attrs["title"] == "cifar10-jpeg"
    means = raw["train_inputs"].values.mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.491, 0.482, 0.447], abs=1e-3)


@pytest.mark.parametrize(("ending", "below"), [*zip(ENDINGS, cycle([".", "part"]))])
def test_archives_of_train_and_test_are_the_split(ending, below, pets, tmp_path):
    folder = tmp_path / "archives" / "pets"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        pack(pets / part, folder / f"{part}{ending}", below=part if below == "part" else ".")
    before = sorted(folder.rglob("*"))
    assert load("image-folder", str(folder)).identical(load("image-folder", str(pets)))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("ending", "below"), [*zip(ENDINGS, cycle([".", "pets", "a/b"]))])
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


def test_a_split_may_be_half_a_folder_and_half_an_archive(pets):
    whole = load("image-folder", str(pets))
    pack(pets / "test", pets / "test.tar")
    shutil.rmtree(pets / "test")
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


@pytest.mark.first(2)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_truncated_archive_is_named_wherever_it_ends(ending, pets, tmp_path):
    archive = pack(pets, tmp_path / f"pets{ending}")
    content = archive.read_bytes()
    end = len(content)
    if ending == ".tar":  # what follows the last member are zeros; every header is tried
        end = len(content.rstrip(b"\0"))
    cuts = {*range(0, end, 512), *range(1, end, max(1, end // 8)), end - 1}
    for cut in sorted(cuts):
        archive.write_bytes(content[:cut])
        assert f"{archive} cannot be unpacked (" in refusal(archive)


def in_an_image(content):
    """Not every byte of a head means something."""
    return content.index(b"001.png") + len("001.png") + 5


def in_a_header(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as file:
        return file.getmembers()[-3].offset


ALTERED = [
    *((ending, lambda c: len(c) // 3, "") for ending in (".tar.gz", ".tar.xz", ".tar.bz2")),
    *((".zip", in_an_image, ""), (".tar", in_a_header, "")),
    (".tar.gz", lambda content: -8, "CRC check failed"),  # the checksum at the end
]


@pytest.mark.parametrize(("ending", "place", "reason"), ALTERED)
def test_an_altered_archive_is_named(ending, place, reason, pets, tmp_path):
    archive = pack(pets, tmp_path / f"pets{ending}")
    content = bytearray(archive.read_bytes())
    content[place(bytes(content))] ^= 0xFF
    archive.write_bytes(content)
    assert f"{archive} cannot be unpacked ({reason}" in refusal(archive)


@pytest.mark.more
def test_what_follows_the_end_of_an_archive_is_not_held_in_memory(tmp_path):
    archive = pack(write(tmp_path / "animals"), tmp_path / "animals.tar.gz")
    with gzip.open(archive, "ab", compresslevel=1) as file:
        for _ in range(96):
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
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    load("image-folder", str(archive))
    shown = capsys.readouterr().err
    for part in ("unpacking pets.tar", "pets.tar: 100%", "16/16"):
        assert part in shown
