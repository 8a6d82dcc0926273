"""`flatlab measure`: networks that lie in files."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import flatlab
from flatlab import data
from flatlab.cli import main
from flatlab.core import store
from flatlab.data._tensors import prepare
from flatlab.lab.train.initializations import draw
from flatlab.networks import build
from tests.lab.train.packs import small

NETWORK = small("mlp")
MODEL = ["--model", "mlp", "--network", "width=64", "--data", "digits"]


def network(seed=0):
    model = build(NETWORK, (8, 8), 10)
    draw(model, "framework", seed)
    return model


@pytest.fixture
def weights(tmp_path):
    save_file(network().state_dict(), tmp_path / "weights.safetensors")
    return str(tmp_path / "weights.safetensors")


@pytest.fixture
def pack(tmp_path):
    """Two runs with two checkpoints each; seed 2 run + checkpoint."""
    states = [[network(2 * run + c).state_dict() for c in (0, 1)] for run in (0, 1)]
    arrays = {
        name: np.stack([np.stack([state[name].numpy() for state in run]) for run in states])
        for name in states[0][0]
    }
    path = tmp_path / "pack.safetensors"
    store.save_weights(path, arrays, {"runs": ["one", "two"], "iterations": [0, 100]})
    return str(path)


def expected(model, count=20, seed=0):
    raw = data.load("digits")
    splits = prepare(raw, {"classes": "all", "scaling": "unit"}, None, torch.float32)
    return flatlab.measure(model, splits.train.subset(count, seed).inputs)


def test_a_network_in_a_file_is_measured_as_in_a_program(weights, tmp_path, capsys):
    out = tmp_path / "reports" / "one.zarr.zip"
    assert main(["measure", weights, *MODEL, "--samples", "20", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for part in ("sharpness_per_layer", "output^2/parameter^2", "fc4", "flatlab show"):
        assert part in printed
    report = store.load_dataset(out)
    reference = expected(network())
    assert set(report) == set(reference)
    for name in reference:
        assert np.array_equal(report[name], reference[name], equal_nan=True), name
    assert report.attrs["data"] == "digits"
    assert main(["show", str(out)]) == 0
    assert "log volumetric ratio" in capsys.readouterr().out


def test_a_network_of_a_pack_is_chosen_by_run_and_checkpoint(pack, tmp_path, capsys):
    assert main(["measure", pack, *MODEL]) == 1
    assert "choose one with --run: one, two" in capsys.readouterr().err
    for checkpoint, seed in ((["--checkpoint", "0"], 2), ([], 3)):
        out = tmp_path / f"{seed}.zarr.zip"
        options = ["--samples", "20", "--run", "two", *checkpoint, "--out", str(out)]
        assert main(["measure", pack, *MODEL, *options]) == 0
        found = float(store.load_dataset(out)["sharpness"])
        assert found == float(expected(network(seed))["sharpness"])


def test_a_model_of_the_users_own_is_found_in_the_working_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n\n\ndef small():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))\n"
    )
    monkeypatch.chdir(tmp_path)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    save_file(model.state_dict(), "w.safetensors")
    command = ["measure", "w.safetensors", "--data", "digits", "--out", "r.zarr.zip", "--model"]
    assert main([*command, "my_networks:small", "--dtype", "float64"]) == 0
    report = store.load_dataset("r.zarr.zip")
    assert float(report["mls"]) == pytest.approx(float(report["weight_norm"][0]))
    for wrong, message in (
        ("my_networks:large", "has no attribute 'large'"),
        ("no_networks:small", "No module named 'no_networks'"),
        ("os:getpid", "returned int, not a torch Module"),
    ):
        assert main([*command, wrong]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("def small(:\n", 1, "SyntaxError: invalid syntax"),
        ("import torch\nimport torhc\n", 2, "ModuleNotFoundError: No module named 'torhc'"),
        ("def small():\n    return 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_in_the_users_code_names_its_line_and_shows_their_traceback_alone(
    code, line, message, tmp_path, monkeypatch, capsys
):
    name = f"broken_{line}_{len(code)}"  # each a module of its own
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.zeros(1)}, "w.safetensors")
    command = ["measure", "w.safetensors", "--data", "digits", "--model", f"{name}:small"]
    assert main(command) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(f"{name}.py, line {line}: {message}")
    assert rest[-1] == message
    assert not [each for each in rest if "File" in each and name not in each]


def test_images_in_folders_and_archives_are_data(tmp_path, capsys):
    from PIL import Image

    generator = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    model = build(NETWORK, (8, 8), 2)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    command = ["measure", str(tmp_path / "w.safetensors"), *MODEL[:4]]
    assert main([*command, "--data", str(tmp_path / "images"), "--split", "test"]) == 0
    from_folder = capsys.readouterr().out
    assert "2 test samples of images" in from_folder
    for kind in ("zip", "gztar"):
        archive = shutil.make_archive(str(tmp_path / "images"), kind, tmp_path / "images")
        assert main([*command, "--data", archive, "--split", "test"]) == 0
        in_archive = capsys.readouterr().out
        assert "2 test samples of images" in in_archive
        numbers = [line for line in from_folder.splitlines() if line.startswith("  sharpness")]
        assert numbers
        assert [n for n in in_archive.splitlines() if n.startswith("  sharpness")] == numbers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "mpl", "--data", "digits"], "did you mean 'mlp'"),
        (["--model", "mlp", "--data", "digits"], "does not fit mlp"),
        ([*MODEL, "--network", "widht=64"], "unknown key 'widht'; did you mean 'width'"),
        ([*MODEL, "--network", "activation=rleu"], "did you mean 'relu'"),
        ([*MODEL, "--network", "width=wide"], "options.width: "),
        (["--model", "a:b", *MODEL[2:]], "--network belongs to --model NAME"),
        (["--model", "lenet5", "--data", "digits"], "do not fit the network"),
        (
            [*MODEL[:4], "--data", "digit"],
            "no file, folder or module:function; known data: cifar10",
        ),
        ([*MODEL, "--family", "geometri"], "did you mean 'geometry'"),
        ([*MODEL, "--loss", "hinge"], "Known: cross-entropy, half-mse, logistic"),
        ([*MODEL, "--dtype", "float16"], "known: float64, float32"),
        ([*MODEL, "--options", "cotsly=[]"], "did you mean 'costly'"),
        (
            [*MODEL, "--options", "costly=[operator]"],
            "did you mean 'operator-norm'? Known: corrected-bound, elem",
        ),
        ([*MODEL, "--outputs", "3"], "weights.safetensors does not fit mlp"),
        ([*MODEL, "--run", "one"], "holds one network"),
        ([*MODEL, "--out", "report.nc"], "a report is a .zarr.zip file"),
    ],
)
def test_what_does_not_fit_is_one_sentence_on_the_error_stream(weights, options, message, capsys):
    assert main(["measure", weights, *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert message in error


@pytest.mark.parametrize("content", [None, b"", b"\x10\0\0\0\0\0\0\0not json at all"])
def test_a_file_without_weights_is_named(content, tmp_path, capsys):
    path = tmp_path / "no.safetensors"
    if content is not None:
        path.write_bytes(content)
    assert main(["measure", str(path), *MODEL]) == 1
    assert "no.safetensors" in capsys.readouterr().err


def test_help_names_models_and_data(capsys):
    with pytest.raises(SystemExit):
        main(["measure", "--help"])
    text = capsys.readouterr().out
    for part in ("lenet5", "digits", "cross-entropy", "singular_values", "label_smoothing"):
        assert part in text


def test_the_eigenvalues_that_are_asked_for(weights, tmp_path):
    out = tmp_path / "hessian.zarr.zip"
    options = ["--family", "hessian", "--loss", "cross-entropy", "--samples", "20"]
    options += ["--options", "label_smoothing=0.1", "curvature=[gauss-newton]", "--out", str(out)]
    assert main(["measure", weights, *MODEL, *options]) == 0
    raw = data.load("digits")
    chosen = prepare(raw, {"classes": "all", "scaling": "unit"}, None, torch.float32).train
    chosen = chosen.subset(20, 0)
    reference = flatlab.measure(
        network(),
        chosen.inputs,
        chosen.labels,
        families="hessian",
        loss="cross-entropy",
        label_smoothing=0.1,
        curvature=["gauss-newton"],
    )
    report = store.load_dataset(out)
    assert set(report) == set(reference)
    for name in reference:
        assert np.array_equal(report[name], reference[name]), name


def test_distances_from_the_weights_before_training(weights, tmp_path):
    save_file(network(1).state_dict(), tmp_path / "initial.safetensors")
    out = tmp_path / "capacity.zarr.zip"
    options = ["--family", "capacity", "--options", "capacity=[distances]", "--out", str(out)]
    given = ["--samples", "5", "--initial", str(tmp_path / "initial.safetensors")]
    assert main(["measure", weights, *MODEL, *given, *options]) == 0
    pairs = zip(network(0).parameters(), network(1).parameters(), strict=True)
    expected = sum((a - b).square().sum().item() for a, b in pairs) ** 0.5
    assert store.load_dataset(out).parameter_distance.item() == pytest.approx(expected, rel=1e-5)


def test_a_network_in_a_file_of_torch_is_measured(tmp_path, capsys):
    torch.save(network().state_dict(), tmp_path / "w.pt")
    command = ["measure", str(tmp_path / "w.pt"), *MODEL, "--samples", "5"]
    assert main([*command, "--family", "all"]) == 0
    printed = capsys.readouterr().out
    assert ", adaptive" in printed
    assert "left_out: " in printed
    assert "linear is for classifiers that are one linear layer" in printed
    assert "hessian_lambda_max" in printed
    assert main([*command, "--run", "one"]) == 1
    assert "holds one network" in capsys.readouterr().err
