"""Classifiers that others trained, from the files in which they published them.

By layout: `jax`, the .npz files of networks that timm has; `clip`, an image tower in the layout of
OpenAI and OpenCLIP with a linear head on its normalized features, as of model soups; `bert`, a
folder per network as Hugging Face's transformers write it. The libraries are imported where they
are used.
"""

import importlib
import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flatlab.data._dataset import DataError
from flatlab.networks import _timm
from flatlab.networks._weights import ENDINGS, load_state

CLIP = {
    "interpolation": "bicubic",
    "crop_pct": 1.0,
    "mean": (0.48145466, 0.4578275, 0.40821073),
    "std": (0.26862954, 0.26130258, 0.27577711),
}
"""How CLIP prepares images."""

HEAD_WIDTH = 64
"""Numbers of a head of attention in CLIP's towers, which their files do not say."""

BERT = ("model.safetensors", "pytorch_model.bin")
LENGTH = 128
"""Tokens of a pair of sentences at most, as in the training of BERT on MNLI."""

SEPARATOR = 102
"""The token behind each sentence, in the vocabularies of BERT."""

Opened = tuple[nn.Module, Mapping[str, Any]]
"""A network in evaluation mode, and how its images are prepared, as timm says it."""


def published_files(folder: Path, networks: str | Sequence[str], layout: str) -> list[Path]:
    """The files of published networks, or folders of `bert`, sorted by name.

    networks: patterns for their names; or "folder": all of them. `DataError` if there are none.
    """
    patterns = ["*"] if networks == "folder" else networks
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if layout == "bert":
        paths = [path for path in paths if (path / "config.json").is_file()]
        what = f"folders with config.json, {' or '.join(BERT)} and vocab.txt"
    else:
        endings = (".npz",) if layout == "jax" else ENDINGS
        paths = [path for path in paths if path.suffix in endings]
        what = f"weights of networks ({', '.join(endings)})"
    if not paths:
        named = "" if networks == "folder" else f" named {' or '.join(patterns)}"
        raise DataError(f"{folder} has no networks{named}; put {what} there")
    return paths


def opened(path: Path, layout: str, architecture: str | None = None) -> Opened:
    """A network from its file; `DataError` if it does not fit.

    architecture: of a network of JAX, its name in timm.
    """
    if layout == "clip":
        return _clip(path)
    if layout == "bert":
        return _bert(path), {}
    assert architecture
    model = _timm.build(architecture)
    _from_jax(model, path)
    return model, _timm.configuration(model)


def _from_jax(model: Any, path: Path) -> None:
    """timm leaves out a head of another size without a word."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            outputs = arrays["head/bias"].shape[0]
        model.load_pretrained(str(path))
    except (OSError, ValueError, KeyError, AssertionError, RuntimeError, AttributeError) as error:
        why = _timm.first_line(error)
        raise DataError(f"{path} cannot be read as a network of JAX: {why}") from None
    if outputs != model.num_classes:
        raise DataError(f"{path} has {outputs} outputs, the network {model.num_classes}")


class Normalize(nn.Module):
    """x / |x| of each row."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=1)


def _clip(path: Path) -> Opened:
    """Layers tower, normalize and head; the sizes are those of the tensors."""
    from timm.models.vision_transformer import checkpoint_filter_fn

    state = {name.removeprefix("model."): t.float() for name, t in load_state(path).items()}
    tower = {name: tensor for name, tensor in state.items() if name.startswith("visual.")}
    try:
        width, _, patch, _ = tower["visual.conv1.weight"].shape
        places = len(tower["visual.positional_embedding"]) - 1
        depth = len([name for name in tower if name.endswith("attn.in_proj_weight")])
        features = tower["visual.proj"].shape[1]
        weight = state["classification_head.weight"]
        pixels = patch * math.isqrt(places)
        model: Any = _timm.build(
            "vit_base_patch32_clip_quickgelu_224",
            **{"img_size": pixels, "patch_size": patch, "embed_dim": width, "depth": depth},
            **{"num_heads": width // HEAD_WIDTH, "num_classes": features},
        )
        model.load_state_dict(checkpoint_filter_fn(tower, model))
        head = nn.Linear(features, len(weight))
        head.load_state_dict({"weight": weight, "bias": state["classification_head.bias"]})
    except KeyError as error:
        raise DataError(
            f"{path} has no {error}; layout clip is an image tower, visual.*, and a head, "
            "classification_head.*"
        ) from None
    except RuntimeError as error:
        raise DataError(f"{path} does not fit the network: {_timm.first_line(error)}") from None
    model.head.bias = None  # CLIP's projection has none
    layers = OrderedDict(tower=model, normalize=Normalize(), head=head)
    return nn.Sequential(layers).eval(), {**CLIP, "input_size": (3, pixels, pixels)}


class OfPairs(nn.Module):
    """A classifier of pairs of sentences, as a function of their tokens alone.

    Tokens are (batch, length), filled up with 0; the second sentence begins behind a separator.
    """

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, tokens: Tensor) -> Tensor:
        mask, ends = tokens != 0, tokens == SEPARATOR
        second = (ends.cumsum(1) - ends.long() > 0) & mask
        types = {"attention_mask": mask.long(), "token_type_ids": second.long()}
        return self.bert(input_ids=tokens, **types).logits


def _bert(folder: Path) -> nn.Module:
    transformers = optional("transformers")
    path = next((folder / name for name in BERT if (folder / name).is_file()), None)
    if path is None:
        raise DataError(f"{folder} has no weights; put {' or '.join(BERT)} there")
    state = {n: t for n, t in load_state(path).items() if not n.endswith("position_ids")}
    try:
        outputs = {"num_labels": len(state["classifier.bias"])}
        settings = transformers.BertConfig(**_configuration(folder) | outputs)
        bert = transformers.BertForSequenceClassification(settings)
        bert.load_state_dict(state)
    except KeyError as error:
        raise DataError(f"{path} has no {error}; it is no classifier") from None
    except (RuntimeError, ValueError, TypeError) as error:
        raise DataError(f"{path} does not fit the network: {_timm.first_line(error)}") from None
    return OfPairs(bert).eval()


def tokens(folder: Path, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """The tokens (pairs, length) of pairs of sentences, by a vocab.txt in lower case."""
    tokenizer = _tokenizer(folder)
    length = min(LENGTH, _configuration(folder)["max_position_embeddings"])
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    return torch.tensor([each.ids for each in tokenizer.encode_batch(list(pairs))])


def _configuration(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        raise DataError(f"{folder / 'config.json'} cannot be read; copy it again") from None


def _tokenizer(folder: Path) -> Any:
    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise DataError(f"{vocabulary} is missing; put the vocabulary of the network there")
    return optional("tokenizers").BertWordPieceTokenizer(str(vocabulary), lowercase=True)


def optional(name: str) -> Any:
    """A library that only some networks need; `DataError` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DataError(f"networks of BERT need {name}; install flatlab[zoos]") from None
