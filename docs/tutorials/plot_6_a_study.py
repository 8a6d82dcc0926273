"""
6. Your first study
===================

*For whoever has a question of their own. You will have a folder that trains networks, draws two
figures and judges a claim. Ten minutes, then one for the machine.*

A study is a folder with experiments, figures and claims. The papers are such folders too.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt


def flatlab(*words):
    """Run a command of flatlab, and print the last lines of what it says."""
    said = subprocess.run([sys.executable, "-m", "flatlab", *words], capture_output=True, text=True)
    print(f"$ flatlab {' '.join(words)}")
    print("\n".join(said.stdout.strip().splitlines()[-12:]))


# %%
# Make the folder
# ---------------

docs = Path.cwd().parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(docs.parent), os.environ.get("PYTHONPATH", "")])
folder = tempfile.mkdtemp()
with contextlib.chdir(folder):
    flatlab("new", "my-study")

# %%
# It holds an example that runs. ``experiments/mystudy-grid.yaml`` says which networks are trained:

print((Path(folder) / "my-study/experiments/mystudy-grid.yaml").read_text())

# %%
# ``figures.py`` says what is drawn, ``claims.py`` what is claimed:

print((Path(folder) / "my-study/claims.py").read_text())

# %%
# Build it
# --------
# ``flatlab build`` in that folder trains twenty networks, measures them, draws and judges, in about
# a minute. ``flatlab build -n`` says what would run. The first figure then looks so:

plt.figure(figsize=(8, 5))
plt.imshow(plt.imread(docs / "_static/study/fig1.png"))
plt.axis("off")
plt.show()

# %%
# Now edit: another ``lr`` in the experiment trains its networks and no others; another title in
# ``figures.py`` draws one figure.
#
# Where to go on: :doc:`/studies` has experiments of each kind. :doc:`/adding` has a data set, an
# architecture, a measure, a figure and a claim, each with an example.
