"""The callbacks of docs/tracking.md in Lightning and in transformers, where these are installed.

They leave a run as it is, and measure at the steps of the trainer.
"""

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import flatlab

PAGE = Path(__file__).parents[2] / "docs/tracking.md"
pytestmark = pytest.mark.filterwarnings("ignore")  # of the two libraries


def callback_of(library):
    """The class that the page defines after importing this library."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(next(block for block in blocks if f"import {library}" in block), names)
    return names["Track" if library == "lightning" else "TrackSteps"]


def ends(model):
    state = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    return state, torch.get_rng_state().tolist()


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
        tracker = flatlab.Tracker(module.network, x, y, every=4, loss="cross-entropy")
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


@pytest.mark.parametrize("accumulate", [1, 2])
def test_transformers(accumulate, monkeypatch, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs it")
    monkeypatch.chdir(tmp_path)

    def run(tracked):
        sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}
        model = small(
            transformers, "Bert", **sizes, vocab_size=20, num_hidden_layers=1, num_labels=3
        )
        data = rows(60)
        batch = transformers.default_data_collator(copy.deepcopy(data[:30]))
        tracker = flatlab.Tracker(model, [batch], every=4, loss="cross-entropy")
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


def test_a_language_model_is_tracked_with_the_loss_that_it_is_trained_with():
    """Its labels are shifted as the page says."""
    transformers = pytest.importorskip("transformers")
    model = small(
        transformers, "GPT2", n_embd=8, n_layer=1, n_head=2, n_positions=8,
        vocab_size=20, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    tokens = torch.randint(20, (10, 6))
    batch = {"input_ids": tokens, "labels": tokens.where(torch.arange(6) != 1, -100)}
    expected = float(model.eval()(**batch).loss)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    block = next(block for block in blocks if "pad(" in block)
    names = {"batch": batch, "torch": torch}
    exec(block[block.index("next_tokens") : block.index("assert")], names)
    tracker = flatlab.Tracker(model, names["shifted"], every=1, loss="cross-entropy")
    tracker(0)
    assert float(tracker.table["loss"][0]) == pytest.approx(expected, rel=1e-5)
