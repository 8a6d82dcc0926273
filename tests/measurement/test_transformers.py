"""Tiny networks of transformers, built without a download, have the values of plain autograd.

With masks, types of tokens, tied weights, and checkpointing of both kinds, which is on in training
mode alone; nothing is dropped.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flatlab
from tests.measurement.given import right

transformers = pytest.importorskip("transformers", reason="transformers is not installed here")

SMALL = {
    **{"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
    **{"vocab_size": 9, "max_position_embeddings": 5, "num_labels": 3, "pad_token_id": 0},
    **{
        "bos_token_id": 1,
        "eos_token_id": 1,
        "d_kv": 4,
        "d_ff": 8,
        "image_size": 8,
        "patch_size": 4,
    },
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_rate"), 0.0),
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout"), 0.0),
    **dict.fromkeys(("classifier_dropout", "attention_dropout"), 0.0),
}
TOKENS = torch.randint(1, 9, (4, 5), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(5) < torch.tensor([[5], [3], [5], [4]])).long()
ALONE = {"input_ids": TOKENS}
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
OF_EACH, OF_POSITIONS = torch.arange(4) % 3, TOKENS % 3
CASES = {
    "bert": ("SequenceClassification", ALONE | {"attention_mask": MASK}, OF_EACH),
    "bert with types": ("SequenceClassification", ALONE | {"token_type_ids": MASK}, OF_EACH),
    "gpt2": ("SequenceClassification", ALONE, OF_EACH),
    "gpt2 tied": ("CausalLM", ALONE, TOKENS),
    "llama": ("SequenceClassification", {"input_ids": TOKENS * MASK}, OF_EACH),
    "t5": ("TokenClassification", ALONE, OF_POSITIONS),
    "vit": ("ImageClassification", {"pixel_values": IMAGES}, OF_EACH),
}


class Logits(nn.Module):
    def __init__(self, inside, names):
        super().__init__()
        self.inside, self.names = inside, names

    def forward(self, *given):
        return self.inside(**dict(zip(self.names, given, strict=True))).logits


@pytest.mark.first(len(CASES))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reentrant", [None, True, False])
@pytest.mark.parametrize("name", CASES)
def test_networks_of_transformers_have_the_values_of_plain_autograd(reentrant, name):
    head, inputs, y = CASES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name.split()[0], **SMALL)
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config).double().eval()
    loss = lambda f, y: F.cross_entropy(f.reshape(y.numel(), -1), y.flatten())  # noqa: E731
    plain = Logits(model, [*inputs])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        wanted = right(plain, tuple(inputs.values()), y, loss)
    if reentrant is not None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.train()
    how = {"families": "hessian", "loss": "cross-entropy"}
    assert flatlab.measure(model, inputs, y, **how).hessian_lambda_max.item() == pytest.approx(
        wanted[0], rel=1e-4
    )
    assert flatlab.measure(model, inputs).sharpness.item() == pytest.approx(wanted[1])
    line = flatlab.landscape(model, inputs, y, points=3, loss="cross-entropy")
    assert line.loss.values[1] == pytest.approx(wanted[2])
