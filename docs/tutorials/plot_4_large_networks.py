"""
4. Many outputs, or tokens
==========================

*For whoever has a network that is too large for exact derivatives. You will know when to estimate,
and what an error means. Ten minutes.*

Exact sharpness needs one backward pass for each output. A network with 1,000 outputs, or a
transformer, takes long. Then flatlab estimates, and says how well.
"""

import time

import matplotlib.pyplot as plt
import torch
from torch import nn

import flatlab

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(30, 60), nn.GELU(), nn.Linear(60, 1000)).eval()
x = torch.randn(8, 30)

# %%
# Exact, or to 2 %
# ----------------
# ``accuracy=0.02`` asks for a relative standard error of 2 %. Each estimate comes with its error.

began = time.perf_counter()
exact = flatlab.measure(model, x, accuracy="exact", quantities=["sharpness", "g"])
between = time.perf_counter()
estimated = flatlab.measure(model, x, accuracy=0.02, quantities=["sharpness", "g"])
ended = time.perf_counter()
print("the estimate took less time:", ended - between < between - began)
for name in ("sharpness", "g"):
    error = float(estimated[f"{name}_error"])
    print(f"{name:10} {float(exact[name]):10.4g} = {float(estimated[name]):10.4g} ± {error:.2g}")

# %%
# What the error means
# --------------------
# The error comes from the random directions, not from the samples. Over twenty seeds, about two
# thirds of the estimates lie within one error of the exact value.

values, errors = [], []
for seed in range(20):
    report = flatlab.measure(model, x, accuracy=0.02, quantities=["sharpness"], seed=seed)
    values.append(float(report["sharpness"]))
    errors.append(float(report["sharpness_error"]))
plt.errorbar(range(20), values, errors, fmt="o")
plt.axhline(float(exact["sharpness"]), color="black", label="exact")
plt.xlabel("seed of the directions")
plt.ylabel("sharpness S")
plt.legend()
plt.show()

# %%
# Tokens
# ------
# Integers have no derivatives. flatlab then differentiates with respect to the output of the first
# embedding, and says so.


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, tokens):
        return self.head(torch.tanh(self.embedding(tokens).cumsum(1)))


report = flatlab.measure(Tokens().eval(), torch.randint(50, (4, 6)), accuracy=0.05)
print("with respect to:", report.attrs["derivatives_with_respect_to"])
print(f"sharpness of a sequence {float(report['sharpness']):.1f}", end=", ")
print(f"of a token {float(report['sharpness_per_token']):.1f}")

# %%
# Where to go on: :doc:`/large` has the choice in one table, and times of real networks.
