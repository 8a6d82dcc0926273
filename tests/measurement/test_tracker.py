"""A tracker leaves a run as it is, byte for byte, and its table holds what was measured.

So do the callbacks of docs/tracking.md in Lightning and in transformers, where these are installed.
"""

import copy
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import flatlab
from flatlab.core.store import StoreError, load_dataset
from tests.refusals import refused

STEPS, LOSS = 13, "cross-entropy"


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


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("families", "accumulate"),
    [(["hessian"], True), (None, False), (["spectrum", "geometry"], True)],
)
def test_a_run_with_a_tracker_and_one_without_end_byte_for_byte_the_same(families, accumulate):
    def tracker_of(model):
        how = {"largest": 2, "density_probes": 2} if families and "spectrum" in families else {}
        loader = DataLoader(TensorDataset(*data()), 16, shuffle=True)
        return flatlab.Tracker(model, loader, every=3, families=families, loss=LOSS, **how)

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
                report = flatlab.measure(self.model.eval(), x, y, families="hessian", loss=LOSS)
                for module, mode in zip(self.model.modules(), modes, strict=True):
                    module.training = mode
                seen[step] = report.hessian_lambda_max.item()
                assert load_dataset(path).identical(self.table[sorted(self.table.data_vars)])

    how = {"every": 5, "families": "hessian", "loss": LOSS, "path": path}
    tracker, _ = run(lambda model: Recording(model, x, y, **how))
    values = tracker.table.hessian_lambda_max
    assert values.step.values.tolist() == list(seen) == [0, 5, 10, 15]
    assert values.values == pytest.approx(list(seen.values()), rel=1e-4)


def test_warm_starts_take_fewer_products():
    x, y = data()
    products = {}
    for warm in (True, False):
        torch.manual_seed(0)
        model = network().double()
        how = {"families": "spectrum", "loss": LOSS, "largest": 3, "warm_start": warm}
        tracker = flatlab.Tracker(model, x, y, every=1, **how)
        for step in range(4):
            tracker(step)
        products[warm] = tracker.table.eigenvalue_products.values.flatten().tolist()
    assert products[True][0] == products[False][0]
    assert sum(products[True][1:]) < sum(products[False][1:])


def test_samples_are_fixed_and_errors_leave_the_run_alone():
    x, y = data()
    model = network()
    tracker = flatlab.Tracker(model, x, y, every=2, families="geometry", loss=LOSS)
    tracker(0)
    x.zero_()
    tracker(1)
    tracker(2)
    assert float(tracker.table.loss[0]) == float(tracker.table.loss[1])
    refused("every=0", flatlab.Tracker, model, x, y, every=0)
    with pytest.raises(StoreError, match=r"run\.nc"):
        flatlab.Tracker(model, x, y, path="run.nc")
    with pytest.raises(flatlab.MeasureError, match="nothing has been measured"):
        _ = flatlab.Tracker(model, x, y).table
    wrong, before = flatlab.Tracker(model, x, y + 7, families="hessian"), torch.get_rng_state()
    refused("label 9", wrong, 0)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)


def test_without_families_the_largest_eigenvalue_of_few_samples_is_measured():
    x, y = data()
    x, y = torch.cat([x, x]), torch.cat([y, y])
    model = network().double().eval()
    tracker = flatlab.Tracker(model, x, y, every=1, loss=LOSS)
    exact = flatlab.measure(model, x[:64], y[:64], families="hessian", loss=LOSS).hessian_lambda_max
    for step in range(3):
        tracker(step)
    found = tracker.table.largest_eigenvalue.isel(block=0, matrix=0, rank=0).values
    assert found == pytest.approx([float(exact)] * 3, rel=1e-2)
    assert len(tracker.inputs) == 64
    assert len(flatlab.Tracker(model, x, y, samples=100).inputs) == 100
    tight = flatlab.Tracker(model, x, y, loss=LOSS, residual=1e-8)
    tight(0)
    assert tight.table.largest_eigenvalue.item() == pytest.approx(float(exact), rel=1e-6)


PAGE = Path(__file__).parents[2] / "docs/tracking.md"
OF_LIBRARIES = pytest.mark.filterwarnings("ignore")  # about themselves


def callback_of(library):
    """The class that the page defines after importing this library."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(next(block for block in blocks if f"import {library}" in block), names)
    return names["Track" if library == "lightning" else "TrackSteps"]


def ends(model):
    state = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    return state, torch.get_rng_state().tolist()


@OF_LIBRARIES
@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(accumulate, monkeypatch, tmp_path):
    lightning = pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            norm, drop = nn.BatchNorm1d(8), nn.Dropout(0.2)
            self.network = nn.Sequential(nn.Linear(4, 8), norm, drop, nn.Linear(8, 3))

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def run(tracked):
        torch.manual_seed(0)
        module, x, y = Module(), torch.randn(60, 4), torch.arange(60) % 3
        data = torch.utils.data.TensorDataset(x, y)
        tracker = flatlab.Tracker(module.network, x, y, every=4, loss=LOSS)
        trainer = lightning.Trainer(
            max_epochs=2, accumulate_grad_batches=accumulate, accelerator="cpu", logger=False,
            callbacks=[callback_of("lightning")(tracker)] if tracked else [],
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(data, 10, shuffle=True))
        assert trainer.global_step == 12 // accumulate
        return tracker, ends(module)

    tracker, with_one = run(True)
    assert with_one == run(False)[1]
    assert tracker.table.step.values.tolist() == [0, 4, 8, 12][: 4 // accumulate]


def rows(count):
    torch.manual_seed(0)
    tokens = torch.randint(1, 20, (count, 6))
    mask = (torch.arange(6) < torch.arange(3, 3 + count)[:, None]).long()
    labels = torch.arange(count) % 3
    names = ("input_ids", "attention_mask", "labels")
    every = zip(tokens * mask, mask, labels, strict=True)
    return [dict(zip(names, row, strict=True)) for row in every]


def small(transformers, kind, **options):
    torch.manual_seed(0)
    name = {"Bert": "BertForSequenceClassification", "GPT2": "GPT2LMHeadModel"}[kind]
    return getattr(transformers, name)(getattr(transformers, f"{kind}Config")(**options))


@OF_LIBRARIES
@pytest.mark.parametrize("accumulate", [1, 2])
def test_transformers(accumulate, monkeypatch, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs it")
    monkeypatch.chdir(tmp_path)

    def run(tracked):
        sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}
        sizes |= {"vocab_size": 20, "num_hidden_layers": 1, "num_labels": 3}
        model = small(transformers, "Bert", **sizes)
        data = rows(60)
        batch = transformers.default_data_collator(copy.deepcopy(data[:30]))
        tracker = flatlab.Tracker(model, [batch], every=4, loss=LOSS)
        options = transformers.TrainingArguments(
            "out", num_train_epochs=2, per_device_train_batch_size=10, save_strategy="no",
            gradient_accumulation_steps=accumulate, report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        callbacks = [callback_of("transformers")(tracker)] if tracked else []
        trainer = transformers.Trainer(model, options, train_dataset=data, callbacks=callbacks)
        trainer.train()
        assert trainer.state.global_step == 12 // accumulate
        return tracker, ends(model)

    tracker, with_one = run(True)
    assert with_one == run(False)[1]
    assert tracker.table.step.values.tolist() == [0, 4, 8, 12][: 4 // accumulate]


@OF_LIBRARIES
def test_a_language_model_is_tracked_with_the_loss_that_it_is_trained_with():
    """Its labels are shifted as the page says."""
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 20}
    model = small(transformers, "GPT2", **sizes, bos_token_id=0, eos_token_id=0)
    tokens = torch.randint(20, (10, 6))
    batch = {"input_ids": tokens, "labels": tokens.where(torch.arange(6) != 1, -100)}
    expected = float(model.eval()(**batch).loss)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    block = next(block for block in blocks if "pad(" in block)
    names = {"batch": batch, "torch": torch}
    exec(block[block.index("next_tokens") : block.index("assert")], names)
    tracker = flatlab.Tracker(model, names["shifted"], every=1, loss=LOSS)
    tracker(0)
    assert float(tracker.table["loss"][0]) == pytest.approx(expected, rel=1e-5)
