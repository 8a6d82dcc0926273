"""Which runs and checkpoints a trend is about."""

from __future__ import annotations

import numpy as np
import xarray as xr

from flatlab.lab.tables.selection import end_of_training, interpolation_begins, through_training
from tests.synthetic.curves import EVEN, table


def test_all_runs_end_alike_where_only_some_were_kept_densely() -> None:
    runs = table(checkpoints=EVEN)
    expected = runs["mls"].sel(samples="train").isel(checkpoint=-1)
    np.testing.assert_array_equal(end_of_training(runs)["mls"], expected)


def test_the_end_is_the_last_twentieth_of_the_iterations_however_checkpoints_are_spaced() -> None:
    steps = (0, 500, 900, 949, 960, 1000)
    runs = table(checkpoints=steps, dense=6)
    expected = runs["mls"].sel(samples="train", checkpoint=[960, 1000]).mean("checkpoint")
    np.testing.assert_allclose(end_of_training(runs)["mls"], expected)


def test_a_table_of_losses_and_accuracies_alone_has_no_sample_sets() -> None:
    runs = table(checkpoints=EVEN)
    alone = runs.drop_dims("samples")
    expected = end_of_training(runs)["train_loss"].drop_vars("samples")
    xr.testing.assert_equal(end_of_training(alone)["train_loss"], expected)


def test_a_run_that_was_trained_for_less_ends_at_its_own_last_checkpoint() -> None:
    runs = table(checkpoints=(0, 500, 1000), dense=6)
    short = runs["lr"] == 0.05
    runs = runs.where(~short | (runs["checkpoint"] <= 500)).assign_coords(diverged=runs["diverged"])
    end, train = end_of_training(runs)["mls"], runs["mls"].sel(samples="train")
    np.testing.assert_array_equal(end[short.values], train.sel(checkpoint=500)[short.values])
    np.testing.assert_array_equal(end[~short.values], train.sel(checkpoint=1000)[~short.values])


def test_a_table_without_a_run_that_did_not_diverge_has_an_empty_end() -> None:
    runs = table(seeds=2, checkpoints=(0, 10))
    assert end_of_training(runs.assign_coords(diverged=~runs["diverged"])).sizes["run"] == 0


def test_trends_are_of_the_first_five_seeds_that_did_not_diverge(tables) -> None:
    chosen = through_training(tables["vgg-grid"], {"batch_size": 20, "lr": 0.05})
    assert list(chosen["seed"].values) == [0, 2, 3, 4]
    assert set(chosen["setting"].values) == {"lr0.05-b20"}


def test_interpolation_begins_where_the_mean_loss_over_the_seeds_is_below_a_hundredth() -> None:
    loss = xr.DataArray(
        [[0.5, 0.011, 0.005, 0.02], [0.5, 0.005, 0.014, 0.001]],
        dims=("run", "checkpoint"),
        coords={"checkpoint": [0, 10, 20, 30]},
    )
    assert interpolation_begins(loss) == 10
    assert interpolation_begins(loss[1:]) == 10
    assert interpolation_begins(loss[:1]) == 20
    assert np.isnan(interpolation_begins(loss + 1))
