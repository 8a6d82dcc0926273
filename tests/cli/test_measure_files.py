"""`flatlab measure` on samples and weights in files of several kinds."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import flatlab
from flatlab.cli import main
from flatlab.core import store

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(12, 6)).astype(np.float32)
LABELS = GENERATOR.integers(0, 3, 12)
SOURCE = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        hidden = self.first(x).tanh()
        return {"logits": self.last(hidden), "hidden": hidden}

def segment():
    return nn.Conv2d(2, 3, 1)

def images():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4, 3))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def network(place):
    import own_networks

    torch.manual_seed(0)
    model = own_networks.Net()
    save_file(model.state_dict(), "w.safetensors")
    return model


def report(*options, weights="w.safetensors", model="own_networks:Net"):
    assert main(["measure", weights, "--model", model, *options, "--out", "r.zarr.zip"]) == 0
    return store.load_dataset("r.zarr.zip")


def save_csv(path, *columns):
    names = ",".join([f"f{number}" for number in range(6)] + ["label"][: len(columns) - 1])
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=names, comments="")


@pytest.mark.parametrize("kind", ["data.npz", "data.csv", "data.safetensors"])
def test_samples_in_a_file_are_measured_as_in_a_program(kind, network):
    if kind.endswith("npz"):
        np.savez(kind, x=X, y=LABELS)
    elif kind.endswith("csv"):
        save_csv(kind, X, LABELS)
    else:
        save_file({"inputs": torch.from_numpy(X), "labels": torch.from_numpy(LABELS)}, kind)
    ours = report(
        "--data", kind, "--samples", "all", "--family", "hessian", "--loss", "cross-entropy"
    )
    expected = flatlab.measure(network, X, LABELS, families="hessian", loss="cross-entropy")
    for name in ("hessian_lambda_max", "gauss_newton_lambda_max"):
        assert float(ours[name]) == pytest.approx(float(expected[name]), rel=1e-3)
    assert ours.attrs["data"] == kind


def test_a_file_without_targets_has_the_quantities_that_need_none(network):
    np.save("x.npy", X)
    ours = report("--data", "x.npy", "--samples", "5")
    assert ours.attrs["title"].endswith("5 train samples of x.npy")
    assert float(ours["sharpness"]) > 0


def test_the_output_and_the_parameters_that_are_named(network):
    np.savez("data.npz", x=X, y=LABELS)
    all_ = ["--data", "data.npz", "--samples", "all"]
    last = report(*all_, "--parameters", "last")
    expected = flatlab.measure(network, X, LABELS, parameters="last")
    assert float(last["sharpness"]) == pytest.approx(float(expected["sharpness"]), rel=1e-4)
    hidden = report(*all_, "--output", "hidden")
    expected = flatlab.measure(network, X, output="hidden")
    assert float(hidden["sharpness"]) == pytest.approx(float(expected["sharpness"]), rel=1e-4)


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."]
)
@pytest.mark.parametrize("nested", [False, True])
def test_what_wrappers_put_before_names_is_taken_off(prefix, nested, network):
    np.save("x.npy", X)
    state = {f"{prefix}{name}": value for name, value in network.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3} if nested else state, "w.pt")
    ours = report("--data", "x.npy", "--samples", "all", weights="w.pt")
    assert float(ours["sharpness"]) == pytest.approx(
        float(flatlab.measure(network, X)["sharpness"]), rel=1e-4
    )


@pytest.fixture
def pictures(place):
    from PIL import Image

    torch.manual_seed(0)
    import own_networks

    save_file(own_networks.images().state_dict(), "w.safetensors")
    for name, sizes in {
        "same": [(9, 9)] * 4,
        "other": [(9, 12), (20, 9), (9, 9), (10, 10)],
    }.items():
        for folder in ("flat", "by-class/a", "by-class/b"):
            (place / name / folder).mkdir(parents=True)
            for number, size in enumerate(sizes):
                pixels = GENERATOR.integers(0, 256, (*size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / name / folder / f"{number}.png")


def test_images_without_classes_are_samples_where_no_targets_are_needed(pictures, capsys):
    ours = report("--data", "same/flat", model="own_networks:images")
    assert float(ours["sharpness"]) > 0
    command = ["measure", "w.safetensors", "--model", "own_networks:images", "--data", "same/flat"]
    assert main([*command, "--family", "hessian"]) == 1
    assert "needs targets" in capsys.readouterr().err


def test_images_of_different_sizes_are_resized_as_asked(pictures, capsys):
    command = ["measure", "w.safetensors", "--model", "own_networks:images", "--data"]
    assert main([*command, "other/flat"]) == 1
    error = capsys.readouterr().err
    assert "--resize" in error
    assert error.startswith("flatlab: ")
    ours = report(
        "--data",
        "other/by-class",
        "--resize",
        "8",
        "--family",
        "hessian",
        "--loss",
        "cross-entropy",
        model="own_networks:images",
    )
    assert ours.attrs["title"].endswith("8 train samples of by-class")
    assert bool(ours["hessian_converged"])


BAD = {
    "no inputs": (lambda: np.savez("bad.npz", y=X), "bad.npz", "it needs inputs"),
    "lengths": (
        lambda: np.savez("bad.npz", x=X, y=LABELS[:3]),
        "bad.npz",
        "12 inputs and 3 targets",
    ),
    "names": (lambda: np.savez("bad.npz", x=X, z=X), "bad.npz", "takes no argument 'z', but x"),
    "targets": (lambda: np.savez("bad.npz", x=X, y=X, label=X), "bad.npz", "several arrays"),
    "objects": (lambda: np.save("bad.npy", np.array([{}])), "bad.npy", "cannot be read"),
    "words": (lambda: Path("bad.csv").write_text("a,b\n1,x\n"), "bad.csv", "cannot be read"),
    "not there": (lambda: None, "missing.npz", "does not exist"),
}


@pytest.mark.parametrize("kind", BAD)
def test_files_that_hold_something_else_are_one_sentence(kind, network, capsys):
    make, name, reason = BAD[kind]
    make()
    assert main(["measure", "w.safetensors", "--model", "own_networks:Net", "--data", name]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert reason in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["measure", "table"])
def test_memory_is_given_in_gb(command, network, monkeypatch):
    from flatlab.lab.kinds.user_networks import networks, report

    np.savez("data.npz", x=X, y=LABELS)
    given = []

    def noted(*samples, memory, **how):
        given.append(memory)
        return flatlab.measure(*samples, memory=memory, **how)

    for module in (report, networks):
        monkeypatch.setattr(module, "measure", noted)
    arguments = ["--model", "own_networks:Net", "--data", "data.npz", "--memory", "0.5"]
    out = ["--out", "t.zarr.zip"]
    assert main([command, "w.safetensors", *arguments, *out]) == 0
    assert given == [500_000_000]


def test_a_pickled_model_is_refused(network, capsys):
    torch.save(nn.Linear(2, 2), "whole.pt")
    np.save("x.npy", X)
    command = ["measure", "whole.pt", "--model", "own_networks:Net", "--data", "x.npy"]
    assert main(command) == 1
    assert "could run code" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["numbers", "weights.npy", "weights.txt"])
def test_class_weights_are_numbers_or_a_file(given, network):
    np.savez("data.npz", x=X, y=LABELS)
    weights = ["1", "2", "0.5"]
    np.save("weights.npy", np.array(weights, float))
    Path("weights.txt").write_text("1, 2, 0.5\n")
    options = ["--data", "data.npz", "--family", "hessian", "--loss", "cross-entropy", "--dtype"]
    named = weights if given == "numbers" else [given]
    ours = report(*options, "float64", "--class-weights", *named)
    theirs = flatlab.measure(
        network,
        X,
        LABELS,
        families="hessian",
        loss="cross-entropy",
        class_weights=[1, 2, 0.5],
        dtype="float64",
    )
    value = float(theirs["hessian_lambda_max"])
    assert float(ours["hessian_lambda_max"]) == pytest.approx(value, rel=1e-6)


def test_class_weights_that_are_none_are_one_sentence(network, capsys):
    np.savez("data.npz", x=X, y=LABELS)
    command = ["measure", "w.safetensors", "--model", "own_networks:Net", "--data", "data.npz"]
    command += ["--loss", "cross-entropy", "--family", "hessian"]
    assert main([*command, "--class-weights", "many"]) != 0
    assert "--class-weights many" in capsys.readouterr().err


def test_void_pixels_in_a_file_do_not_count(place):
    import own_networks

    torch.manual_seed(0)
    model = own_networks.segment()
    save_file(model.state_dict(), "w.safetensors")
    x = GENERATOR.normal(size=(4, 2, 3, 3)).astype(np.float32)
    y = GENERATOR.integers(0, 3, (4, 3, 3))
    y[:2, 0] = 255
    np.savez("data.npz", x=x, y=y)
    how = ["--data", "data.npz", "--ignore-index", "255", "--dtype", "float64"]
    ours = report(*how, "--family", "geometry", model="own_networks:segment")
    theirs = flatlab.measure(model, x, y, ignore_index=255, dtype="float64")
    assert float(ours["sharpness"]) == pytest.approx(float(theirs["sharpness"]), rel=1e-9)
    assert ours.attrs["positions_ignored"] == 6
