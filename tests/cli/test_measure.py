"""`flatlab measure`: networks that lie in files."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import flatlab
import flatlab.cli
from flatlab import data
from flatlab.core import store
from flatlab.data._tensors import prepare
from flatlab.lab.train.initializations import draw
from flatlab.networks import build
from tests.lab.train.packs import small

NETWORK = small("mlp")
MODEL = ["--model", "nets:mlp", "--data", "digits"]
MODULE = f"""
from flatlab.networks import build

def mlp(outputs=10):
    return build({NETWORK}, (8, 8), outputs)

def two():
    return mlp(2)
"""


def network(seed=0):
    model = build(NETWORK, (8, 8), 10)
    draw(model, "framework", seed)
    return model


@pytest.fixture(autouse=True)
def weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(MODULE)
    save_file(network().state_dict(), "weights.safetensors")
    return "weights.safetensors"


@pytest.fixture
def reported(printed):
    """Measure a file; returns the report."""

    def report(file, *options):
        printed("measure", file, *options, "--out", "reports/r.zarr.zip")
        return store.load_dataset("reports/r.zarr.zip")

    return report


def digits(count=20, seed=0):
    raw = data.load("digits")
    splits = prepare(raw, {"classes": "all", "scaling": "unit"}, None, torch.float32)
    return splits.train.subset(count, seed)


def check_same(report, reference):
    assert set(report) == set(reference)
    for name in reference:
        assert np.array_equal(report[name], reference[name], equal_nan=True), name


def test_a_network_in_a_file_is_measured_as_in_a_program(weights, printed):
    text = printed("measure", weights, *MODEL, "--samples", "20", "--out", "reports/one.zarr.zip")
    for part in ("sharpness_per_layer", "output^2/parameter^2", "fc4", "flatlab show"):
        assert part in text
    report = store.load_dataset("reports/one.zarr.zip")
    check_same(report, flatlab.measure(network(), digits().inputs))
    assert report.attrs["data"] == "digits"
    assert "log volumetric ratio" in printed("show", "reports/one.zarr.zip")


def test_a_model_of_the_users_own_is_found_in_the_working_folder(tmp_path, reported):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n\n\ndef small():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))\n"
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    save_file(model.state_dict(), "w.safetensors")
    command = ["w.safetensors", "--data", "digits", "--model"]
    report = reported(*command, "my_networks:small", "--dtype", "float64")
    assert float(report["mls"]) == pytest.approx(float(report["weight_norm"][0]))


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("def small(:\n", 1, "SyntaxError: invalid syntax"),
        ("import torch\nimport torhc\n", 2, "ModuleNotFoundError: No module named 'torhc'"),
        ("def small():\n    return 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_in_the_users_code_names_its_line_and_shows_their_traceback_alone(
    code, line, message, tmp_path, weights, capsys
):
    name = f"broken_{line}_{len(code)}"  # each a module of its own
    (tmp_path / f"{name}.py").write_text(code)
    command = ["measure", weights, "--data", "digits", "--model", f"{name}:small"]
    assert flatlab.cli.main(command) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(f"{name}.py, line {line}: {message}")
    assert rest[-1] == message
    assert not [each for each in rest if "File" in each and name not in each]


def test_images_in_folders_and_archives_are_data(tmp_path, printed):
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(16):
        pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
        (folder := tmp_path / "images" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    save_file(build(NETWORK, (8, 8), 2).state_dict(), "w.safetensors")
    archives = [shutil.make_archive("images", kind, "images") for kind in ("zip", "gztar")]
    shown = []
    for path in ("images", *archives):
        text = printed(
            "measure", "w.safetensors", "--model", "nets:two", "--data", path, "--split", "test"
        )
        assert "2 test samples of images" in text
        shown.append([line for line in text.splitlines() if line.startswith("  sharpness")])
    assert shown[0]
    assert shown[1] == shown[2] == shown[0]


def test_distances_from_the_weights_before_training(weights, reported):
    save_file(network(1).state_dict(), "initial.safetensors")
    options = ["--family", "capacity", "--options", "capacity=[distances]"]
    given = ["--samples", "5", "--initial", "initial.safetensors"]
    pairs = zip(network(0).parameters(), network(1).parameters(), strict=True)
    expected = sum((a - b).square().sum().item() for a, b in pairs) ** 0.5
    found = reported(weights, *MODEL, *given, *options).parameter_distance.item()
    assert found == pytest.approx(expected, rel=1e-5)
