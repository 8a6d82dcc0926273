"""A small transformer of tokens, causal, with learnt positions."""

import torch
from torch import nn

TOKENS, WIDTH, LENGTH = 11, 8, 5


class Transformer(nn.Module):
    """(samples, LENGTH) tokens -> (samples, LENGTH, TOKENS).  tied: the head is the embedding."""

    def __init__(self, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.queries = nn.Linear(WIDTH, 3 * WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.behind(self.embedding(tokens))

    def behind(self, embedded):
        h = embedded + self.positions(torch.arange(embedded.shape[1]))
        q, k, v = self.queries(self.norm(h)).chunk(3, -1)
        h = h + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(h + self.down(nn.functional.gelu(self.up(h))))


def transformer(tied=False, samples=3):
    """One in float64, and sequences of tokens, in which some repeat."""
    torch.manual_seed(0)
    model = Transformer(tied).double().eval()
    generator = torch.Generator().manual_seed(1)
    return model, torch.randint(TOKENS - 4, (samples, LENGTH), generator=generator)
