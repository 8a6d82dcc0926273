"""
3. Spectra and landscapes
=========================

*For whoever wants to see curvature, not only its largest value. You will have a spectral density,
a landscape and a barrier. Ten minutes.*
"""

import matplotlib.pyplot as plt
import torch

import flatlab

torch.manual_seed(0)
x, y = torch.randn(200, 10), torch.randint(3, (200,))


def trained(seed, steps=300):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.Linear(20, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


start, one, two = trained(0, steps=0), trained(0), trained(1)

# %%
# A spectrum
# ----------
# The family *spectrum* finds eigenvalues at both ends, each with a residual, and the density of all
# eigenvalues from random starts.

options = {"families": "spectrum", "loss": "cross-entropy", "density_probes": 10}
before, after = (flatlab.measure(m, x, y, **options) for m in (start, one))
for title, report in (("before", before), ("after", after)):
    top = report["largest_eigenvalue"].sel(block="network", matrix="hessian")
    print(f"{title} training, largest eigenvalues:", top.values[:4].round(3))

# %%
# Training leaves most eigenvalues near zero and pulls a few outliers away.

for title, report in (("before", before), ("after", after)):
    here = report.sel(block="network", matrix="hessian")
    plt.semilogy(here["density_at"], here["spectral_density"].clip(min=1e-3), label=title)
plt.xlabel("eigenvalue of the Hessian")
plt.ylabel("density")
plt.legend()
plt.show()

# %%
# A landscape
# -----------
# The loss on a line through the network: along the first eigenvector the walls are steep, along a
# random direction they are not. Random directions are rescaled filter by filter.

for along in ("eigenvectors", "random"):
    line = flatlab.landscape(one, x, y, along=along, points=21, loss="cross-entropy")
    plt.plot(line["first"], line["loss"], "o-", label=along)
plt.xlabel("coordinate along the direction")
plt.ylabel("loss")
plt.legend()
plt.show()

# %%
# A barrier
# ---------
# Between two networks from different seeds the loss rises above the straight line between both
# ends. The largest rise is the barrier.

found = flatlab.barriers([one, two], x, y, loss="cross-entropy")
print(f"barrier: {float(found['barrier'].sel(network='0', other='1')):.2f}")

# %%
# Where to go on: :doc:`/spectra` and :doc:`/landscapes` have all options.
