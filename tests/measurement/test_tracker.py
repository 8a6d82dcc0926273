"""A tracker leaves a run as it is, byte for byte, and its table holds what was measured."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from flatlab.core.store import load_dataset

STEPS = 13


def data():
    x = torch.randn(60, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    return x, torch.arange(60) % 3


def network():
    norm, drop = nn.BatchNorm2d(4), nn.Dropout(0.3)
    head = nn.Flatten(), drop, nn.Linear(64, 3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.ReLU(), *head)


def run(tracker_of=None, accumulate=False):
    """A run with batch norm, dropout, momentum, shuffling, and draws of three random streams."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    model, (x, y) = network().train(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tracker = tracker_of(model) if tracker_of else None
    loader, step, drawn = DataLoader(TensorDataset(x, y), 10, shuffle=True), 0, []
    while step < STEPS:
        for inputs, classes in loader:
            if tracker:
                tracker(step)
            drawn.append((random.random(), np.random.rand(), float(torch.rand(()))))  # noqa: NPY002
            nn.functional.cross_entropy(model(inputs), classes).backward()
            if not accumulate or step % 2:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
    return tracker, {
        "state": {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()},
        "momentum": [s["momentum_buffer"].numpy().tobytes() for s in optimizer.state.values()],
        "gradients": [p.grad is None or p.grad.numpy().tobytes() for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "drawn": drawn,
        "random": (torch.get_rng_state().tolist(), random.getstate()),
    }


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("families", [["hessian"], ["spectrum", "geometry"], None])
def test_a_run_with_a_tracker_and_one_without_end_byte_for_byte_the_same(families, accumulate):
    def tracker_of(model):
        options = {"largest": 2, "density_probes": 2} if families and "spectrum" in families else {}
        loader = DataLoader(TensorDataset(*data()), 16, shuffle=True)
        return flatlab.Tracker(
            model, loader, every=3, families=families, loss="cross-entropy", **options
        )

    tracker, with_one = run(tracker_of, accumulate)
    _, without = run(None, accumulate)
    assert with_one == without
    assert tracker.table.step.values.tolist() == [0, 3, 6, 9, 12, 15][: len(tracker.rows)]
    assert len(tracker.rows) == 6
    assert tracker.cost > 0


def test_the_table_has_the_values_of_single_measurements_and_is_written_after_each(tmp_path):
    path, seen = tmp_path / "run.zarr.zip", {}
    x, y = data()

    class Recording(flatlab.Tracker):
        def __call__(self, step):
            super().__call__(step)
            if step % self.every == 0:
                modes = [m.training for m in self.model.modules()]
                report = flatlab.measure(
                    self.model.eval(), x, y, families="hessian", loss="cross-entropy"
                )
                for module, mode in zip(self.model.modules(), modes, strict=True):
                    module.training = mode
                seen[step] = report.hessian_lambda_max.item()
                assert load_dataset(path).identical(self.table[sorted(self.table.data_vars)])

    tracker, _ = run(
        lambda model: Recording(
            model, x, y, every=5, families="hessian", loss="cross-entropy", path=path
        )
    )
    values = tracker.table.hessian_lambda_max
    assert values.step.values.tolist() == list(seen) == [0, 5, 10, 15]
    assert values.values == pytest.approx(list(seen.values()), rel=1e-4)


def test_warm_starts_take_fewer_products():
    x, y = data()
    products = {}
    for warm in (True, False):
        torch.manual_seed(0)
        model = network().double()
        tracker = flatlab.Tracker(
            model, x, y, every=1, families="spectrum", loss="cross-entropy",
            largest=3, warm_start=warm,
        )  # fmt: skip
        for step in range(4):
            tracker(step)
        products[warm] = tracker.table.eigenvalue_products.values.flatten().tolist()
    assert products[True][0] == products[False][0]
    assert sum(products[True][1:]) < sum(products[False][1:])


def test_samples_are_fixed_and_errors_leave_the_run_alone():
    x, y = data()
    model = network()
    tracker = flatlab.Tracker(model, x, y, every=2, families="geometry", loss="cross-entropy")
    tracker(0)
    x.zero_()
    tracker(1)
    tracker(2)
    assert float(tracker.table.loss[0]) == float(tracker.table.loss[1])
    with pytest.raises(flatlab.MeasureError, match="every=0"):
        flatlab.Tracker(model, x, y, every=0)
    with pytest.raises(flatlab.MeasureError, match="nothing has been measured"):
        _ = flatlab.Tracker(model, x, y).table
    wrong, before = flatlab.Tracker(model, x, y + 7, families="hessian"), torch.get_rng_state()
    with pytest.raises(flatlab.MeasureError, match="label 9"):
        wrong(0)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)


def test_without_families_the_largest_eigenvalue_of_few_samples_is_measured():
    x, y = data()
    x, y = torch.cat([x, x]), torch.cat([y, y])
    model = network().double().eval()
    tracker = flatlab.Tracker(model, x, y, every=1, loss="cross-entropy")
    exact = flatlab.measure(
        model, x[:64], y[:64], families="hessian", loss="cross-entropy"
    ).hessian_lambda_max
    for step in range(3):
        tracker(step)
    found = tracker.table.largest_eigenvalue.isel(block=0, matrix=0, rank=0).values
    assert found == pytest.approx([float(exact)] * 3, rel=1e-2)
    assert len(tracker.inputs) == 64
    assert len(flatlab.Tracker(model, x, y, samples=100).inputs) == 100
    tight = flatlab.Tracker(model, x, y, loss="cross-entropy", residual=1e-8)
    tight(0)
    assert tight.table.largest_eigenvalue.item() == pytest.approx(float(exact), rel=1e-6)


def test_derivatives_are_checked_once(monkeypatch):
    from flatlab.metrics import _checked

    x, y = data()
    checks, check = [], _checked.check_derivatives
    monkeypatch.setattr(
        _checked, "check_derivatives", lambda *given: checks.append(1) or check(*given)
    )
    model = network().double()
    tracker = flatlab.Tracker(model, x, y, every=1, loss="cross-entropy")
    with torch.no_grad():
        weight = model[0].weight.clone()
        model[0].weight.fill_(torch.nan)
    tracker(0)  # nothing can be checked there
    with torch.no_grad():
        model[0].weight.copy_(weight)
    for step in (1, 2, 3):
        tracker(step)
    assert len(checks) == 2
    assert (
        tracker.table.largest_eigenvalue.isnull().values.flatten().tolist() == [True] + [False] * 3
    )
