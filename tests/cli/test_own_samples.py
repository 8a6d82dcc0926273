"""`flatlab table --data`: samples in files of every form, and from functions."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from flatlab.cli import main
from flatlab.core import store

FORMS = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FILE = dict(np.load("data.npz"))


def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))


def named():
    return FILE


def four():
    return [torch.from_numpy(FILE[n]) for n in ("x_train", "y_train", "x_test", "y_test")]


def loaders():
    x, y, x_test, y_test = four()
    return DataLoader(TensorDataset(x, y), 7), TensorDataset(x_test, y_test)


def wrong():
    return 3
"""
COMMAND = ["table", "*.pt", "--model", "forms:build", "--samples", "9", "--out", "t.zarr.zip"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two networks and their samples."""
    monkeypatch.chdir(tmp_path)
    Path("forms.py").write_text(FORMS)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 6)).astype("float32")
    y = np.arange(50) % 3
    np.savez("data.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
        torch.save(model.state_dict(), f"{seed}.pt")
    yield tmp_path
    sys.modules.pop("forms", None)


def table(data):
    assert main([*COMMAND, "--data", data]) == 0, data
    return store.load_dataset("t.zarr.zip")


@pytest.mark.parametrize("data", ["d.safetensors", "forms:named", "forms:four", "forms:loaders"])
def test_samples_of_every_form_give_the_same_table(here, data):
    with np.load("data.npz") as file:
        save_file({name: torch.from_numpy(file[name]) for name in file.files}, "d.safetensors")
    ours, whole = table(data), table("data.npz")
    assert {"test_error", "train_loss", "sharpness"} <= {*whole.data_vars}
    for name in whole.data_vars:
        np.testing.assert_array_equal(ours[name], whole[name], err_msg=name)


def test_a_csv_has_training_samples_and_inputs_alone_have_what_needs_no_targets(here):
    with np.load("data.npz") as file:
        x, y = file["x_train"], file["y_train"]
    header = ",".join([*(f"f{number}" for number in range(6)), "label"])
    np.savetxt("d.csv", np.column_stack([x, y]), delimiter=",", header=header, comments="")
    np.save("d.npy", x)
    whole = table("data.npz")
    columns, alone = table("d.csv"), table("d.npy")
    for name in ("sharpness", "train_loss"):
        assert columns[name].values == pytest.approx(whole[name].values)
    assert alone["sharpness"].values == pytest.approx(whole["sharpness"].values)
    assert not alone["diverged"].any()
    assert "test_error" not in alone


def test_networks_of_which_nothing_more_is_known_are_drawn(here):
    table("data.npz")
    assert main(["plot", "t.zarr.zip", "pairs", "sharpness:mls", "--out", "pairs.png"]) == 0
    assert Path("pairs.png").stat().st_size > 500


def test_bytes_are_divided_by_255(here):
    pixels = np.random.default_rng(1).integers(0, 256, (20, 6), dtype=np.uint8)
    np.savez("bytes.npz", x=pixels, y=np.arange(20) % 3)
    np.savez("numbers.npz", x=(pixels / np.float32(255)), y=np.arange(20) % 3)
    ours, numbers = table("bytes.npz"), table("numbers.npz")
    assert ours["sharpness"].values == pytest.approx(numbers["sharpness"].values)


def test_images_of_a_folder_are_resized(here):
    from PIL import Image, ImageOps

    generator = np.random.default_rng(2)
    pixels, labels = [], []
    for number in range(12):
        label, side = number % 3, 4 + number % 2
        folder = Path("pictures", str(label))
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(generator.integers(0, 256, (side, side + 2, 3), dtype=np.uint8))
        image.save(folder / f"{number:02}.png")
        cut = ImageOps.fit(image, (3, 3), Image.Resampling.BILINEAR)
        pixels.append(np.asarray(cut).transpose(2, 0, 1))
        labels.append(label)
    order = np.argsort(labels, kind="stable")
    np.savez("cut.npz", x=np.stack(pixels)[order], y=np.array(labels)[order])
    Path("wide.py").write_text(FORMS.replace("nn.Linear(6, 4)", "nn.Linear(27, 4)"))
    wide = nn.Sequential(nn.Flatten(), nn.Linear(27, 4), nn.Tanh(), nn.Linear(4, 3))
    torch.save(wide.state_dict(), "wide.bin")
    command = ["table", "wide.bin", "--model", "wide:build", "--samples", "9"]
    tables = []
    for name, more in {"pictures": ["--resize", "3"], "cut.npz": []}.items():
        assert main([*command, "--data", name, *more, "--out", "t.zarr.zip"]) == 0
        tables.append(store.load_dataset("t.zarr.zip"))
    sys.modules.pop("wide", None)
    assert not tables[0]["diverged"].any()
    np.testing.assert_array_equal(tables[0]["sharpness"], tables[1]["sharpness"])


def test_other_samples_are_not_resized_and_damaged_weights_are_told_in_a_sentence(here, capsys):
    command = ["--model", "forms:build", "--data", "data.npz"]
    for given in (
        ["table", "0.pt", "--resize", "4", "--out", "t.zarr.zip"],
        ["measure", "0.pt", "--resize", "4"],
    ):
        assert main([*given, *command]) == 1
        assert "--resize is of images" in capsys.readouterr().err
    for content in (b"junk", b"", b"PK\x03\x04", Path("0.pt").read_bytes()[:700]):
        Path("damaged.pt").write_bytes(content)
        assert main(["table", "damaged.pt", *command, "--out", "t.zarr.zip"]) == 1
        message = capsys.readouterr().err.strip()
        assert "damaged.pt" in message
        assert "\n" not in message


def test_a_class_without_samples_has_an_output_too(here):
    with np.load("data.npz") as file:
        x, y = file["x_train"], file["y_train"]
    kept = y < 2
    np.savez("two.npz", x=x[kept], y=y[kept])
    loss = table("two.npz")["train_loss"].values.ravel()
    import forms

    model = forms.build()
    model.load_state_dict(torch.load("0.pt"))
    outputs = model(torch.from_numpy(x[kept]))
    expected = nn.functional.cross_entropy(outputs, torch.from_numpy(y[kept])).item()
    assert loss[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": [1.0]}, "it needs inputs, called x or x_train"),
        ({"x_test": np.zeros((2, 6)), "y_test": [0, 1]}, "it needs inputs"),
        ({"x": np.zeros((2, 6)), "y": [0]}, "has 2 inputs and 1 targets"),
        ({"x": np.zeros((2, 6)), "y": [0, -1]}, "they must be classes"),
        ({"x": np.zeros((2, 6), "complex64"), "y": [0, 1]}, "inputs are complex64"),
    ],
)
def test_wrong_samples_are_told_in_a_sentence(here, capsys, arrays, sentence):
    np.savez("wrong.npz", **arrays)
    assert main([*COMMAND, "--data", "wrong.npz"]) == 1
    assert sentence in capsys.readouterr().err


def test_a_function_that_returns_something_else_is_told_in_a_sentence(here, capsys):
    assert main([*COMMAND, "--data", "forms:wrong"]) == 1
    assert "forms:wrong returned int; it must return arrays by name" in capsys.readouterr().err
