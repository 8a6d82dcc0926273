"""Positions that do not count: the same numbers as where they are selected by index.

Sequences have padding that their network does not see, and ignored labels; images have void pixels.
"""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import flatlab
from tests.networks.masked_cases import Case, accuracy, largest, mean, sizes

KINDS = ["sequences", "pixels", "forecasts", "piecewise"]


@pytest.mark.parametrize("kind", KINDS)
def test_geometry_is_that_of_the_stack_of_unmasked_positions(kind):
    case = Case(kind)
    report = case.measured("geometry")
    of_weights, of_inputs = case.stack.of_weights(), case.stack.of_inputs()
    sigma = [torch.linalg.svdvals(jacobian) for jacobian in of_inputs]
    full = [s.log().sum() for j, s in zip(of_inputs, sigma, strict=True) if len(j) <= j.shape[1]]
    expected = {
        "sharpness": sizes(of_weights),
        "elementwise_adaptive_trace": sizes([j * case.stack.theta for j in of_weights]),
        "g": sizes(of_inputs),
        "mls": mean([s[0] for s in sigma]),
        "local_dimension": mean([(s**2).sum() ** 2 / (s**4).sum() for s in sigma]),
    }
    norms = [x.square().sum() for x in case.stack.inputs]
    if kind == "sequences":  # padding is no input
        mask = case.inputs["attention_mask"]
        pairs = zip(case.stack.inputs, mask, strict=True)
        norms = [(x[0] * m[:, None]).square().sum() for x, m in pairs]
        total = expected["sharpness"] * len(of_weights)
        expected["sharpness_per_token"] = total / case.stack.tokens
        assert "padding" in report.attrs["quantities_left_out"]
    expected["normalized_mls"] = mean([n * s[0] ** 2 for n, s in zip(norms, sigma, strict=True)])
    for name, value in expected.items():
        assert float(report[name]) == pytest.approx(value, rel=1e-9), name
    volumes = report["log_volume_per_sample"].values
    ranked = np.isfinite(volumes)
    ours = [v for v, j in zip(volumes, of_inputs, strict=True) if len(j) <= j.shape[1]]
    assert ranked.sum() + int(report["samples_rank_deficient"]) == len(volumes)
    if kind in ("sequences", "forecasts"):  # where ranks are full
        wide = [len(j) <= j.shape[1] for j in of_inputs]
        assert any(wide)
    for value, reference in zip(ours, full, strict=True):
        assert value == -np.inf or value == pytest.approx(float(reference), rel=1e-7)
    assert not {"log_volume_bound", "network_log_volume"} & {*report.data_vars}


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
def test_estimates_are_within_four_standard_errors(kind):
    case = Case(kind)
    exact, estimated = case.measured("geometry"), case.measured("geometry", accuracy=0.05)
    names = ["sharpness", "g", "local_dimension"]
    names += ["sharpness_per_token"] if kind == "sequences" else []
    for name in names:
        error = float(estimated[f"{name}_error"])
        assert 0 < abs(float(estimated[name] - exact[name])) <= 4 * error, name
    assert float(estimated["mls"]) == pytest.approx(float(exact["mls"]), rel=1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accuracy", ["exact", 0.02])
def test_jacobian_norms_are_those_of_unmasked_positions(kind, accuracy):
    case = Case(kind)
    report = case.measured("jacobian", accuracy=accuracy)
    plain, softmaxed = [], []
    for n, jacobian in enumerate(case.stack.of_inputs()):
        p = case.stack.f(n).softmax(1)
        slope = torch.block_diag(*(torch.diag(row) - torch.outer(row, row) for row in p))
        plain.append(float(torch.linalg.matrix_norm(jacobian, 2)))
        softmaxed.append(float(torch.linalg.matrix_norm(slope @ jacobian, 2)))
    rel = 1e-9 if accuracy == "exact" else 1e-3
    assert float(report["jacobian_norm"]) == pytest.approx(max(plain), rel=rel)
    found = report["softmax_jacobian_norm_per_sample"].values
    assert found == pytest.approx(softmaxed, rel=1e-7 if accuracy == "exact" else 1e-2)
    outputs = torch.cat([case.stack.f(n).flatten() for n in case.stack])
    assert float(report["output_norm"]) == pytest.approx(float(outputs.norm()), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, None])
def test_spectra_are_of_the_mean_over_all_positions(kind, size):
    case = Case(kind)
    hessian = case.measured("hessian", batch_size=size)
    matrices = {
        "hessian": case.stack.hessian(),
        "gauss-newton": case.stack.gauss_newton(),
        "fisher": case.stack.gauss_newton(),
        "empirical-fisher": case.stack.empirical_fisher(),
    }
    for name in ("hessian", "gauss-newton"):
        found = float(hessian[f"{name.replace('-', '_')}_lambda_max"])
        assert found == pytest.approx(largest(matrices[name]), rel=1e-6), name
    how = {"matrices": list(matrices), "largest": 2, "residual": 1e-9, "batch_size": size}
    spectrum = case.measured("spectrum", **how)["largest_eigenvalue"].sel(block="network")
    for name, matrix in matrices.items():
        expected = torch.linalg.eigvalsh(matrix).flip(0)[:2].numpy()
        assert spectrum.sel(matrix=name).values == pytest.approx(expected, rel=1e-9), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, None])
def test_traces_and_relative_flatness_are_of_the_mean_over_all_positions(kind, size):
    case = Case(kind)
    how = {"flatness": ["traces"], "hessian_traces": "exact", "batch_size": size}
    report = case.measured("flatness", **how)
    trace = float(case.stack.hessian().trace())
    assert float(report["hessian_trace"]) == pytest.approx(trace, rel=1e-9)
    if kind not in ("forecasts", "piecewise"):
        return
    kappa = case.measured("flatness", batch_size=size)["kappa_trace"].values
    layers = [case.model.first, case.model.last]
    assert kappa == pytest.approx([relative_flatness(case, layer) for layer in layers], rel=1e-9)


def relative_flatness(case, layer):
    """sum_{s,t} <w_s, w_t> Tr H_{s,t}, from the whole Hessian."""
    start = 0
    for parameter in case.model.parameters():
        if parameter is layer.weight:
            break
        start += parameter.numel()
    rows, columns = layer.weight.shape
    here = slice(start, start + rows * columns)
    hessian = case.stack.hessian()[here, here].view(rows, columns, rows, columns)
    traces = hessian.diagonal(dim1=1, dim2=3).sum(-1)
    return float((traces * (layer.weight @ layer.weight.T)).sum().detach())


@pytest.mark.parametrize("kind", ["forecasts", "piecewise"])
def test_margins_and_noise_are_of_all_positions(kind):
    case = Case(kind)
    report = case.measured("capacity")
    margins = []
    for n in case.stack:
        for row, label in zip(
            case.stack.f(n), case.stack.labels[n][case.stack.kept[n]], strict=True
        ):
            others = torch.cat([row[:label], row[label + 1 :]])
            margins.append(float(row[label] - others.max()))
    assert float(report["margin"]) == pytest.approx(np.quantile(margins, 0.1), rel=1e-9)
    sigma, norm = float(report["pac_bayes_sigma"]), float(report["squared_norm"])
    expected = norm / (4 * sigma**2) + np.log(case.stack.tokens / sigma) + 10
    assert float(report["pac_bayes"]) == pytest.approx(expected, rel=1e-9)
    drops = []
    for draw in range(3):
        generator, moved = torch.Generator().manual_seed(draw), []
        for parameter in case.stack.named.values():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            moved.append((parameter + sigma * noise.double()).flatten())
        drops.append(accuracy(case) - accuracy(case, torch.cat(moved)))
    assert float(report["pac_bayes_drop"]) == pytest.approx(np.mean(drops), rel=1e-6)


@pytest.mark.parametrize("kind", ["forecasts", "piecewise"])
def test_fisher_rao_and_feature_robustness_are_of_the_mean_over_all_positions(kind):
    case = Case(kind)
    report = case.measured("capacity", capacity=["fisher-rao"])
    scale, products = len(case.labels) / case.stack.tokens, []
    for n in case.stack:
        f = case.stack.f(n)
        wanted = F.one_hot(case.stack.labels[n][case.stack.kept[n]], 3)
        products.append((scale * (f.softmax(1) - wanted) * f).sum() ** 2)
    assert float(report["fisher_rao"]) == pytest.approx(2 * mean(products) ** 0.5, rel=1e-9)
    how = {"robustness_deltas": [1e-3], "robustness_draws": 2}
    robust = case.measured("feature-robustness", **how)
    kappa = case.measured("flatness")["kappa_trace"].values
    leading = robust["feature_robustness_leading"].values[:, 0]
    features = np.array([5, 4])
    assert leading == pytest.approx(1e-6 / (2 * features) * kappa, rel=1e-9)
    assert robust["feature_robustness"].values[:, 0] == pytest.approx(leading, rel=2)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_at_other_weights_are_means_over_all_positions(kind):
    case = Case(kind)
    line = flatlab.landscape(
        case.model, case.inputs, case.labels, loss="cross-entropy", points=3, batch_size=2
    )
    assert float(line["loss"][1]) == pytest.approx(float(case.stack.loss()), rel=1e-9)
    tracker = flatlab.Tracker(
        case.model, case.inputs, case.labels, families="hessian", loss="cross-entropy"
    )
    tracker(0)
    assert float(tracker.table["loss"][0]) == pytest.approx(float(case.stack.loss()), rel=1e-9)
    assert float(tracker.table["accuracy"][0]) == pytest.approx(accuracy(case))
    generator = torch.Generator().manual_seed(0)
    seed = int(torch.randint(2**62, (), generator=generator))
    radii = {"average-standard-l2": [0.1], "average-normalized-l2": [0.1]}
    how = {"sharpness_radii": radii, "sharpness_draws": 3, "sharpness_batch": 100}
    report = case.measured("sharpness", **how, batch_size=1)["sharpness_at_radius"].values[:, 0]
    generator.manual_seed(seed)
    changes = []
    for _ in range(3):
        noise = torch.empty_like(case.stack.theta).normal_(generator=generator)
        moved = case.stack.loss(case.stack.theta + 0.1 * noise)
        changes.append(moved - case.stack.loss())
    assert report[0] == pytest.approx(mean(changes), rel=1e-9)
    assert np.isfinite(report[1])


@pytest.mark.parametrize("kind", ["pixels", "forecasts"])
def test_adaptive_estimates_are_of_the_stack_of_unmasked_positions(kind):
    case = Case(kind)
    how = {"outputs": "network", "trace": "exact", "draws": 4, "ascent_steps": 5}
    report = case.measured("adaptive", **how)
    geometry = case.measured("geometry")
    for name in ("sharpness", "elementwise_adaptive_trace", "mls", "normalized_mls"):
        rel = 1e-9 if name[0] in "se" else 1e-3
        assert float(report[name]) == pytest.approx(float(geometry[name]), rel=rel), name
    slopes = report["slope_per_sample"].values
    norms = report["mls_per_sample"].values
    assert (slopes > 0.2 * norms).all()
    squares = []
    for n in case.stack:
        wanted = case.stack.labels[n][case.stack.kept[n]]
        squares.append((case.stack.f(n) - F.one_hot(wanted, 3)).square().sum() / 2)
    assert float(report["sample_loss"]) == pytest.approx(mean(squares), rel=1e-9)
    assert float(report["sample_accuracy"]) == pytest.approx(100 * accuracy(case))
