"""Small networks in the layouts in which others publish theirs."""

import math

import pytest
import torch
from torch import nn


class Block(nn.Module):
    """A block of OpenAI's image tower."""

    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, 4 * width))
        self.mlp.add_module("c_proj", nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        y = self.mlp.c_fc(self.ln_2(x))
        return x + self.mlp.c_proj(y * torch.sigmoid(1.702 * y))


class Tower(nn.Module):
    """CLIP's image tower, written down as it is published."""

    def __init__(self, width=128, patch=8, pixels=16, depth=2, features=12):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.randn(width))
        self.positional_embedding = nn.Parameter(torch.randn((pixels // patch) ** 2 + 1, width))
        self.proj = nn.Parameter(torch.randn(width, features) / math.sqrt(width))
        self.conv1 = nn.Conv2d(3, width, patch, patch, bias=False)
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = nn.Module()
        self.transformer.resblocks = nn.ModuleList(Block(width, width // 64) for _ in range(depth))

    def forward(self, x):
        x = self.conv1(x).flatten(2).mT
        x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        x = self.ln_pre(x + self.positional_embedding)
        for block in self.transformer.resblocks:
            x = block(x)
        return self.ln_post(x[:, 0]) @ self.proj


class Soup(nn.Module):
    """A network of model soups: a tower, what is left of the language model, and a head."""

    def __init__(self, classes=5):
        super().__init__()
        self.model = nn.Module()
        self.model.visual = Tower()
        self.model.token_embedding = nn.Embedding(3, 4)
        self.classification_head = nn.Linear(12, classes)

    def forward(self, x):
        features = self.model.visual(x)
        return self.classification_head(features / features.norm(dim=-1, keepdim=True))


WORDS = ["[PAD]", *[f"w{n}" for n in range(99)], "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog"]
"""The special tokens of BERT have their usual numbers: [SEP] has 102."""


def small_bert(folder):
    """A small classifier of pairs of sentences, saved in a folder."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "vocab_size": len(WORDS), "max_position_embeddings": 16}
    network = transformers.BertForSequenceClassification(
        transformers.BertConfig(**sizes, num_labels=3)
    ).eval()
    network.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return network
