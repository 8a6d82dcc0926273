"""Networks that others published: small files of each layout, against plain implementations."""

import json

import numpy as np
import pytest
import torch

from flatlab.data import DataError
from flatlab.networks import _published as published
from flatlab.networks import _timm
from papers.andriushchenko2023.tests.published import Soup, small_bert
from tests.refusals import refusal

VIT = "test_vit"  # timm's own, for tests: 160 pixels


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def images(pixels, count=3):
    return torch.randn(count, 3, pixels, pixels)


def as_jax(model):
    """The weights of a ViT of timm under the names, and in the shapes, of the files of JAX."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    heads = model.blocks[0].attn.num_heads

    def linear(name, to):
        return {f"{to}/kernel": state[f"{name}.weight"].T, f"{to}/bias": state[f"{name}.bias"]}

    def norm(name, to):
        return {f"{to}/scale": state[f"{name}.weight"], f"{to}/bias": state[f"{name}.bias"]}

    found = {
        "embedding/kernel": state["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "cls": state["cls_token"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        **norm("norm", "Transformer/encoder_norm"),
        **linear("head", "head"),
    }
    for number in range(len(model.blocks)):
        here, there = f"blocks.{number}", f"Transformer/encoderblock_{number}"
        attention = f"{there}/MultiHeadDotProductAttention_1"
        found |= norm(f"{here}.norm1", f"{there}/LayerNorm_0")
        found |= norm(f"{here}.norm2", f"{there}/LayerNorm_2")
        found |= linear(f"{here}.mlp.fc1", f"{there}/MlpBlock_3/Dense_0")
        found |= linear(f"{here}.mlp.fc2", f"{there}/MlpBlock_3/Dense_1")
        weights = np.split(state[f"{here}.attn.qkv.weight"], 3)
        biases = np.split(state[f"{here}.attn.qkv.bias"], 3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            width = len(weight)
            kernel = weight.T.reshape(width, heads, width // heads)
            found |= {f"{attention}/{name}/kernel": kernel}
            found |= {f"{attention}/{name}/bias": bias.reshape(heads, -1)}
        out = state[f"{here}.attn.proj.weight"].T
        found[f"{attention}/out/kernel"] = out.reshape(heads, -1, out.shape[1])
        found[f"{attention}/out/bias"] = state[f"{here}.attn.proj.bias"]
    return found


def test_a_file_of_jax(tmp_path):
    model, path = _timm.build(VIT), tmp_path / "B_16-i1k.npz"
    np.savez(path, **as_jax(model))
    found, configuration = published.opened(path, "jax", VIT)
    assert configuration["input_size"] == (3, 160, 160)
    x = images(160)
    torch.testing.assert_close(found(x), model(x))


def test_a_file_with_another_head_or_without_one_is_not_half_read(tmp_path):
    jax, clip = tmp_path / "other.npz", tmp_path / "model_3.pt"
    np.savez(jax, **as_jax(_timm.build(VIT, num_classes=7)))
    torch.save(Soup().model.state_dict(), clip)
    for given, words in (
        ((jax, "jax", VIT), "other.npz has 7 outputs, the network 1000"),
        ((clip, "clip"), "has no 'classification_head.weight'; layout clip is"),
    ):
        assert words in refusal(DataError, published.opened, *given)
    jax.write_bytes(b"broken")
    words = "other.npz cannot be read as a network of JAX"
    assert words in refusal(DataError, published.opened, jax, "jax", VIT)


def test_a_tower_of_clip_with_a_head(tmp_path):
    soup = Soup().eval()
    path = tmp_path / "model_3.pt"
    torch.save({f"module.{name}": tensor for name, tensor in soup.state_dict().items()}, path)
    found, configuration = published.opened(path, "clip")
    x = images(16)
    torch.testing.assert_close(found(x), soup(x))
    assert configuration["input_size"] == (3, 16, 16)
    assert configuration["crop_pct"] == 1.0
    count = sum(p.numel() for p in soup.model.visual.parameters()) + 13 * 5
    assert sum(p.numel() for p in found.parameters()) == count


@pytest.fixture
def bert(tmp_path):
    """The folder of a network, and the network itself."""
    return tmp_path / "bert_07", small_bert(tmp_path / "bert_07")


def test_a_bert_sees_pairs_of_sentences_as_its_library_shows_them(bert):
    folder, network = bert
    found, _ = published.opened(folder, "bert")
    tokens = published.tokens(folder, [("The cat", "the dog"), ("cat", "bird")])
    assert tokens[:, :8].tolist() == [
        [101, 103, 104, 102, 103, 105, 102, 0],
        [101, 104, 102, 100, 102, 0, 0, 0],
    ]
    assert tokens.shape == (2, 16)  # as many as the network has positions
    assert not tokens[:, 8:].any()
    tokens = tokens[:, :8]
    kinds = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]])
    how = {"attention_mask": (tokens != 0).long(), "token_type_ids": kinds}
    expected = network(input_ids=tokens, **how).logits
    torch.testing.assert_close(found(tokens), expected)
    short = found(tokens[1:, :5])  # what is filled up does not matter
    torch.testing.assert_close(short, expected[1:])


def test_a_bert_that_is_incomplete_says_what_is_missing(bert):
    folder, _ = bert
    (folder / "vocab.txt").unlink()
    with pytest.raises(DataError, match=r"vocab\.txt is missing; put the vocabulary"):
        published.tokens(folder, [("a", "b")])
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"bert_07 has no weights; put model\.safetensors or"):
        published.opened(folder, "bert")


def test_without_its_library_a_bert_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps({}))
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(DataError, match=r"need transformers; install flatlab\[zoos\]"):
        published.opened(tmp_path, "bert")


def test_files_are_found_by_their_names(tmp_path):
    for name in ("model_1.pt", "model_0.pt", "notes.txt", "a.npz"):
        (tmp_path / name).touch()
    names = [path.name for path in published.published_files(tmp_path, ["model_*"], "clip")]
    assert names == ["model_0.pt", "model_1.pt"]
    assert len(published.published_files(tmp_path, "folder", "jax")) == 1
    with pytest.raises(DataError, match=r"has no networks named soup_\*; put weights of networks"):
        published.published_files(tmp_path, ["soup_*"], "clip")
    with pytest.raises(DataError, match=r"put folders with config\.json"):
        published.published_files(tmp_path, "folder", "bert")
