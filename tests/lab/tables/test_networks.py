"""The one view of networks: columns, times, selections, and what their numbers need."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from flatlab.lab.tables.columns import Column, in_words
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import Networks
from tests.synthetic.tables import Rule, one, table

SETTINGS = [{"lr": lr, "batch_size": size} for lr in (0.2, 0.1) for size in (8, 32)]


def falls(c):
    """With the rate; it rises in training to its largest value, halfway, and is 1 at the start."""
    top = (3 - np.log2(c["lr"]) + c["noise"])[:, None]
    return 1 + (top - 1) * np.minimum(2 * c["time"], 1.5 - c["time"])


def per_layer(c):
    return np.stack([0 * falls(c) + 7, falls(c) ** 2], axis=-1)


RULES: dict[str, Rule] = {
    "mls": falls,
    "weight_norm": per_layer,
    "hessian_lambda_max": falls,
    "hessian_converged": one,
    "train_loss": lambda c: 0.001 + 0.1 * (c["batch_size"] > 8),
}


def networks(seeds=6):
    how = {"seeds": seeds, "steps": range(0, 101, 10), "layers": ["fc1", "fc2"]}
    return Networks.of("made-grid", table("made-grid", SETTINGS, RULES, **how))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("mls", Column("mls")),
        ("log mls", Column("mls", (), "log")),
        ("root weight_norm[fc1]", Column("weight_norm", ("fc1",), "root")),
        ("log_volume", Column("log_volume")),
        (
            "sharpness_at_radius[worst-adaptive-linf, 0]",
            Column("sharpness_at_radius", ("worst-adaptive-linf", "0")),
        ),
    ],
)
def test_a_column_is_taken_apart(name, column):
    assert Column.of(name) == column


@pytest.mark.parametrize("name", ["mls[", "weight_norm]fc1[", ""])
def test_what_is_no_column_is_refused(name):
    with pytest.raises(ValueError, match="one is written like 'log weight_norm"):
        Column.of(name)


def test_a_quantity_per_layer_is_that_of_the_last_layer_or_of_a_name_or_a_place():
    n = networks()
    last = n.data["weight_norm"].sel(layer="fc2").values
    for name in ("weight_norm", "weight_norm[-1]", "weight_norm[fc2]", "weight_norm[1]"):
        np.testing.assert_array_equal(n.column(name), last)
    np.testing.assert_allclose(n.column("weight_norm[fc1]"), 7)
    np.testing.assert_allclose(n.column("root weight_norm"), np.sqrt(last))
    np.testing.assert_allclose(n.column("log lr"), np.log(n.data["lr"].values))


def test_labels_are_those_of_the_dimensions_in_order():
    radii = xr.DataArray(
        np.arange(6.0).reshape(1, 2, 3),
        dims=("run", "definition", "radius"),
        coords={"definition": ["worst", "average"], "radius": [0.5, 1.0, 2.0]},
    )
    made = radii.to_dataset(name="sharpness")
    for name, value in (("[average, 1.0]", 4), ("[average, -1]", 5), ("[0, 0.5]", 0)):
        assert Column.of(f"sharpness{name}").values(made) == [value]
    for name, what in (("[average]", "radius"), ("[mean, 0]", "definition mean")):
        with pytest.raises(NotEligible, match=f"has no {what}"):
            Column.of(f"sharpness{name}").values(made)


def test_times_are_the_end_an_iteration_and_the_extremes():
    n = networks()
    curves = n.series("mls")
    assert curves.shape == (24, 11)
    np.testing.assert_array_equal(n.column("mls"), curves[:, -1])
    np.testing.assert_array_equal(n.at("start").column("mls"), curves[:, 0])
    np.testing.assert_array_equal(n.at(30).column("mls"), curves[:, 3])
    np.testing.assert_array_equal(n.at("most").column("mls"), curves.max(axis=1))
    np.testing.assert_array_equal(n.at("growth").column("mls"), curves.max(1) / curves[:, 0])
    np.testing.assert_array_equal(n.at("increase").column("mls"), curves.max(1) - curves[:, 0])
    fitted = n.with_table(lambda t: t.assign_coords(fitted=("run", np.full(24, 20.0))))
    np.testing.assert_array_equal(fitted.at("first fit").column("mls"), curves[:, 2])
    for time, missing in (("first fit", "no fitted"), (15, "no checkpoint at iteration 15")):
        with pytest.raises(NotEligible, match=missing):
            n.at(time).column("mls")


def test_selections_are_by_value_by_limit_and_by_level():
    n = networks()
    parts = (n, n.where(lr=0.1), n.where(lr=[0.1, 0.2], batch_size=8))
    assert [part.count for part in parts] == [24, 12, 12]
    assert n.below(lr=0.2).levels("lr") == [0.1]
    assert n.levels("lr") == [0.1, 0.2]  # numbers in order, not as in the table
    assert {key: part.count for key, part in n.by("lr", "batch_size").items()} == {
        (lr, size): 6 for lr in (0.1, 0.2) for size in (8, 32)
    }
    assert n.that_interpolate().levels("batch_size") == [8]
    context = n.where(lr=0.1).below(batch_size=32).context
    assert context == "made-grid; lr 0.1; batch size 32 left out"
    assert n.where(lr=0.1).labelled("these", mls="M").mean("mls").name == "M; these"
    assert in_words({"lr": [0.1, 0.2], "data_set": "digits"}) == "lr 0.1 or 0.2, data set digits"
    with pytest.raises(NotEligible, match="made-grid has no width"):
        n.where(width=3)


def test_networks_that_diverged_are_chosen_and_do_not_count():
    n = networks()
    n.table["diverged"][:3] = True
    assert (n.count, n.where(lr=0.2).count, int(n.where(lr=0.2).chosen.sum())) == (21, 9, 12)
    assert len(n.column("mls")) == len(n.series("mls")) == 21
    assert len(n.where(lr=0.2).column("mls")) == 9


def test_means_differences_and_steps_are_of_five_networks_at_least():
    n = networks()
    at_small, at_large = n.where(lr=0.1), n.where(lr=0.2)
    expected = at_large.column("mls").mean() - at_small.column("mls").mean()
    (step,) = n.steps("mls", along="lr")
    assert step.value == at_large.minus(at_small, "mls").value == pytest.approx(expected)
    assert step.name == "mls(lr 0.2) - (lr 0.1); made-grid"
    assert (step < 0).outcome == "holds"
    few = networks(seeds=4).where(lr=0.1, batch_size=8).mean("mls")
    sentence = "made-grid has 4 networks with mls (lr 0.1, batch size 8), a mean needs 5"
    assert few.reason == sentence


def test_correlations_say_how_many_networks_they_need():
    n = networks()
    rho, beside = n.rho("mls", "lr"), n.rho("mls", "lr").alternatives
    assert rho.value < -0.95
    assert [*beside] == ["within settings", "adjusted for the training loss"]
    assert "a correlation needs 10 with 2" in n.where(lr=0.1, batch_size=8).rho("mls", "lr").reason
    few = n.where(lr=0.1)
    sentence = "made-grid has 12 networks (lr 0.1), a rank correlation needs 25"
    assert few.tau("mls", "lr").reason == sentence
    pooled = few.tau("mls", "lr", among="pool")
    assert pooled.reason == "tau(mls, lr); made-grid; lr 0.1: 12 networks, it needs 25"
    many = networks(seeds=7)
    assert (many.tau("mls", "lr") < 0).outcome == "holds"
    assert many.ranks("mls", "lr").tau("mls", "lr").value == many.tau("mls", "lr").value


def test_an_eigenvalue_needs_iterations_that_converged_wherever_it_is_read():
    n = networks(seeds=7)
    n.table["hessian_converged"][::9] = 0
    name = "hessian_lambda_max"
    estimates = [n.mean(name), *n.steps(name, "lr"), n.rho(name, "lr"), n.tau(name, "lr")]
    estimates.append(n.where(lr=0.1, batch_size=8).curves.trend(name, "training"))
    for estimate in estimates:
        assert "of the eigenvalues (hessian) of made-grid converged" in estimate.reason
    with pytest.raises(NotEligible, match="needs 99%"):
        n.series(name)
    assert len(n.values(name)) == 28  # for figures
    assert not n.mean("mls").reason
    bare = n.with_table(lambda t: t.drop_vars("hessian_converged"))
    assert not bare.mean(name).reason
    others = networks(seeds=7)
    others.table["hessian_converged"][0], others.table["diverged"][0] = 0, True
    assert not others.mean(name).reason
