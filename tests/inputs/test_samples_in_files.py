"""Samples in files as people have them: read rightly, or refused in a sentence."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from flatlab.core.errors import MeasureError
from flatlab.data import DataError
from flatlab.inputs.files import parts_of_data
from tests.refusals import refusal

ROWS = [(0, 1.5, 2.25), (2, -0.5, 1e-3), (1, 7.0, 0.25)]
X, Y = np.array([row[1:] for row in ROWS]), [0, 2, 1]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def text(head, rows=ROWS, sep=",", decimal="."):
    lines = [sep.join(str(cell).replace(".", decimal) for cell in row) for row in rows]
    return "\n".join([*([head] if head else []), *lines]) + "\n"


NUMBERED = [(n, *row) for n, row in enumerate(ROWS)]
TABLES = {
    "header": text("label,a,b"),
    "no final newline": text("label,a,b").strip(),
    "lines of Windows": text("label,a,b").replace("\n", "\r\n"),
    "mark": "\ufeff" + text("label,a,b"),
    "utf-16": text("label,a,b").encode("utf-16"),
    "semicolons": text("label;a;b", sep=";"),
    "decimal commas": text("label;a;b", sep=";", decimal=","),
    "tabs and decimal commas": text("label\ta\tb", sep="\t", decimal=","),
    "bars and blanks": text("label | a | b", sep=" | "),
    "separators at the end": text("label;a;b;", sep=";").replace("\n", ";\n").replace(";;", ";"),
    "quotes": text('"label","a","b, in m"'),
    "units": text("Label [class],a (m),b / kg"),
    "comment": text("# label,a,b"),
    "index of pandas": text(",label,a,b", NUMBERED),
    "index of pandas, saved again": text("Unnamed: 0,label,a,b", NUMBERED),
    "index of a shuffled frame": text(",label,a,b", [(9 - 5 * n, *row) for n, *row in NUMBERED]),
    "classes as numbers": text("label,a,b", [(f"{y}.0", *x) for y, *x in ROWS]),
    "target last": text("a,b,y", [(*x, y) for y, *x in ROWS]),
}
"""The same samples."""
ALONE = {
    "no header": text("", [x for _, *x in ROWS]),
    "no target": text("a;b", [x for _, *x in ROWS], sep=";"),
    "one row": text("", [ROWS[0][1:]]),
}
BAD_TABLES = {
    "two columns of targets": (text("label,target,b"), "several columns of targets: label, target"),
    "a gap": (text("label,a,b").replace("7.0", ""), "line 4, column 'a'"),
    "words": (text("label,a,b").replace("7.0", "7 m"), "'a': 7 m is no number"),
    "thousands": (text("label;a;b", sep=";", decimal=",").replace("7,0", "7.000,0"), "7.000,0"),
    "names or numbers": (text("0,1,2"), "may be names or a sample"),
    "rows that are counted": (text("id,label,a,b", NUMBERED), "'id' counts the rows"),
    "no header and counted": (text("", NUMBERED), "'1' counts the rows"),
    "a cell too many": (text("label,a"), "2 names for 3 columns"),
    "nothing": ("", "bad.csv"),
    "latin-1": (text("label,größe,b").encode("latin-1"), "utf-8"),
}


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return parts_of_data(name)[0]["train"]


@pytest.mark.parametrize("kind", [*TABLES, *ALONE])
def test_a_table_of_samples_is_read_as_it_is_meant(kind):
    found = write("d.tsv" if "tabs" in kind else "d.csv", (TABLES | ALONE)[kind])
    np.testing.assert_array_equal(found.inputs, X[:1] if kind == "one row" else X)
    if kind in ALONE:
        assert found.given is None
    else:
        assert found.given.tolist() == Y
        assert not found.given.is_floating_point()


def test_columns_of_several_targets_lie_side_by_side():
    found = write("d.csv", text("y1,y2 [m],b"))
    np.testing.assert_array_equal(found.given, [[y, a] for y, a, _ in ROWS])


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_a_table_that_has_two_meanings_or_none_is_refused(kind):
    content, words = BAD_TABLES[kind]
    assert words in refusal(DataError, write, "bad.csv", content)


F = X.astype(np.float32)
TENSORS = torch.from_numpy(F), torch.tensor(Y)
ARRAYS = {
    "scalars.npz": lambda f: np.savez(f, x=F, y=Y, lr=0.1, epoch=3),
    "words.npz": lambda f: np.savez(f, x=F, y=Y, classes=["a", "b", "c", "d"]),
    "validation.npz": lambda f: np.savez(f, x_train=F, y_train=Y, x_val=F[:1], y_val=Y[:1]),
    "capitals.NPZ": lambda f: np.savez(f, X=F, Y=Y) or Path(f"{f}.npz").rename(f),
    "big-endian.npz": lambda f: np.savez(f, x=F.astype(">f4"), y=np.array(Y, ">i2")),
    "long.npz": lambda f: np.savez(f, x=F.astype(np.longdouble), y=np.array(Y, np.uint16)),
    "pair.pt": lambda f: torch.save(TENSORS, f),
    "list.pth": lambda f: torch.save([*TENSORS], f),
    "names.pt": lambda f: torch.save({"inputs": TENSORS[0], "labels": TENSORS[1]}, f),
    "half.safetensors": lambda f: save_file({"x": TENSORS[0].bfloat16(), "y": TENSORS[1]}, f),
    "half.npz": lambda f: np.savez(f, x=F.astype(np.float16), y=Y),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_the_same_samples_however_they_are_saved(name):
    ARRAYS[name](name)
    parts, scaling = parts_of_data(name)
    np.testing.assert_allclose(parts["train"].inputs, X, rtol=4e-3 if "half" in name else 1e-7)
    assert parts["train"].given.tolist() == Y
    assert [*parts] == ["train"]
    assert scaling == ""


def test_other_files_and_scalings_that_are_not_applied_are_refused():
    np.savez("d.npz", x=F, y=Y)
    Path("d.parquet").write_bytes(b"PAR1")
    for sentence, *given in (
        ("--scaling channels is of bytes", "d.npz", "channels"),
        ("no file .npz, .npy", "d.parquet"),
        ("no file .npz, .npy", "absent.csv2"),
    ):
        assert sentence in refusal(DataError, parts_of_data, *given)
    np.savez("words.npz", x=F, y=["a", "b", "c"])
    assert "targets are no numbers" in refusal(MeasureError, parts_of_data, "words.npz")
    np.savez("large.npz", x=F, y=np.array([2**63, 1, 2], np.uint64))
    assert "2^63" in refusal(MeasureError, parts_of_data, "large.npz")


COLOURS = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
GREY = COLOURS[..., 0]
WIDE = (GREY.astype(np.uint16) << 8) + 77


def with_alpha(alpha):
    return Image.fromarray(np.dstack([COLOURS, np.full((4, 5), alpha, np.uint8)]))


def rotated(image):
    exif = image.getexif()
    exif[0x0112] = 6
    image.info["exif"] = exif.tobytes()
    return image


PICTURES = {  # an image; what is seen of it, or why it is refused; and what is said
    "8 bits": (Image.fromarray(COLOURS), COLOURS),
    "grey": (Image.fromarray(GREY), GREY),
    "16 bits": (Image.fromarray(WIDE), GREY),
    "16 bits, big-endian": (Image.fromarray(WIDE.astype(">u2")), GREY),
    "one bit": (Image.fromarray(GREY > 99), 255 * (GREY > 99)),
    "palette": (Image.fromarray(GREY).convert("P"), np.dstack([GREY] * 3)),
    "grey and opaque": (Image.fromarray(GREY).convert("LA"), np.dstack([GREY] * 3)),
    "opaque": (with_alpha(255), COLOURS),
    "transparent": (with_alpha(7), COLOURS, "1 have transparency"),
    "rotated": (rotated(Image.fromarray(COLOURS)), COLOURS, "1 have a rotation in EXIF"),
    "CMYK": (Image.fromarray(COLOURS).convert("CMYK"), COLOURS),
    "real numbers": (Image.fromarray(GREY / np.float32(255)), "(F)"),
    "32 bits": (Image.fromarray(WIDE.astype(np.int32)), "(I)"),
}


def seen(kind, place="d/cat"):
    """The only image of a class, as it is saved, and what is said of it."""
    image, _, *said = PICTURES[kind]
    Path(place).mkdir(parents=True)
    ending = "png" if image.mode not in ("F", "I", "CMYK", "I;16B") else "tif"
    image.save(f"{place}/0.{ending}", **image.info)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts, scaling = parts_of_data("d")
    assert [str(each.message) for each in caught if said and said[0] in str(each.message)] or not (
        caught or said
    )
    assert scaling == "unit"
    return (255 * parts["train"].inputs).round()


@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("place", ["d", "d/cat"])
def test_an_image_is_what_it_shows(kind, place):
    right = PICTURES[kind][1]
    if isinstance(right, str):
        assert right in refusal(DataError, seen, kind, place)
        return
    if right.ndim == 2 and place == "d":  # without classes there are always colours
        right = np.dstack([right] * 3)
    right = right[None] if right.ndim == 2 else right.transpose(2, 0, 1)
    np.testing.assert_array_equal(seen(kind, place)[0], right)


def folder(name, *files):
    for file in files:
        Path(name, file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(COLOURS).save(Path(name, file))


FOUR = [f"{label}/{n}.png" for label in "ab" for n in range(4)]
FOLDERS = {
    "few": (FOUR, {"train": [0] * 4 + [1] * 4}),
    "five": ([f"a/{n}.png" for n in range(5)], {"train": [0] * 4, "test": [0]}),
    "parts": (
        [f"{p}/{f}" for p in ("train", "test") for f in FOUR],
        {"train": [0] * 4 + [1] * 4, "test": [0] * 4 + [1] * 4},
    ),
    "beside": ([*FOUR, "c.png"], "1 images beside folders"),
    "empty": ([*FOUR, "c/.hidden.png"], "has no images"),
    "other classes": (["train/a/0.png", "test/b/0.png"], "different classes"),
}


@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize("kind", FOLDERS)
def test_folders_are_classes_of_training_and_testing_at_every_size(kind, size):
    files, right = FOLDERS[kind]
    folder("d", *files)
    if isinstance(right, str):
        assert right in refusal(DataError, parts_of_data, "d", resize=size)
        return
    parts, _ = parts_of_data("d", resize=size)
    assert {name: part.given.tolist() for name, part in parts.items()} == right


@pytest.mark.parametrize("scaling", ["unit", "standardized", "channels", "components", "none"])
def test_bytes_are_scaled_as_asked_wherever_they_lie(scaling):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), dtype=np.uint8)
    np.savez("d.npz", x_train=pixels[:4], x_test=pixels[4:])
    for part, images in (("train", pixels[:4]), ("test", pixels[4:])):
        Path("d", part).mkdir(parents=True)
        for n, image in enumerate(images):
            Image.fromarray(image.transpose(1, 2, 0)).save(f"d/{part}/{n}.png")
    axes = {"standardized": None, "channels": (0, 2, 3), "components": 0}
    shift, spread = 0.0, 255.0 if scaling == "unit" else 1.0
    if scaling in axes:
        shift, spread = (f(pixels[:4], axes[scaling], keepdims=True) for f in (np.mean, np.std))
    for place in ("d.npz", "d"):
        parts, applied = parts_of_data(place, scaling)
        assert applied == scaling
        for part, images in (("train", pixels[:4]), ("test", pixels[4:])):
            np.testing.assert_allclose(
                parts[part].inputs, (images - shift) / spread, rtol=2e-5, atol=1e-6
            )
