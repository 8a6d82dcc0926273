"""Positions that do not count: the same numbers as where they are selected by index.

Sequences have padding that their network does not see, and ignored labels; images have void pixels.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from tests.networks import masked
from tests.networks.masked import LENGTH, Case, accuracy, largest, mean, sizes
from tests.networks.users import measured, same, seeded
from tests.networks.written import Written
from tests.refusals import refused

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


@pytest.mark.first(1)
@pytest.mark.parametrize(("kind", "size"), [*zip(KINDS, [None, 1, None, 1], strict=True)])
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


@pytest.mark.parametrize("kind", ["forecasts", "piecewise"])
def test_margins_and_noise_are_of_all_positions(kind):
    case = Case(kind)
    report = case.measured("capacity")
    margins = []
    for n, wanted in enumerate(case.stack.wanted):
        for row, label in zip(case.stack.f(n), wanted, strict=True):
            others = torch.cat([row[:label], row[label + 1 :]])
            margins.append(float(row[label] - others.max()))
    assert float(report["margin"]) == pytest.approx(np.quantile(margins, 0.1), rel=1e-9)
    sigma, norm = float(report["pac_bayes_sigma"]), float(report["squared_norm"])
    expected = norm / (4 * sigma**2) + np.log(case.stack.tokens / sigma) + 10
    assert float(report["pac_bayes"]) == pytest.approx(expected, rel=1e-9)
    drops = []
    for draw in range(3):
        generator, moved = torch.Generator().manual_seed(draw), []
        for parameter in case.model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            moved.append((parameter.detach() + sigma * noise.double()).flatten())
        drops.append(accuracy(case.stack) - accuracy(case.stack, torch.cat(moved)))
    assert float(report["pac_bayes_drop"]) == pytest.approx(np.mean(drops), rel=1e-6)


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
def test_the_accuracy_of_a_landscape_is_of_positions_with_labels(kind):
    case = Case(kind)
    how = {"loss": "cross-entropy", "points": 3}
    line = flatlab.landscape(case.model, case.inputs, case.labels, **how)
    assert float(line.accuracy[1]) == pytest.approx(accuracy(case.stack))


FAMILIES = {
    "geometry": {},
    "jacobian": {},
    "hessian": {},
    "spectrum": {"matrices": ["hessian", "empirical-fisher"], "largest": 3},
    "flatness": {"flatness": ["traces"], "hessian_traces": "exact"},
    "sharpness": {"sharpness_radii": {"worst-adaptive-l2": [0.1], "worst-normalized-l2": [0.1]}},
}


@pytest.mark.parametrize(("kind", "size"), [("sequences", 3), ("pixels", 1)])
@pytest.mark.parametrize("family", FAMILIES)
def test_loaders_and_chunks_give_what_the_whole_tensors_give(kind, family, size):
    case, how = Case(kind), FAMILIES[family]
    whole = case.measured(family, **how)
    batches = measured(family, case.model, case.loader(size), **how, batch_size=size)
    for name in set(whole.data_vars) - {"hessian_products", "gauss_newton_products"}:
        rel = 1e-4 if "residual" in name or "products" in name else 1e-6
        ours, theirs = batches[name].values, whole[name].values
        if "residual" not in name:
            assert ours == pytest.approx(theirs, rel=rel, abs=1e-9, nan_ok=True), name
    assert batches.attrs["positions_ignored"] == whole.attrs["positions_ignored"]


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_network_does_not_see_or_has_no_label_changes_nothing(kind, family):
    case, how = Case(kind), FAMILIES[family]
    before = case.measured(family, **how)
    if kind == "sequences":
        tokens, mask = case.inputs.values()
        other = torch.where(
            mask == 0, (tokens + 1 + torch.arange(LENGTH)) % masked.VOCABULARY, tokens
        )
        assert not torch.equal(other, tokens)
        case.inputs = {"input_ids": other, "attention_mask": mask}
        case.labels = torch.where(mask == 0, 2, case.labels)  # padding needs no ignored label
        same(case.measured(family, **how), before)
        return
    kept = (case.labels != -100)[:, None]
    twin = measured(family, elsewhere(case.model, ~kept), case.inputs, case.labels, **how)
    for name in before.data_vars:
        assert twin[name].values == pytest.approx(before[name].values, nan_ok=True), name


def elsewhere(model, void):
    """Another network at void pixels of the first sample's kind: outputs there do not count."""
    both = void[0] & void[1]  # of all samples that are compared, so that chunks agree
    return Written(lambda net, x: net.model(x) + 3 * both.to(x), model=model)


def test_positions_that_do_not_count_may_be_of_any_length():
    """Padded or cut: the same, where all sequences have the same length."""
    model = seeded(masked.Attending)
    tokens, _, labels = masked.sequences(4)
    labels[:] = torch.randint(
        masked.VOCABULARY, labels.shape, generator=torch.Generator().manual_seed(1)
    )
    whole = torch.ones(4, LENGTH, dtype=torch.long)
    plain = {"input_ids": tokens, "attention_mask": whole}
    batches = [
        {n: p[k : k + 2] for n, p in plain.items()} | {"labels": labels[k : k + 2]} for k in (0, 2)
    ]
    for family, how in FAMILIES.items():
        same(measured(family, model, batches, **how), measured(family, model, plain, labels, **how))
    short = {n: p[:2, :3] for n, p in batches[0].items()}
    padded = measured("hessian", OfAnyLength(model), [short, batches[1]])
    cut = {**batches[0], "attention_mask": batches[0]["attention_mask"].clone()}
    cut["attention_mask"][:, 3] = 0
    expected = measured("hessian", OfAnyLength(model), [cut, batches[1]])
    assert padded.attrs["positions_ignored"] == 2
    same(padded, expected)


class OfAnyLength(nn.Module):
    """Passes names on, of a mask that is too long the first half."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask[:, :LENGTH])


def test_samples_without_any_position_are_left_out_and_counted():
    case = Case("pixels")
    before = case.measured("hessian")
    case.inputs = torch.cat([case.inputs, torch.randn(1, 2, 3, 2).double()])
    case.labels = torch.cat([case.labels, torch.full((1, 3, 2), -100)])
    after = case.measured("hessian")
    assert after.attrs["samples_ignored"] == 1
    same(after, before)
    case.labels[:] = -100
    refused("all labels", case.measured, "hessian")


def test_values_as_targets_have_masks_too():
    case = Case("sequences")
    values = torch.randn(5, LENGTH, masked.VOCABULARY).double()
    report = measured("hessian", case.model, case.inputs, values, loss="mean-mse")
    kept = case.inputs["attention_mask"] != 0
    stack = masked.stack_of_sequences(case.model, *case.inputs.values(), kept)

    def loss(theta):
        parts = [(stack.f(n, theta) - values[n][kept[n]]).square().mean(1) for n in stack]
        return torch.cat(parts).mean()

    hessian = torch.autograd.functional.hessian(loss, stack.theta, vectorize=True)
    assert float(report["hessian_lambda_max"]) == pytest.approx(largest(hessian), rel=1e-6)


def test_functions_take_outputs_as_they_are_and_may_be_means_over_positions():
    for kind, last in (("sequences", -1), ("pixels", 1)):
        case = Case(kind)

        def loss(outputs, labels, last=last):
            return F.cross_entropy(outputs.movedim(last, 1), labels)

        for family, how in {
            "hessian": {},
            "flatness": FAMILIES["flatness"],
            "sharpness": {**FAMILIES["sharpness"], "sharpness_loss": None},
        }.items():
            named, ours = case.measured(family, **how), case.measured(family, loss=loss, **how)
            for name in set(named.data_vars) - {"hessian_residual", "gauss_newton_residual"}:
                expected = named[name].values
                assert ours[name].values == pytest.approx(expected, rel=1e-6, nan_ok=True), name


def test_what_has_no_meaning_with_masks_is_refused_in_a_sentence():
    case = Case("pixels")
    for family in ("representations", "jacobian", "linear", "diagonal"):
        refused("", case.measured, family, **({"pairs": 1} if family == "jacobian" else {}))
    case = Case("sequences")

    def shifting(outputs, labels):
        return F.cross_entropy(outputs[:, :-1].movedim(-1, 1), labels[:, 1:])

    refused("shift them before", case.measured, "hessian", loss=shifting)
    mask = case.inputs["attention_mask"]
    case.inputs["attention_mask"] = torch.cat([mask, mask], 1)
    case.model = OfAnyLength(case.model)
    refused("attention_mask is (5, 8)", case.measured, "hessian")
    case = Case("pixels")
    case.labels = case.labels[:, 0, 0]
    refused("a class for each position", case.measured, "hessian")
    case = Case("pixels")
    case.labels[0, 0, 0] = 3
    refused("label 3", case.measured, "hessian")


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
def test_all_families_that_can_be_had_are_measured(kind):
    case = Case(kind)
    how = {"draws": 2, "sharpness_radii": {"worst-standard-l2": [0.1]}}
    report = case.measured("all", **how)
    measured_ones = {"geometry", "jacobian", "hessian", "flatness", "sharpness", "spectrum"}
    measured_ones |= {"adaptive", "capacity"} if kind == "pixels" else set()
    missing = measured_ones - {*report.attrs["families"]}
    assert missing <= {"flatness"}, report.attrs["left_out"]
    for name in missing:
        assert f"{name}: " in report.attrs["left_out"]
