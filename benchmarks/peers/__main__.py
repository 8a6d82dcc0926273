"""What other libraries do, tried: `python -m benchmarks.peers` prints the table of docs/peers.md.

A cell is a function that calls the library on a small network and compares with what is written
out. Where there is none, the library has no name with certain words, of which each row has some;
the cell is a question mark if it has. A library that is not installed is left out.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

import torch

from benchmarks.peers.names import sources, words
from benchmarks.peers.problem import Problem, Transformer

LIBRARIES = {
    "flatlab": ("flatlab", "of_flatlab"),
    "hessian-eigenthings": ("hessian_eigenthings", "of_eigenthings"),
    "curvlinops-for-pytorch": ("curvlinops", "of_curvlinops"),
    "PyHessian": ("pyhessian", "of_pyhessian"),
    "Landscaper": ("landscaper", "of_landscaper"),
}
"""By name of the distribution: how it is imported, and the module here that tries it."""
ROWS = {
    "largest eigenvalues of H": "",
    "smallest eigenvalues of H": "smallest which",
    "eigenvalues of H of largest modulus": "",
    "of Gauss-Newton": "gauss newton ggn gnh",
    "of the Fisher matrix": "fisher",
    "of the empirical Fisher": "fisher ef",
    "of one layer": "",
    "residual of each": "residual residuals converged",
    "eigenvectors": "",
    "density of the eigenvalues": "",
    "its standard error": "error errors stderr std sem",
    "products with an inverse": "kfac cg lsmr neumann",
    "loss on a random line": "landscape direction directions",
    "on a random plane": "landscape direction directions",
    "directions normalized by filters": "landscape filters filterwise",
    "on a plane of top eigenvectors": "landscape direction directions",
    "on a plane through networks": "landscape interpolate interpolation",
    "barriers between networks": "barrier barriers connectivity",
    "in three dimensions": "landscape direction directions",
    "topology of a landscape": "topology persistence",
    "picture of a spectrum": "plot plots figure picture pictures",
    "picture of a landscape": "plot plots figure picture pictures",
    "tracker that leaves a run the same": "tracker track callback callbacks",
    "leaves mode and gradients": "",
    "batches of 12, 12 and 6 samples": "",
    "batch that is a dictionary": "",
    "network of transformers, its batch": "",
    "wrong second derivative is found": "",
}
"""With the words of names that a library without it does not have."""


def cell(library: str, module: str, row: str, problem: Problem, known: dict[str, str]) -> str:
    tries: dict[str, Callable[[Any], Any]]
    tries = importlib.import_module(f"benchmarks.peers.{module}").TRIES
    if row not in tries:
        there = [known[word] for word in ROWS[row].split() if word in known]
        return f"? {there[0]}" if there or not ROWS[row] else "no name"
    given: Any = problem
    if "transformers" in row:
        if importlib.util.find_spec("transformers") is None:
            return ""
        given = Transformer()
    try:
        torch.manual_seed(0)
        said = tries[row](given)
    except Exception as error:  # of whatever a library raises
        lines = str(error).splitlines() or [""]
        return f"no: `{type(error).__name__}: {lines[0][:70]}`"
    return said if isinstance(said, str) else "yes" if said else "no"


def main() -> None:
    warnings.simplefilter("ignore")
    there = {name: at for name, at in LIBRARIES.items() if importlib.util.find_spec(at[0])}
    print("| |", " | ".join(there), "|")
    print("|---" * (len(there) + 1) + "|")
    problem, known = Problem(), {at[0]: words(at[0]) for at in there.values()}
    for row in ROWS:
        cells = [cell(*at, row, problem, known[at[0]]) for at in there.values()]
        print(f"| {row} |", " | ".join(cells), "|", flush=True)
    print()
    for name, (library, _) in there.items():
        count = f"{len(sources(library))} files, {len(known[library])} words in their names"
        print(f"{name} {importlib.metadata.version(name)}: {count}")
    missing = [name for name in LIBRARIES if name not in there]
    if missing:
        print("Not installed, and left out:", ", ".join(missing))


if __name__ == "__main__":
    main()
