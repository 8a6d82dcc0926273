"""Networks at their real size: seconds and peak memory of each row, in a process of its own.

Float32, one thread, 8 samples; S and G to 3 %, MLS to a residual of 1e-2. The weights are random,
which changes neither the work of a pass nor its memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from torch import nn

import flatlab

SAMPLES, LENGTH, VOCABULARY = 8, 64, 5000
SUMS = {"families": "geometry", "accuracy": 0.03, "costly": ()}
MLS = ["sharpness", "sharpness_per_token", "g", "mls"]
CURVATURE = {"loss": "cross-entropy", "families": "hessian", "curvature": ["hessian"]}
TRACE = {"loss": "cross-entropy", "families": "flatness", "flatness": ["traces"], "accuracy": 0.03}
ROWS: dict[str, tuple[str, dict[str, Any], int, float]] = {
    "ResNet-18, geometry": ("resnet18", SUMS, 240, 3.0),
    "ResNet-18, lambda_max": ("resnet18", CURVATURE, 90, 3.0),
    "ResNet-50, S G MLS": ("resnet50", SUMS | {"quantities": MLS}, 720, 6.0),
    "ViT-B/16, S G MLS": ("vit_base_patch16_224", SUMS | {"quantities": MLS}, 720, 6.0),
    "GPT, S": ("gpt", SUMS | {"quantities": MLS[:2]}, 80, 6.0),
    "GPT, lambda_max": ("gpt", CURVATURE, 80, 6.0),
    "GPT, trace": ("gpt", TRACE, 80, 6.0),
}
"""The network, what is measured, and the seconds and GB to stay within."""


class Gpt(nn.Module):
    """A causal transformer with learnt positions; 10 million parameters by default."""

    def __init__(self, width: int = 320, depth: int = 6, heads: int = 5) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        layer = {"dim_feedforward": 4 * width, "dropout": 0.0, "activation": "gelu"}
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, **layer, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            h = block(h, src_mask=self.mask)
        return self.head(self.norm(h))


def network(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network, samples, and their classes."""
    torch.manual_seed(0)
    if name == "gpt":
        sequences = torch.randint(VOCABULARY, (SAMPLES, LENGTH + 1))
        return Gpt().eval(), sequences[:, :-1], sequences[:, 1:]
    import timm

    return timm.create_model(name).eval(), torch.randn(SAMPLES, 3, 224, 224), torch.arange(SAMPLES)


def row(what: str) -> dict[str, float]:
    """Measure one row here."""
    name, options, _, memory = ROWS[what]
    torch.set_num_threads(1)
    model, inputs, classes = network(name)
    warnings.simplefilter("ignore")
    start, spent = time.perf_counter(), time.process_time()
    report = flatlab.measure(model, inputs, classes, memory=int(memory * 5e8), **options)
    seconds = {"wall": time.perf_counter() - start, "cpu": time.process_time() - spent}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return seconds | {"GB": peak} | {str(k): float(v) for k, v in report.items() if v.ndim == 0}


def large() -> None:
    """All rows, one after the other."""
    for what, (_, _, seconds, memory) in ROWS.items():
        command = [sys.executable, "-m", "benchmarks.large", what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{what:<34} {done.stderr.strip().splitlines()[-1]}")
            continue
        of = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{what:<34}{of['cpu']:10.1f} s of {seconds} s, {of['GB']:.1f} GB of {memory:g} GB",
            flush=True,
        )


if __name__ == "__main__":
    print(json.dumps(row(sys.argv[1])))
