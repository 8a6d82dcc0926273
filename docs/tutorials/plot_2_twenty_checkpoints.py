"""
2. Twenty networks, one figure
==============================

*For whoever has several networks and wonders whether flat ones generalize better. You will have a
correlation and its picture. Ten minutes.*

We train twenty networks: two learning rates, two batch sizes, five seeds. Then we ask whether
sharper networks make more errors, first over all networks, then among those that differ only in
their seed.
"""

import itertools

import matplotlib.pyplot as plt
import pandas as pd
import torch
from sklearn.datasets import load_digits

import flatlab

images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images / 16).float(), torch.tensor(labels)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
train, test = order[:1000], order[1000:]


def trained(lr, batch_size, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(8):
        for some in train[torch.randperm(len(train))].split(batch_size):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[some]), y[some]).backward()
            optimizer.step()
    return model


# %%
# Measure each network on the same hundred training samples, and count its errors.

rows = []
for lr, batch_size, seed in itertools.product((0.1, 0.3), (10, 40), range(5)):
    model = trained(lr, batch_size, seed)
    report = flatlab.measure(model, x[train[:100]])
    error = 100 * (model(x[test]).argmax(1) != y[test]).double().mean().item()
    row = {"lr": lr, "batch_size": batch_size, "seed": seed, "test_error": error}
    rows.append(row | {name: float(report[name]) for name in ("sharpness", "mls")})
networks = pd.DataFrame(rows)
print(networks.groupby(["lr", "batch_size"])[["sharpness", "mls", "test_error"]].mean().round(1))

# %%
# Over all networks, and within settings
# --------------------------------------
# The second correlation subtracts from each network the mean of its setting. What is left is what
# the seed alone does.

columns = ["sharpness", "mls", "test_error"]
within = networks[columns] - networks.groupby(["lr", "batch_size"])[columns].transform("mean")
for title, frame in (("all networks", networks), ("within settings", within)):
    print(f"{title:16}{frame['sharpness'].corr(frame['test_error']):6.2f}")

# %%
# The picture shows where the difference comes from: most of what one sees is a difference between
# settings, not between networks that were trained alike.

for (lr, batch_size), some in networks.groupby(["lr", "batch_size"]):
    label = f"learning rate {lr}, batch size {batch_size}"
    plt.plot(some["sharpness"], some["test_error"], "o", label=label)
plt.xlabel("sharpness S")
plt.ylabel("test error, %")
plt.legend(fontsize="small")
plt.show()

# %%
# Where to go on: :doc:`/own-networks` does the same from files, with intervals; :doc:`/statistics`
# explains the two correlations and when an interval is right.
