"""Tiny networks of transformers, built without a download, have the values of plain autograd.

With masks, tied weights, and checkpointing of both kinds, which is on in training mode alone.
"""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import flatlab
from tests.measurement.given import right

transformers = pytest.importorskip("transformers", reason="transformers is not installed here")

SIZES = (
    "vocab_size d_ff image_size patch_size hidden_size intermediate_size max_position_embeddings"
)
DROPPED = (
    "hidden_dropout_prob attention_probs_dropout_prob dropout_rate classifier_dropout "
    "attention_dropout attn_pdrop embd_pdrop resid_pdrop summary_first_dropout"
)
SMALL = dict.fromkeys(SIZES.split(), 8) | dict.fromkeys(DROPPED.split(), 0.0)
SMALL |= {"num_hidden_layers": 1, "num_attention_heads": 2, "d_kv": 4, "num_labels": 3}
SMALL |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
TOKENS = torch.randint(1, 8, (4, 5), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(5) < torch.tensor([[5], [3], [5], [4]])).long()
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
ALONE, CLASSES = {"input_ids": TOKENS}, torch.arange(4) % 3
CASES = {
    "bert": ("SequenceClassification", ALONE | {"attention_mask": MASK}, CLASSES),
    "llama": ("SequenceClassification", {"input_ids": TOKENS * MASK}, CLASSES),
    "gpt2": ("CausalLM", ALONE, TOKENS),  # its last layer is its embedding
    "t5": ("TokenClassification", ALONE, TOKENS % 3),
    "vit": ("ImageClassification", {"pixel_values": IMAGES}, CLASSES),
}


@pytest.mark.first(len(CASES))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reentrant", [None, True, False])
@pytest.mark.parametrize("name", CASES)
def test_networks_of_transformers_have_the_values_of_plain_autograd(reentrant, name):
    head, inputs, y = CASES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **SMALL)
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config).double().eval()
    logits = model.register_forward_hook(lambda *given: given[-1].logits)
    loss = lambda f, y: F.cross_entropy(f.reshape(y.numel(), -1), y.flatten())  # noqa: E731
    with sdpa_kernel(SDPBackend.MATH):
        wanted = right(model, tuple(inputs.values()), y, loss)
    logits.remove()
    if reentrant is not None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.train()
    how = {"families": ["hessian", "geometry"], "loss": "cross-entropy"}
    report = flatlab.measure(model, inputs, y, **how)
    assert report.hessian_lambda_max.item() == pytest.approx(wanted[0], rel=1e-4)
    assert report.sharpness.item() == pytest.approx(wanted[1])
    line = flatlab.landscape(model, inputs, y, points=3, loss="cross-entropy")
    assert line.loss.values[1] == pytest.approx(wanted[2])
