"""Claims about the bounds of sensitivity: the chain A <= B <= C <= D, MLS and NMLS.

They are theorems where no weights are shared, and proxies in convolutional networks: there the
violations are counted and not judged.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from flatlab.claims import Claim, Claims, Evidence
from flatlab.claims.curves import Curves
from flatlab.claims.judges import theorems
from flatlab.papers.chen2026._quantities import CENTRAL, GRIDS, MLP
from flatlab.stats import Estimate, Verdict, violations
from flatlab.tables.selection import end_of_training

CHAIN = {f"{a} <= {b}": (f"bound_{a.lower()}", f"bound_{b.lower()}") for a, b in pairwise("ABCD")}
OF_NMLS = {"NMLS <= NMLS bound": ("nmls", "nmls_bound")}
BOUNDED = {"MLS <= MLS bound": ("mls", "bound_d"), **OF_NMLS}
BY_NORM = {"bound_d": "d", "nmls_bound": "nmls"}
"""What these bounds are called in the quantity `bound_by_norm`."""


def looser(c: Curves, step: str, other: str) -> Estimate:
    """How much larger one distance in the chain is than another at the end: "D-C" than "B-A"."""
    names = [f"bound_{letter.lower()}" for letter in (*step.split("-"), *other.split("-"))]
    return c.mean_of_ends(f"({step}) - ({other})", lambda a, b, x, y: (a - b) - (x - y), *names)


def bounds_in_training(source: str, caption: str) -> Claims:
    """About the figures of A, B, C and D of one perceptron: the seeds of lr 0.1, batch size 20."""

    def last_is_loosest(e: Evidence) -> Verdict:
        curves = Curves(e, MLP, CENTRAL)
        return (looser(curves, "D-C", "B-A") > 0) & (looser(curves, "D-C", "C-B") > 0)

    return {
        "c1": Claim(
            "A <= B <= C <= D at every checkpoint of every run of lr 0.1, batch size 20",
            source,
            lambda e: theorems(CHAIN, Curves(e, MLP, CENTRAL).values),
        ),
        "c2": Claim("D - C > B - A and D - C > C - B at the end", caption, last_is_loosest),
    }


def of_perceptrons(e: Evidence) -> Verdict:
    """The theorems for fully connected networks."""
    values = partial(e.values, MLP)
    return theorems(CHAIN, values) & theorems(OF_NMLS, values)


def of_all_networks(e: Evidence) -> Verdict:
    """MLS and NMLS within their bounds: a theorem on the MLP grid, a number on the others."""
    verdict = theorems(BOUNDED, partial(e.values, MLP))
    others = [grid for grid in GRIDS if grid != MLP and grid in e.tables]
    return verdict.reporting(*(entry for grid in others for entry in counted(e, grid)))


def counted(e: Evidence, grid: str) -> Iterator[dict[str, Any]]:
    """Networks of a grid that violate a bound at the end, for each norm of a kernel measured."""
    table = end_of_training(e.table(grid))
    for text, (name, bound) in BOUNDED.items():
        if name not in table:
            continue
        found = {"kernel": table[bound]} if bound in table else {}
        if "bound_by_norm" in table:
            by_norm = table["bound_by_norm"].sel(bound=BY_NORM[bound])
            found = {str(norm): by_norm.sel(norm=norm) for norm in table["norm"].values}
        for norm, limits in found.items():
            count = violations(f"{text}, {norm} norm; {grid}", table[name], limits)
            if count["of"]:
                yield count
