"""What the libraries are tried on: a perceptron of 53 parameters, with its matrices written out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

COUNT = 3
"""Eigenvalues that are asked for."""
LOSS = nn.functional.cross_entropy
SIZES = (12, 12, 6)
"""Batches of the samples."""


class Problem:
    """A perceptron in float64 that fits badly, so that H has large negative eigenvalues as well."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
        self.x, self.y = torch.randn(30, 6).double(), torch.arange(30) % 3
        with torch.no_grad():
            self.model[2].weight *= 8
            self.model[0].weight *= 2
        self.theta = nn.utils.parameters_to_vector(self.model.parameters()).detach()
        self.hessian = torch.func.hessian(lambda v: LOSS(self.outputs(v), self.y))(self.theta)
        jacobian = torch.func.jacrev(self.outputs)(self.theta)
        p = self.outputs(self.theta).softmax(1)
        curved = torch.diag_embed(p) - p[:, :, None] * p[:, None]
        self.gauss_newton = torch.einsum("nia,nij,njb->ab", jacobian, curved, jacobian) / 30
        every = torch.eye(3).double() - p[:, None]  # (sample, label, output): d log p(label) / df
        scores = torch.einsum("nli,nia->nla", every, jacobian)
        self.fisher = torch.einsum("nl,nla,nlb->ab", p, scores, scores) / 30
        true = scores[torch.arange(30), self.y]
        self.empirical_fisher = true.T @ true / 30

    def outputs(self, vector: Tensor) -> Tensor:
        """Of the network with these parameters."""
        named = [*self.model.named_parameters()]
        parts = vector.split([p.numel() for _, p in named])
        state = {n: v.view(p.shape) for (n, p), v in zip(named, parts, strict=True)}
        return functional_call(self.model, state, (self.x,))

    def loss(self, vector: Tensor) -> float:
        return float(LOSS(self.outputs(vector), self.y))

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        return [*zip(self.x.split(SIZES), self.y.split(SIZES), strict=True)]

    def loader(self) -> Any:
        data = torch.utils.data.TensorDataset(self.x, self.y)
        return torch.utils.data.DataLoader(data, SIZES[0])

    def other(self) -> nn.Sequential:
        """A second network."""
        other = copy.deepcopy(self.model)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter += torch.randn_like(parameter)
        return other


def largest(matrix: Tensor, count: int = COUNT) -> np.ndarray:
    return torch.linalg.eigvalsh(matrix).flip(0)[:count].numpy()


def smallest(matrix: Tensor) -> np.ndarray:
    return torch.linalg.eigvalsh(matrix)[:COUNT].numpy()


def of_largest_modulus(matrix: Tensor) -> np.ndarray:
    values = torch.linalg.eigvalsh(matrix)
    return values[values.abs().argsort(descending=True)[:COUNT]].numpy()


def of_first_layer(matrix: Tensor) -> np.ndarray:
    """Largest eigenvalues of the block of the 35 parameters of the first layer."""
    return largest(matrix[:35, :35])


def close(values: Any, exact: np.ndarray, tolerance: float = 1e-2) -> bool:
    flat = np.sort(np.asarray(values, float).ravel())
    return np.allclose(flat, np.sort(exact), rtol=tolerance, atol=1e-6)


def are_eigenvectors(values: Any, vectors: Any, matrix: Tensor) -> bool:
    """values (k,), vectors (k, parameters) of length 1."""
    v = torch.as_tensor(np.asarray(vectors, float))
    rest = v @ matrix - torch.as_tensor(np.asarray(values, float))[:, None] * v
    return bool((v.norm(dim=1) - 1).abs().max() < 1e-6 and rest.norm(dim=1).max() < 1e-2)


def same_mean(nodes: Any, weights: Any, p: Problem) -> bool:
    """Whether a density, given by quadratures (starts, nodes), has the mean of all eigenvalues."""
    w, at = np.asarray(weights, float), np.asarray(nodes, float)
    means = (w * at).sum(1) / w.sum(1)
    error = means.std(ddof=1) / len(means) ** 0.5
    return bool(abs(means.mean() - float(p.hessian.trace()) / len(p.hessian)) < 5 * error)


class WrongTwice(torch.autograd.Function):
    """The hyperbolic tangent whose gradient is right and whose second derivative is not."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:  # type: ignore[override]
        return x.tanh()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient * (1 - x.detach().tanh() ** 2)


class Wrong(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return WrongTwice.apply(x)


def wrong(p: Problem) -> nn.Module:
    """The same function, and with it the same H, as the network of the problem."""
    return nn.Sequential(p.model[0], Wrong(), p.model[2])


class OfDictionary(nn.Module):
    """The same network, called with a dictionary that has the inputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any = None, **named: Tensor) -> Tensor:
        return self.model((batch or named)["values"])


def dictionary(p: Problem) -> dict[str, Tensor]:
    return {"values": p.x, "labels": p.y}


class Transformer:
    """A small BERT of transformers, one batch of it, and the extreme eigenvalues of H."""

    def __init__(self) -> None:
        import transformers
        from scipy.sparse.linalg import LinearOperator, eigsh

        torch.manual_seed(0)
        sizes = {"hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": 8}
        counts = {"vocab_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = transformers.BertConfig(
            **sizes, **counts, num_labels=3, attn_implementation="eager"
        )
        self.model = transformers.BertForSequenceClassification(config).double().eval()
        with torch.no_grad():
            self.model.classifier.weight *= 20
        mask = torch.ones(10, 6, dtype=torch.long)
        mask[::2, 4:] = 0
        tokens = torch.randint(1, 20, (10, 6)) * mask  # 0 pads
        self.batch = {"input_ids": tokens, "attention_mask": mask, "labels": torch.arange(10) % 3}
        parameters = [*self.model.parameters()]
        loss = self.model(**self.batch).loss
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        flat = torch.cat([g.reshape(-1) for g in gradients])

        def product(v: np.ndarray) -> np.ndarray:
            given = torch.as_tensor(np.ravel(v))
            parts = torch.autograd.grad(flat, parameters, given, retain_graph=True)
            return torch.cat([part.reshape(-1) for part in parts]).numpy()

        size = (len(flat), len(flat))
        matrix = LinearOperator(size, matvec=product, dtype=np.float64)
        self.largest = eigsh(matrix, k=1, which="LA", return_eigenvectors=False)
        self.of_largest_modulus = eigsh(matrix, k=1, which="LM", return_eigenvectors=False)
