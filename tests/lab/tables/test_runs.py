"""Tables: nothing lost, nothing mixed up, diverged runs flagged; and what is selected of them."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import xarray as xr

from flatlab.core import store
from flatlab.lab.tables.eligibility import shortfall
from flatlab.lab.tables.networks import Networks, ResultTables
from flatlab.lab.tables.runs import of_grid
from flatlab.lab.tables.selection import end_of_training, interpolation_begins
from flatlab.stats import Correlations
from tests.synthetic.curves import EVEN
from tests.synthetic.curves import table as of_curves

PACKS = {"lr0.1-s0-2": (0.1, [0, 1, 2]), "lr0.2-s0-2": (0.2, [0, 1, 2]), "lr0.2-s3": (0.2, [3])}
RUNS = [f"lr{lr}-s{seed}" for lr, seeds in PACKS.values() for seed in seeds]
SETTINGS = {
    "runs": RUNS,
    "diverged_below": 99.0,
    "about": {
        "scale": "demo",
        "experiment": "mlp-grid",
        "network": "mlp",
        "data": "digits",
        "length": "9 iterations",
        "left_out": 3,
        "hyperparameters": ["lr"],
    },
}


def part(family, lr, seeds, checkpoints=1):
    """A metric file whose values tell from which run and checkpoint they are."""
    runs = len(seeds)
    value = 1000 * lr + np.array(seeds)[:, None] + 0.001 * np.arange(checkpoints)
    of_runs, on_samples = ("run", "checkpoint"), ("run", "checkpoint", "samples")
    coordinates = {
        "run": store.as_strings([f"lr{lr}-s{seed}" for seed in seeds]),
        "setting": ("run", store.as_strings([f"lr{lr}"] * runs)),
        **{"seed": ("run", seeds), "lr": ("run", [lr] * runs)},
        "checkpoint": np.arange(checkpoints) + 1,
    }
    if family == "accuracy":
        accuracy = np.full((runs, checkpoints), 100.0)
        losses = {"train_accuracy": (of_runs, accuracy), "train_loss": (of_runs, 0.001 * value)}
        return xr.Dataset(losses, coordinates)
    norms = value[..., None, None] * np.array([1.0, 2.0])
    variables = {
        "mls": (on_samples, value[..., None]),
        "sharpness": (on_samples, value[..., None] ** 2),
        "weight_norm": ((*on_samples, "layer"), norms),
    }
    names = {"samples": store.as_strings(["train"]), "layer": store.as_strings(["fc1", "fc2"])}
    return xr.Dataset(variables, coordinates | names)


def parts(checkpoints=1):
    families = ("geometry", "accuracy")
    return [part(f, *pack, checkpoints) for pack in PACKS.values() for f in families]


def through_files(datasets, folder):
    """As they come out of files, of whose encoding xarray remembers some."""
    for number, each in enumerate(datasets):
        store.save_dataset(folder / f"{number}.zip", each)
    return [store.load_dataset(folder / f"{number}.zip") for number in range(len(datasets))]


def test_every_value_of_every_run_is_in_its_place_in_whichever_order_files_are():
    table = of_grid(parts(), SETTINGS)
    xr.testing.assert_identical(table, of_grid(parts()[::-1], SETTINGS))
    assert list(table["run"].values) == RUNS
    for pack in PACKS.values():
        for family in ("geometry", "accuracy"):
            piece = part(family, *pack)
            for name in piece.data_vars:
                there = table[name].sel(run=piece["run"].values)
                assert (there.values == piece[name].values).all()
    assert list(table["lr"].values) == [0.1] * 3 + [0.2] * 4
    assert table.attrs["hyperparameters"] == ["lr"]


def test_a_hyper_parameter_of_0_and_of_0_5_is_not_cut_to_0(tmp_path):
    """From files to a file: xarray remembers the type that a number had in a file."""
    strength = {"lr0.1": 0, "lr0.2": 0.5}
    files = [
        each.assign_coords(strength=("run", [strength[str(name)] for name in each.setting.values]))
        for each in parts()
    ]
    files = through_files(files, tmp_path)
    for order in (files, files[::-1]):
        [table] = through_files([of_grid(order, SETTINGS)], tmp_path)
        assert table["strength"].values.tolist() == [strength[run[:5]] for run in RUNS]


def test_what_some_settings_alone_name_is_empty_in_the_others():
    named = [part("accuracy", *pack) for pack in PACKS.values()]
    words = ("run", store.as_strings(["he-normal"] * 3))
    named[0] = named[0].assign_coords(initialization=words, width=("run", [8] * 3))
    table = of_grid(named, SETTINGS)
    assert table["initialization"].values.tolist() == ["he-normal"] * 3 + [""] * 4
    assert np.isfinite(table["width"].values).tolist() == [True] * 3 + [False] * 4


def test_a_table_is_not_written_in_the_chunks_of_its_packs(tmp_path):
    files = through_files(parts(checkpoints=3), tmp_path)
    store.save_dataset(tmp_path / "table.zip", of_grid(files, SETTINGS))
    with zipfile.ZipFile(tmp_path / "table.zip") as archive:
        chunks = [name for name in archive.namelist() if not name.endswith("zarr.json")]
    arrays = [name.partition("/")[0] for name in chunks]
    assert {"lr", "mls", "train_loss", "weight_norm"} <= {*arrays}
    assert len(arrays) == len({*arrays})


def test_a_family_that_is_measured_at_the_end_alone_is_missing_before():
    whole, files = of_grid(parts(3), SETTINGS), parts(3)
    for number in (0, 2):  # geometry, of the first two packs
        files[number] = files[number].isel(checkpoint=[-1])
    for order in (files, files[::-1]):
        table = of_grid(order, SETTINGS)
        missing = table["mls"].isnull().values[..., 0]
        assert missing.tolist() == [[True, True, False]] * 6 + [[False] * 3]
        xr.testing.assert_identical(table["train_loss"], whole["train_loss"])
        xr.testing.assert_identical(table.isel(checkpoint=[-1]), whole.isel(checkpoint=[-1]))


@pytest.mark.parametrize("steps", [[1, 2, 4], [1, 2]])
def test_a_file_that_lacks_the_end_is_not_joined(steps):
    files = parts(3)
    files[0] = files[0].isel(checkpoint=range(len(steps))).assign_coords(checkpoint=steps)
    with pytest.raises(ValueError, match="checkpoint"):
        of_grid(files, SETTINGS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_accuracy", 98.9),
        ("train_accuracy", np.nan),
        ("train_loss", np.nan),
        ("train_loss", np.inf),
    ],
)
def test_a_run_that_did_not_fit_is_flagged_kept_and_left_out_of_correlations(name, value):
    files = parts()
    files[1][name][1] = value
    table = of_grid(files, SETTINGS)
    assert list(table["diverged"].values) == [False, True, *[False] * 5]
    networks, chosen = Networks.of("some-grid", table), end_of_training(table)
    assert [*chosen["run"].values] == [RUNS[0], *RUNS[2:]]
    correlations = networks.drawn_correlations(networks.quantities)
    ((rho, *_),) = correlations.of_pairs("pooled", [("mls", "train_loss")])
    assert rho == pytest.approx(np.corrcoef(chosen["mls"], chosen["train_loss"])[0, 1])


def test_the_correlations_are_those_of_the_table_with_their_intervals():
    networks = Networks.of("some-grid", of_grid(parts(), SETTINGS))
    columns = {name: networks.data[name].values for name in ("mls", "sharpness")}
    rho = Correlations(columns, list(networks.data["setting"].values)).rho("mls", "sharpness")
    drawn = networks.drawn_correlations(networks.quantities)
    (found,) = drawn.of_pairs("pooled", [("mls", "sharpness")])
    assert found == pytest.approx([rho.value, *rho.interval()])


def test_correlations_of_a_job_are_read_and_those_of_other_columns_are_computed():
    tables = {"some-grid": of_grid(parts(), SETTINGS)}
    networks = Networks.of("some-grid", tables["some-grid"])
    job = networks.correlation_matrices(networks.quantities)
    kept = ResultTables(tables, {"some-grid": job + 1})  # which tells it from what is computed
    xr.testing.assert_identical(kept.correlations("some-grid", ["mls"]), job + 1)
    at = {"kind": "pooled", "x": "mls", "y": "log sharpness"}
    found = kept.correlations("some-grid", ["mls", "log sharpness"])["rho"].sel(at)
    sharpness = np.log(networks.data["sharpness"].values)
    assert found == pytest.approx(np.corrcoef(networks.data["mls"].values, sharpness)[0, 1])


@pytest.mark.parametrize("lacks", range(len(PACKS)))
def test_what_a_family_measures_is_missing_for_a_pack_that_lacks_it(lacks):
    """Whichever pack it is; everything else is that of the whole table."""
    whole, files = of_grid(parts(), SETTINGS), parts()
    left_out = files.pop(2 * lacks)
    table = of_grid(files, SETTINGS)
    runs = [run for run in RUNS if run not in left_out.run.values]
    for name in whole.data_vars:
        xr.testing.assert_identical(whole[name].sel(run=runs), table[name].sel(run=runs))
    for name in left_out.data_vars:
        assert np.isnan(table[name].sel(run=left_out.run.values)).all()
    assert (table["train_loss"] == whole["train_loss"]).all()


def test_a_family_without_a_run_of_the_other_is_an_error():
    files = parts()
    files[1] = files[1].isel(run=[0, 1])
    with pytest.raises(ValueError, match="run"):
        of_grid(files, SETTINGS)


def test_a_table_says_how_much_it_has():
    table = of_grid(parts(), SETTINGS)
    extent = "7 mlp networks on digits, 9 iterations each"
    assert table.attrs["extent"] == f"{extent}; 3 more not trained"
    whole = {**SETTINGS, "about": {**SETTINGS["about"], "left_out": 0}, "diverged_below": 101.0}
    extent = "0 mlp networks on digits, 9 iterations each; 7 left out (diverged or did not fit)"
    assert of_grid(parts(), whole).attrs["extent"] == extent
    cut = {**SETTINGS, "about": {**SETTINGS["about"], "samples": "300"}}
    extent = "7 mlp networks on 300 samples of digits, 9 iterations each; 3 more not trained"
    assert of_grid(parts(), cut).attrs["extent"] == extent


def test_runs_that_did_not_converge_are_left_out_and_counted():
    why = {"lr0.2-s0": "finished", "lr0.2-s1": "diverged"}
    files = [
        part.assign_coords(ended=("run", [why.get(run, "stopped") for run in part["run"].values]))
        for part in parts()
    ]
    every = of_grid(files, SETTINGS)
    assert not every["diverged"].any()
    assert "not_converged" not in every.attrs
    table = of_grid(files, {**SETTINGS, "converged_only": True})
    assert table["run"].values[table["diverged"].values].tolist() == ["lr0.2-s0", "lr0.2-s1"]
    assert (
        "; 1 left out (diverged or did not fit); 1 left out (did not converge)"
        in table.attrs["extent"]
    )
    assert shortfall(table) == "of 10 networks 3 are not trained, 1 diverged, 1 did not converge"


# Which runs and checkpoints are selected


@pytest.mark.parametrize(
    ("steps", "dense", "last"),
    [(EVEN, 5, EVEN[-1:]), ((0, 500, 900, 949, 960, 1000), 6, (960, 1000))],
    ids=["some runs kept densely", "uneven checkpoints of all"],
)
def test_the_end_is_the_last_twentieth_of_the_iterations_or_alike_for_all(steps, dense, last):
    runs = of_curves(checkpoints=steps, dense=dense)
    expected = runs["mls"].sel(samples="train", checkpoint=[*last]).mean("checkpoint")
    np.testing.assert_allclose(end_of_training(runs)["mls"], expected)


def test_a_table_of_losses_and_accuracies_alone_has_no_sample_sets():
    runs = of_curves(checkpoints=EVEN)
    alone = runs.drop_dims("samples")
    expected = end_of_training(runs)["train_loss"].drop_vars("samples")
    xr.testing.assert_equal(end_of_training(alone)["train_loss"], expected)


def test_a_run_that_was_trained_for_less_ends_at_its_own_last_checkpoint():
    runs = of_curves(checkpoints=(0, 500, 1000), dense=6)
    short = runs["lr"] == 0.05
    runs = runs.where(~short | (runs["checkpoint"] <= 500)).assign_coords(diverged=runs["diverged"])
    end, train = end_of_training(runs)["mls"], runs["mls"].sel(samples="train")
    np.testing.assert_array_equal(end[short.values], train.sel(checkpoint=500)[short.values])
    np.testing.assert_array_equal(end[~short.values], train.sel(checkpoint=1000)[~short.values])


def test_a_table_without_a_run_that_did_not_diverge_has_an_empty_end():
    runs = of_curves(seeds=2, checkpoints=(0, 10))
    assert end_of_training(runs.assign_coords(diverged=~runs["diverged"])).sizes["run"] == 0


def test_trends_are_of_the_first_five_seeds_that_did_not_diverge():
    runs = of_curves("vgg-grid")
    runs["diverged"][1] = True
    chosen = Networks.of("vgg-grid", runs).where(batch_size=20, lr=0.05).curves.runs
    assert list(chosen["seed"].values) == [0, 2, 3, 4]
    assert set(chosen["setting"].values) == {"lr0.05-b20"}


def test_interpolation_begins_where_the_mean_loss_over_the_seeds_is_below_a_hundredth():
    loss = xr.DataArray(
        [[0.5, 0.011, 0.005, 0.02], [0.5, 0.005, 0.014, 0.001]],
        dims=("run", "checkpoint"),
        coords={"checkpoint": [0, 10, 20, 30]},
    )
    assert interpolation_begins(loss) == 10
    assert interpolation_begins(loss[1:]) == 10
    assert interpolation_begins(loss[:1]) == 20
    assert np.isnan(interpolation_begins(loss + 1))
