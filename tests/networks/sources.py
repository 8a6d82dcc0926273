"""Files of a user's networks that take several inputs, as text."""

SEVERAL_INPUTS = """
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 4)

    def forward(self, input_ids, attention_mask):
        hidden = self.embedding(input_ids) * attention_mask[..., None]
        return {"hidden": hidden, "logits": self.head(hidden.cumsum(1).tanh())}


class Two(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.image, self.text = nn.Linear(5, width), nn.Linear(3, width)
        self.head = nn.Linear(width, 3)

    def forward(self, image, text):
        return self.head((self.image(image) + self.text(text)).tanh())
"""
