"""Result files: equal content gives equal bytes, and no damage goes unseen."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import save

from flatlab.core import store
from tests.refusals import refusal


def example():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(4, 3))
    values[1, 1], values[2, 2] = np.nan, np.inf
    return xr.Dataset(
        {
            "mls": (("run", "layer"), values, {"units": "1"}),
            "count": (("run",), np.arange(4)),
            "flag": (("run",), np.array([True, False, True, True])),
        },
        coords={
            "run": store.as_strings(["a", "b", "c", "déjà vu"]),
            "layer": store.as_strings(["fc1", "fc2", "fc3"]),
            "lr": ("run", np.linspace(0.1, 0.4, 4)),
            "place": ("network", [0.0, 1.0]),  # on an axis of its own, as in landscapes
        },
        attrs={"scale": "demo", "list": ["a", "b"], "runs": 4},
    )


def test_a_dataset_comes_back_as_it_was(tmp_path):
    store.save_dataset(tmp_path / "a.zarr.zip", example())
    back = store.load_dataset(tmp_path / "a.zarr.zip")
    xr.testing.assert_identical(back, example())
    assert list(back.data_vars) == ["count", "flag", "mls"]


@pytest.mark.more
def test_equal_content_gives_equal_bytes_in_every_process(tmp_path):
    """Also where the hashes of strings differ, which is what sets and dictionaries hang on."""
    code = (
        "import importlib.util, sys; from flatlab.core import store;"
        f"spec = importlib.util.spec_from_file_location('t', {str(Path(__file__))!r});"
        "t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t);"
        "store.save_dataset(sys.argv[1], t.example());"
        "store.save_weights(sys.argv[2], {n: t.np.ones(3) for n in 'dcba'}, {'a': 1})"
    )
    written = []
    for seed in ("1", "2"):
        paths = [tmp_path / f"{seed}.zarr.zip", tmp_path / f"{seed}.safetensors"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True, env=environment)
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]


def test_the_archive_is_a_plain_zip_of_stored_files(tmp_path):
    path = tmp_path / "a.zarr.zip"
    store.save_dataset(path, example())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == sorted(names)
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def saved(kind, folder):
    """A file, and how it is loaded."""
    if kind == "dataset":
        store.save_dataset(path := folder / "a.zarr.zip", example())
        return path, store.load_dataset
    arrays = {"w": np.arange(64.0), "b": np.ones(3)}
    store.save_weights(path := folder / "a.safetensors", arrays, {"runs": ["a"]})
    return path, store.load_weights


RULE = "rebuild it with: snakemake --force {}"
OWN = "no rule makes it: make it anew, or get it back"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["dataset", "weights"])
def test_a_changed_byte_is_an_error_that_names_the_file_and_the_remedy(kind, share, tmp_path):
    path, load = saved(kind, tmp_path)
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x10
    path.write_bytes(content)
    message = refusal(store.StoreError, load, path)
    assert str(path) in message
    assert OWN in message


@pytest.mark.parametrize("length", [0, 5, 60, 500])
@pytest.mark.parametrize("kind", ["dataset", "weights"])
def test_a_truncated_file_is_an_error(kind, length, tmp_path):
    path, load = saved(kind, tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert "damaged" in refusal(store.StoreError, load, path)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("results/demo/tables/a", RULE),
        ("project/results/short/a", RULE),
        ("results/redrawn/demo/a", RULE),
        ("results/published/demo/tables/a", "get it back with: git checkout -- {}"),
        ("a", OWN),
        ("demo/a", OWN),
        ("results/mine/a", OWN),
    ],
)
def test_a_missing_or_damaged_file_says_how_it_can_be_had(name, remedy, tmp_path, monkeypatch):
    """Nobody is told to rebuild a file of their own by a rule: there is none."""
    monkeypatch.chdir(tmp_path)
    path = Path(f"{name}.zarr.zip")
    message = refusal(store.StoreError, store.load_dataset, path)
    build = remedy.replace("rebuild", "build").replace("--force ", "").format(path)
    assert message.startswith(f"{path} does not exist; {build}")
    store.replace(path, b"damaged")
    message = refusal(store.StoreError, store.load_dataset, path)
    assert message.startswith(f"{path} is damaged (")
    assert f"; {remedy.format(path)}" in message


def test_a_file_of_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("flatlab.core.store.STORE_VERSION", store.STORE_VERSION + 1)
    store.save_dataset(tmp_path / "a.zarr.zip", example())
    monkeypatch.undo()
    message = refusal(store.StoreError, store.load_dataset, tmp_path / "a.zarr.zip")
    assert f"has format {store.STORE_VERSION + 1}, but this version of flatlab" in message


def test_intact_files_that_flatlab_did_not_write_are_not_called_damaged(tmp_path):
    path = tmp_path / "others.safetensors"
    path.write_bytes(save({"weight": np.ones(3)}))
    message = refusal(store.StoreError, store.load_weights, path)
    assert "holds weights that flatlab did not write" in message
    with zipfile.ZipFile(other := tmp_path / "others.zarr.zip", "w") as archive:
        archive.writestr("content", b"0" * 200)
    with pytest.raises(store.StoreError, match="incomplete, or flatlab did not write it"):
        store.load_dataset(other)


def test_weights_come_back_with_their_description(tmp_path):
    arrays = {"fc1.weight": np.ones((2, 1, 3), np.float32), "fc1.bias": np.zeros((2, 1))}
    store.save_weights(tmp_path / "w.safetensors", arrays, {"runs": ["a", "b"]})
    back, about = store.load_weights(tmp_path / "w.safetensors")
    assert about == {"runs": ["a", "b"]}
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert (back[name] == array).all()


def test_numbers_that_are_not_finite_are_null_in_json(tmp_path):
    store.save_json(tmp_path / "a.json", {"b": float("nan"), "a": [np.float64("inf"), 1.5]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": None}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    store.save_json(path, 1)
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.save_json(path, 2)
    assert store.load_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_hash_that_a_file_carries_is_read_alone(tmp_path):
    path = tmp_path / "a.zarr.zip"
    store.save_dataset(path, example())
    content = path.read_bytes()
    assert store.hash_of(path).encode() == content[-64:]
    path.write_bytes(content[:-1])
    assert store.hash_of(path) == ""
    path.write_bytes(b"short")
    assert store.hash_of(path) == ""


def test_the_hash_of_weights_is_that_of_their_numbers(tmp_path):
    """Whatever is said of them beside."""
    one, same, other, reshaped = (tmp_path / f"{name}.safetensors" for name in "abcd")
    store.save_weights(one, {"w": np.arange(3.0)}, {"runs": ["a"]})
    store.save_weights(same, {"w": np.arange(3.0)}, {"runs": ["b"]})
    store.save_weights(other, {"w": np.arange(4.0)}, {"runs": ["a"]})
    store.save_weights(reshaped, {"w": np.arange(3.0)[None]}, {"runs": ["a"]})
    others = ("", store.hash_of(other), store.hash_of(reshaped))
    assert store.hash_of(one) == store.hash_of(same) not in others
    for foreign in (b"", b"short", b"\xff" * 30, b"\2\0\0\0\0\0\0\0{}"):
        one.write_bytes(foreign)
        assert store.hash_of(one) == ""
    assert store.hash_of(tmp_path / "gone.safetensors") == ""


def pack():
    """Two runs at steps 0 and 6; the first fitted the training set at step 4, the other never."""
    weight = np.arange(2 * 3 * 2.0).reshape(2, 3, 2)
    weight[1, 2] = np.nan
    about = {"runs": ["a", "b"], "iterations": [0, 6], "fitted": [4, None], "lr": [0.1, 0.2]}
    return store.TrainedPack({"weight": weight, "count": np.arange(6).reshape(2, 3)}, about)


def test_a_pack_has_the_weights_of_each_run_at_each_of_its_steps():
    assert (pack().steps("a"), pack().steps("b")) == ([0, 6, 4], [0, 6])
    assert pack().state("a", 4)["weight"].tolist() == [4, 5]
    assert pack().state("b", 0)["weight"].tolist() == [6, 7]
    assert pack().state("b")["weight"].tolist() == pack().state("b", 6)["weight"].tolist()
    assert pack().state("b")["count"] == 4  # a tensor without dimensions
    with pytest.raises(KeyError):
        pack().state("b", 4)


def test_the_first_runs_of_a_pack_keep_what_the_file_says_of_them():
    first = pack().first(1)
    assert first.runs == ["a"]
    assert (first.steps("a"), first.about["lr"]) == ([0, 6, 4], [0.1])
    assert first.state("a", 4)["weight"].tolist() == [4, 5]
    assert pack().first(None).runs == ["a", "b"]


def test_a_file_of_other_weights_is_no_pack(tmp_path):
    pack_file = tmp_path / "results" / "demo" / "models" / "a.safetensors"
    store.save_weights(pack_file, dict(pack().arrays), dict(pack().about))
    assert store.TrainedPack.load(pack_file).state("a", 4)["weight"].tolist() == [4, 5]
    store.save_weights(tmp_path / "b.safetensors", {"weight": np.ones(3)})
    with pytest.raises(store.StoreError, match="holds no trained networks"):
        store.TrainedPack.load(tmp_path / "b.safetensors")
