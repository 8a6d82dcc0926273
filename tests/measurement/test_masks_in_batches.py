"""Positions that do not count, in loaders and chunks; what is not seen; and what is refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from tests.networks.masked import LENGTH, VOCABULARY, Attending, sequences, stack_of_sequences
from tests.networks.masked_cases import Case, largest
from tests.networks.users import measured, same, seeded
from tests.refusals import refusal

FAMILIES = {
    "geometry": {},
    "jacobian": {},
    "hessian": {},
    "spectrum": {"matrices": ["hessian", "empirical-fisher"], "largest": 3},
    "flatness": {"flatness": ["traces"], "hessian_traces": "exact"},
    "sharpness": {"sharpness_radii": {"worst-adaptive-l2": [0.1], "worst-normalized-l2": [0.1]}},
}


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [1, 3])
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
        other = torch.where(mask == 0, (tokens + 1 + torch.arange(LENGTH)) % VOCABULARY, tokens)
        assert not torch.equal(other, tokens)
        case.inputs = {"input_ids": other, "attention_mask": mask}
        case.labels = torch.where(mask == 0, 2, case.labels)  # padding needs no ignored label
        same(case.measured(family, **how), before)
        return
    kept = (case.labels != -100)[:, None]
    twin = measured(family, Elsewhere(case.model, ~kept), case.inputs, case.labels, **how)
    for name in before.data_vars:
        assert twin[name].values == pytest.approx(before[name].values, nan_ok=True), name


class Elsewhere(nn.Module):
    """Another network at void pixels of the first sample's kind: outputs there do not count."""

    def __init__(self, model, void):
        super().__init__()
        self.first, self.last = model.first, model.last
        self.void = void[0] & void[1]  # of all samples that are compared, so that chunks agree

    def forward(self, x):
        return self.last(torch.tanh(self.first(x))) + 3 * self.void.to(x)


def test_positions_that_do_not_count_may_be_of_any_length():
    """Padded or cut: the same, where all sequences have the same length."""
    model = seeded(Attending)
    tokens, _, labels = sequences(4)
    labels[:] = torch.randint(VOCABULARY, labels.shape, generator=torch.Generator().manual_seed(1))
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
    """Passes names on."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask)


def test_samples_without_any_position_are_left_out_and_counted():
    case = Case("pixels")
    before = case.measured("hessian")
    case.inputs = torch.cat([case.inputs, torch.randn(1, 2, 3, 2).double()])
    case.labels = torch.cat([case.labels, torch.full((1, 3, 2), -100)])
    after = case.measured("hessian")
    assert after.attrs["samples_ignored"] == 1
    same(after, before)
    case.labels[:] = -100
    assert "all labels" in refusal(flatlab.MeasureError, case.measured, "hessian")


def test_values_as_targets_have_masks_too():
    case = Case("sequences")
    values = torch.randn(5, LENGTH, VOCABULARY).double()
    report = measured("hessian", case.model, case.inputs, values, loss="mean-mse")
    kept = case.inputs["attention_mask"] != 0
    stack = stack_of_sequences(case.model, *case.inputs.values(), kept)

    def loss(theta):
        parts = [(stack.f(n, theta) - values[n][kept[n]]).square().mean(1) for n in stack]
        return torch.cat(parts).mean()

    hessian = torch.autograd.functional.hessian(loss, stack.theta)
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


def test_a_function_that_reads_outputs_where_labels_are_ignored_is_refused():
    case = Case("sequences")

    def shifting(outputs, labels):
        return F.cross_entropy(outputs[:, :-1].movedim(-1, 1), labels[:, 1:])

    message = refusal(flatlab.MeasureError, case.measured, "hessian", loss=shifting)
    assert "shift them before" in message


def test_what_has_no_meaning_with_masks_is_refused_in_a_sentence():
    case = Case("pixels")
    for family, how in {
        "representations": {},
        "jacobian": {"pairs": 1},
        "linear": {},
        "diagonal": {},
    }.items():
        message = refusal(flatlab.MeasureError, case.measured, family, **how)
        assert "\n" not in message
    case = Case("sequences")
    mask = case.inputs["attention_mask"]
    case.inputs["attention_mask"] = torch.cat([mask, mask], 1)
    case.model = Twice(case.model)
    assert "attention_mask is (5, 8)" in refusal(flatlab.MeasureError, case.measured, "hessian")


class Twice(nn.Module):
    """Takes half of its mask."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask[:, :LENGTH])


@pytest.mark.parametrize("kind", ["sequences", "pixels"])
def test_all_families_that_can_be_had_are_measured(kind):
    case = Case(kind)
    how = {"draws": 2, "sharpness_radii": {"worst-standard-l2": [0.1]}}
    report = flatlab.measure(
        case.model, case.inputs, case.labels, families="all", loss="cross-entropy", **how
    )
    measured_ones = {"geometry", "jacobian", "hessian", "flatness", "sharpness", "spectrum"}
    measured_ones |= {"adaptive", "capacity"} if kind == "pixels" else set()
    missing = measured_ones - {*report.attrs["families"]}
    assert missing <= {"flatness"}, report.attrs["left_out"]
    for name in missing:
        assert f"{name}: " in report.attrs["left_out"]


def test_classes_of_samples_at_positions_are_refused():
    case = Case("pixels")
    case.labels = case.labels[:, 0, 0]
    assert "a class for each position" in refusal(flatlab.MeasureError, case.measured, "hessian")
