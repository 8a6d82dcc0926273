"""
5. Rebuild one figure
=====================

*For whoever wants to see where a number of a paper comes from. You will have built a figure, its
verdicts and a variant of it. Ten minutes.*

Every figure is a target: one command builds it, with everything it needs. The commands below are
run in a clone of the project, after ``make`` and ``source .venv/bin/activate``.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd


def sh(command, lines=100):
    """Run a command in the project's folder, and print what it says."""
    words = [sys.executable, "-m", *shlex.split(command)]
    root = next(p for p in (Path.cwd(), *Path.cwd().parents) if (p / "Snakefile").exists())
    run = subprocess.run(words, capture_output=True, text=True, cwd=root)
    print(f"$ {command}")
    print("\n".join(run.stdout.strip().splitlines()[:lines]))
    return root


# %%
# What would it take?
# -------------------
# ``flatlab estimate`` answers before anything runs.

root = sh("flatlab estimate petzka2021_fig4")

# %%
# Build it
# --------
# ``snakemake petzka2021_fig4`` simulates, draws and judges in half a minute. Nothing else is
# computed, and a second call finds nothing to do. The published result of this figure is in the
# clone already, so we read that one here:

folder = root / "results/published/paper/figures/petzka2021"
plt.figure(figsize=(8, 5))
plt.imshow(plt.imread(folder / "fig4.png"))
plt.axis("off")
plt.show()

# %%
# What is drawn
# -------------
# Beside each picture lies a CSV with exactly the numbers that it shows.

print(pd.read_csv(folder / "fig4.csv").head().round(3))

# %%
# What it says
# ------------
# ``flatlab summary petzka2021_fig4`` prints each claim of the paper about this figure, with its
# verdict and what the verdict rests on. ``snakemake -n`` lists what an edit would run again.
#
# Change one setting
# ------------------
# ``papers/petzka2021/experiments`` holds the settings, one file for each experiment. Change a
# number, call ``snakemake petzka2021_fig4`` again, and only the jobs that use it run.
# ``snakemake petzka2021_fig4 --config scale=paper`` builds the figure as published.
#
# Where to go on: :doc:`/figures/gallery` shows all figures, :doc:`/statistics` says what a verdict
# means, and :doc:`/files` what is stored where.
