"""
1. Which sharpness?
===================

*For whoever has a network and wants a first number. You will have a table and a figure, in ten
minutes.*

Sharpness has several definitions, and they need not agree. We train a small network on images of
digits and measure two of them on the way.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import flatlab

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images / 16).float(), torch.tensor(labels)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

# %%
# One measurement
# ---------------
# ``flatlab.measure`` takes a network and samples. It leaves the network as it was and returns an
# xarray dataset, which prints its measures with units and definitions. Without ``families`` it has
# the measure family *geometry*: sharpness, sensitivity and the bounds between them.

report = flatlab.measure(model, x[:200])
print(report)

# %%
# ``sharpness`` is how fast the outputs change with the weights, ``mls`` how fast they change with
# the inputs. Some measures have a value for each layer:

print(report[["sharpness_per_layer", "mls_per_layer"]].to_dataframe().round(2))

# %%
# During training
# ---------------
# A ``Tracker`` measures every 200 steps, always on the same samples. The training ends with the
# same weights as without it. The family *hessian* adds the largest eigenvalue of the Hessian.

tracker = flatlab.Tracker(
    model, x[:200], y[:200], every=200, families=["geometry", "hessian"], loss="cross-entropy"
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2001):
    tracker(step)
    batch = torch.randint(len(x), (20,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
    optimizer.step()

table = tracker.table
print(table[["loss", "sharpness", "mls", "hessian_lambda_max"]].to_dataframe().round(2))

# %%
# The picture
# -----------
# One sharpness rises to the end, the other rises and falls. Whether this network ends *flat*
# depends on which one you mean.

names = {"sharpness": "mean squared gradient", "hessian_lambda_max": "largest eigenvalue"}
for name, label in names.items():
    plt.plot(table["step"], table[name] / table[name].max(), "o-", label=label)
plt.xlabel("step")
plt.ylabel("share of its maximum")
plt.legend()
plt.show()

# %%
# Where to go on: :doc:`/measures` defines all measures. :doc:`/networks` says which networks,
# samples and losses can be measured, and :doc:`/tracking` how to track with other training loops.
