"""Outputs without a scale, against autograd, and statements about them on made-up tables."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

import flatlab
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import fig16
from flatlab.papers.beyond.claims_logits import GRIDS, LOSSES, NORMALIZED, PLAIN
from papers.beyond.tests.test_runs import drawn, table, verdicts
from tests.networks.small_networks import small

MAPS = {"normalized": lambda f: f / f.std(correction=0), "softmax": lambda f: f.softmax(-1)}


@pytest.mark.parametrize("name", ["mlp-tanh", "lenet"])
def test_maps_of_the_outputs_are_those_of_autograd(name):
    model, inputs, _ = small(name)
    found = flatlab.measure(model, inputs, families="output-scale")
    deviations = model(inputs).std(1, correction=0).log()
    assert found.log_output_deviation.item() == pytest.approx(deviations.mean().item())
    weights = dict(model.named_parameters())
    for key, change in MAPS.items():

        def mapped(weights, x, change=change):
            return change(functional_call(model, weights, (x[None],))[0])

        pairs = [jacrev(mapped, (0, 1))(weights, x) for x in inputs]
        mls = np.mean([torch.linalg.matrix_norm(j.flatten(1), 2).item() for _, j in pairs])
        sharpness = np.mean([sum((d**2).sum().item() for d in of.values()) for of, _ in pairs])
        at = found.sel(map=key)
        assert at.mapped_mls.item() == pytest.approx(mls, rel=1e-9)
        assert at.mapped_root_sharpness.item() == pytest.approx(sharpness**0.5, rel=1e-9)


def of_losses(turned, follows, turning=PLAIN):
    """Both grids; log MLS is the scale of the outputs plus `follows` log sqrt(S).

    turned: by how much sqrt(S) falls with the rate, with the loss `turning`.
    """
    generator, tables = np.random.default_rng(1), {}
    rates = [0.01, 0.014, 0.02, 0.028, 0.04]
    lines = [*((rate, 64) for rate in rates), (0.02, 32), (0.02, 128)]
    settings = [(loss, *line) for loss in LOSSES for line in lines for _ in range(6)]
    loss, rate, batch = map(np.array, zip(*settings, strict=True))
    doublings, seen = np.log2(rate / 0.01), loss == turning
    for grid in GRIDS:
        noise = 0.03 * generator.standard_normal((3, len(rate)))
        scale = np.where(seen, 0.2, 1.0) * doublings + noise[0]
        sharp = np.where(seen, -turned, 1.0) * doublings + noise[1]
        log_mls = scale + follows * sharp + noise[2]
        columns = {"train_error": np.zeros(len(rate)), "log_output_deviation": scale}
        columns |= {"root_sharpness": np.exp(sharp), "mls": np.exp(log_mls)}
        hyper = {"loss": loss, "lr": rate, "batch_size": batch}
        hyper["seed"] = np.tile(np.arange(6), len(settings) // 6)
        made = {name: value[:, None] for name, value in columns.items()}
        tables[grid] = table(grid, hyper, [100], made)
        for name, of in (("mapped_root_sharpness", sharp), ("mapped_mls", log_mls)):
            mapped = np.exp(np.stack([of, 0.5 * of], axis=1))[:, None]
            tables[grid][name] = ("run", "checkpoint", "map"), mapped
        tables[grid] = tables[grid].assign_coords(map=["normalized", "softmax"])
    return tables


def test_the_scale_of_logits_can_turn_the_relation_or_not():
    assert verdicts("fig16", of_losses(0.15, 0.3)) == {"c1": "holds", "c2": "holds"}
    assert verdicts("fig16", of_losses(-1.0, 1.0))["c1"] == "undecided"  # nothing is turned
    assert verdicts("fig16", of_losses(0.15, 0.3, NORMALIZED))["c1"] == "fails"
    assert verdicts("fig16", of_losses(-0.2, 0.0))["c2"] == "fails"  # of the scale alone
    unfit = of_losses(0.15, 0.3)
    for made in unfit.values():
        made["train_error"] = made["train_error"] + 2.0 * (made["loss"] == NORMALIZED)
    assert verdicts("fig16", unfit) == {"c1": "not run", "c2": "holds"}


def test_its_figure_has_each_loss_factor_and_map():
    frame = fig16.frame({}, ResultTables(of_losses(0.15, 0.3)))
    assert len(frame) == 2 * 2 * 3 * 4
    of_f = frame[(frame["outputs"] == "f") & (frame["factor"] == "rate alone")]
    signs = of_f.groupby("loss")["tau"].mean()
    assert signs[PLAIN] < 0 < signs[NORMALIZED]
    drawn(fig16, frame.rename(columns={"tau": "value"}).assign(tau=frame["tau"]))
