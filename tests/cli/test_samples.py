"""`flatlab measure` and `flatlab table` on samples and weights in files of several kinds."""

import functools
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import flatlab
from flatlab.core import store

GENERATOR = np.random.default_rng(0)
SOURCE = """
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 4)

    def forward(self, input_ids, attention_mask):
        hidden = self.embedding(input_ids) * attention_mask[..., None]
        return {"hidden": hidden, "logits": self.head(hidden.cumsum(1).tanh())}


class Two(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.image, self.text = nn.Linear(5, width), nn.Linear(3, width)
        self.head = nn.Linear(width, 3)

    def forward(self, image, text):
        return self.head((self.image(image) + self.text(text)).tanh())

import numpy as np
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        hidden = self.first(x).tanh()
        return {"logits": self.last(hidden), "hidden": hidden}


def named():
    return dict(np.load("parts.npz"))


def four():
    return [torch.from_numpy(named()[n]) for n in ("x_train", "y_train", "x_test", "y_test")]


def loaders():
    x, y, x_test, y_test = four()
    return DataLoader(TensorDataset(x, y), 7), TensorDataset(x_test, y_test)


def two_parts():
    parts = (torch.from_numpy(np.load("d.npz")[name]) for name in ("image", "text", "y"))
    return DataLoader(TensorDataset(*parts), 7)

"""
X = GENERATOR.normal(size=(12, 6)).astype(np.float32)
LABELS = GENERATOR.integers(0, 3, 12)
LOSS = ["--loss", "cross-entropy"]
HESSIAN = ["--family", "hessian", *LOSS]
ALL = ["--samples", "all"]


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """The module of the user's networks and samples, in whose folder the test runs."""
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    np.savez("data.npz", x=X, y=LABELS)
    np.save("x.npy", X)
    import mine

    yield mine
    sys.modules.pop("mine", None)


def saved(model, file="w.safetensors", seed=0):
    """A network with weights from a seed, which are in a file."""
    torch.manual_seed(seed)
    network = model()
    save_file(network.state_dict(), file)
    return network


@pytest.fixture
def network(mine):
    return saved(mine.Net)


@pytest.fixture
def measured(printed):
    """Measure a network in a file; returns the report, or the row of a table."""

    def measure(by, *options, weights="w.safetensors", model="Net"):
        printed(by, weights, "--model", f"mine:{model}", *options, "--out", "r.zarr.zip")
        found = store.load_dataset("r.zarr.zip")
        if by == "measure":
            return found
        assert not found["diverged"].any(), found["failure"].values
        return found.isel(run=0, checkpoint=0, samples=0)

    return measure


@pytest.fixture
def report(measured):
    return functools.partial(measured, "measure")


@pytest.fixture
def table(measured):
    return functools.partial(measured, "table")


def check_close(ours, theirs, *names, rel=1e-4):
    for name in names:
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=rel), name


def save_csv(path, x, y):
    header = ",".join([*(f"f{number}" for number in range(6)), "label"])
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="")


@pytest.mark.parametrize("kind", ["data.npz", "data.csv"])
def test_samples_in_a_file_are_measured_as_in_a_program(kind, network, report):
    save_csv("data.csv", X, LABELS)
    ours = report("--data", kind, *ALL, *HESSIAN)
    expected = flatlab.measure(network, X, LABELS, families="hessian", loss="cross-entropy")
    check_close(ours, expected, "hessian_lambda_max", "gauss_newton_lambda_max", rel=1e-3)
    assert ours.attrs["data"] == kind


def test_the_output_and_the_parameters_that_are_named(network, report):
    last = report("--data", "data.npz", *ALL, "--parameters", "last")
    check_close(last, flatlab.measure(network, X, LABELS, parameters="last"), "sharpness")
    hidden = report("--data", "x.npy", *ALL, "--output", "hidden")  # without targets
    check_close(hidden, flatlab.measure(network, X, output="hidden"), "sharpness")
    assert hidden.attrs["title"].endswith("12 train samples of x.npy")


@pytest.mark.parametrize("command", ["measure", "table"])
def test_memory_is_given_in_gb(command, network, monkeypatch, measured):
    from flatlab.api import report
    from flatlab.lab.kinds import _user_networks as networks

    given = []

    def noted(*samples, memory, **how):
        given.append(memory)
        return flatlab.measure(*samples, memory=memory, **how)

    for module in (report, networks):
        monkeypatch.setattr(module, "measure", noted)
    measured(command, "--data", "data.npz", "--memory", "0.5")
    assert given == [500_000_000]


def test_class_weights_are_an_option_of_the_loss(network, report, table):
    weights = [1, 2, 0.5]
    options = ["--data", "data.npz", *HESSIAN, "--dtype", "float64"]
    options += ["--options", "class_weights=[1, 2, 0.5]"]
    how = {"loss": "cross-entropy", "class_weights": weights, "dtype": "float64"}
    theirs = flatlab.measure(network, X, LABELS, families="hessian", **how)
    check_close(report(*options), theirs, "hessian_lambda_max", rel=1e-6)
    x, y = torch.from_numpy(X), torch.from_numpy(LABELS)
    loss = nn.functional.cross_entropy(network(x)["logits"], y, torch.tensor(weights))
    check_close(table(*options), {"train_loss": loss.item()}, "train_loss")


@pytest.fixture
def parts(network):
    """Training and test samples in a file."""
    x = GENERATOR.normal(size=(50, 6)).astype("float32")
    y = np.arange(50) % 3
    arrays = {"x_train": x[:30], "y_train": y[:30], "x_test": x[30:], "y_test": y[30:]}
    np.savez("parts.npz", **arrays)
    save_file({name: torch.from_numpy(each) for name, each in arrays.items()}, "parts.safetensors")
    return arrays


NINE = ["--samples", "9", "--data"]


def test_samples_of_every_form_give_the_same_table(parts, table):
    whole = table(*NINE, "parts.npz")
    assert {"test_error", "train_loss", "sharpness"} <= {*whole.data_vars}
    for data in ("parts.safetensors", "mine:named", "mine:four", "mine:loaders"):
        ours = table(*NINE, data)
        for name in whole.data_vars:
            np.testing.assert_array_equal(ours[name], whole[name], err_msg=f"{data} {name}")


def test_a_csv_has_training_samples_and_inputs_alone_have_what_needs_no_targets(
    mine, parts, table, printed, monkeypatch
):
    save_csv("d.csv", parts["x_train"], parts["y_train"])
    np.save("d.npy", parts["x_train"])
    whole = table(*NINE, "parts.npz")
    columns, alone = (table(*NINE, name) for name in ("d.csv", "d.npy"))
    check_close(columns, whole, "sharpness", "train_loss", rel=1e-6)
    check_close(alone, whole, "sharpness", rel=1e-6)
    assert "test_error" not in alone
    saved(mine.Net, "v.safetensors", seed=1)
    table(*NINE, "d.npy", weights="[vw].safetensors")  # of which nothing more is known
    monkeypatch.setattr("flatlab.lab.figures.render.FORMATS", ("png",))
    printed("plot", "r.zarr.zip", "pairs", "sharpness:mls", "--out", "pairs.png")
    assert Path("pairs.png").stat().st_size > 500


def test_a_class_without_samples_has_an_output_too(parts, network, table):
    kept = parts["y_train"] < 2
    x, y = (parts[name][kept] for name in ("x_train", "y_train"))
    np.savez("two.npz", x=x, y=y)
    outputs = network(torch.from_numpy(x))["logits"]
    expected = nn.functional.cross_entropy(outputs, torch.from_numpy(y)).item()
    check_close(table(*NINE, "two.npz"), {"train_loss": expected}, "train_loss", rel=1e-5)


def sentences(count=12, length=5):
    """Tokens, masks and labels of each position."""
    tokens = GENERATOR.integers(0, 11, (count, length))
    lengths = GENERATOR.integers(2, length + 1, count)
    mask = (np.arange(length) < lengths[:, None]).astype(np.uint8)
    labels = GENERATOR.integers(0, 4, (count, length))
    labels[0, 0] = -100
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def batch_of(arrays):
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {**batch, "attention_mask": batch["attention_mask"].long()}


def test_padded_sequences_in_a_file_are_those_of_a_program(mine, report, table):
    tagger = saved(mine.Tagger)
    np.savez("d.npz", **(arrays := sentences()))
    how = ["--data", "d.npz", *ALL, *LOSS, "--family", "geometry", "hessian"]
    families = ["geometry", "hessian"]
    batches = [batch_of(arrays)]
    theirs = flatlab.measure(tagger, batches, families=families, loss="cross-entropy")
    ours = report(*how, model="Tagger")
    assert ours.attrs["positions_ignored"] == theirs.attrs["positions_ignored"] > 1
    names = ("sharpness", "sharpness_per_token", "hessian_lambda_max")
    check_close(ours, theirs, *names)
    check_close(table(*how, model="Tagger"), theirs, *names)
    meant = ["--output", "hidden", "--parameters", "embedding"]
    row = table("--data", "d.npz", *ALL, *meant, model="Tagger")
    theirs = flatlab.measure(tagger, batches, output="hidden", parameters="embedding")
    check_close(row, theirs, "sharpness", rel=1e-5)


def test_losses_and_errors_of_sequences_are_those_of_their_positions(mine, table):
    model = saved(mine.Tagger)
    parts = {"train": sentences(), "test": sentences(300)}
    np.savez("d.npz", **{f"{n}_{p}": x for p, part in parts.items() for n, x in part.items()})
    row = table("--data", "d.npz", model="Tagger")
    for name, part in parts.items():
        tokens, mask = (torch.from_numpy(part[key]) for key in ("input_ids", "attention_mask"))
        outputs = model(tokens, mask)["logits"]
        labels = torch.from_numpy(part["labels"]).masked_fill(mask == 0, -100).flatten()
        loss = nn.functional.cross_entropy(outputs.flatten(0, 1), labels)
        right = (outputs.argmax(2).flatten() == labels)[labels != -100].double().mean()
        assert float(row[f"{name}_loss"]) == pytest.approx(loss.item(), rel=1e-5)
        assert float(row[f"{name}_accuracy"]) == pytest.approx(100 * right.item())
    assert float(row["error_gap"]) == pytest.approx(float(row["test_error"] - row["train_error"]))


def test_two_inputs_by_name_in_a_file_and_by_place_from_a_loader(mine, table):
    network = saved(mine.Two)
    image, text = (GENERATOR.normal(size=(20, n)).astype(np.float32) for n in (5, 3))
    np.savez("d.npz", image=image, text=text, y=np.arange(20) % 3)
    by_name, by_place = (
        table(*ALL, "--data", name, model="Two") for name in ("d.npz", "mine:two_parts")
    )
    check_close(by_name, by_place, "sharpness", "mls", "train_loss", rel=1e-6)
    inputs = {"image": torch.from_numpy(image), "text": torch.from_numpy(text)}
    check_close(by_name, flatlab.measure(network, inputs, np.arange(20) % 3), "mls", rel=1e-5)


def replaced(path, make):
    """Put another file of equal size in the place of one, with its date."""
    before = Path(path).stat()
    make(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Path(path).stat().st_size == before.st_size


REPLACED = {
    "nothing": lambda: None,
    "weights": lambda: replaced("v.pt", lambda path: saved_by_torch(path, seed=2)),
    "samples": lambda: replaced("data.npz", lambda path: np.savez(path, x=-X, y=LABELS)),
    "what is imported": lambda: replaced(
        "mine.py", lambda path: Path(path).write_text(SOURCE.replace("tanh", "relu"))
    ),
}


def saved_by_torch(path, seed):
    import mine

    torch.manual_seed(seed)
    torch.save(mine.Net().state_dict(), path)


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", REPLACED)
def test_a_stopped_table_goes_on_unless_something_was_replaced(kind, mine, monkeypatch, table):
    from flatlab.cli import main
    from flatlab.lab.kinds._user_networks import Measurer

    original, seen, limit = Measurer.values, [], 1

    def counting(measurer, *network):
        if len(seen) == limit:
            raise KeyboardInterrupt
        seen.append(1)
        return original(measurer, *network)

    for seed, name in enumerate("vw"):
        saved_by_torch(f"{name}.pt", seed)
    monkeypatch.setattr(Measurer, "values", counting)
    command = ["table", "v.pt", "w.pt", "--model", "mine:Net", "--data", "data.npz"]
    assert main([*command, "--out", "t.zarr.zip"]) == 130
    REPLACED[kind]()
    sys.modules.pop("mine")
    limit, before = None, len(seen)
    assert main([*command, "--out", "t.zarr.zip"]) == 0
    assert len(seen) - before == (1 if kind == "nothing" else 2)
    assert main([*command, "--out", "whole.zarr.zip"]) == 0
    again, whole = (store.load_dataset(f"{name}.zarr.zip") for name in ("t", "whole"))
    assert again.drop_attrs(deep=False).identical(whole.drop_attrs(deep=False))
