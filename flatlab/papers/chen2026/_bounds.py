"""Claims of chen2026 and chen2024 about the bounds of sensitivity.

The bounds of sensitivity, A <= B <= C <= D, MLS and NMLS, are theorems where no weights are shared,
and proxies in convolutional networks: there the violations are counted and not judged.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from flatlab.claims import Evidence, FigureClaims, states
from flatlab.claims.curves import Curves
from flatlab.claims.evidence import Array, Pair, attempt
from flatlab.papers.chen2026._shared import CENTRAL, MLP, Lines
from flatlab.stats import Estimate, Verdict, every, not_run, theorem, violations
from flatlab.tables.selection import end_of_training

CHAIN = {f"{a} <= {b}": (f"bound_{a.lower()}", f"bound_{b.lower()}") for a, b in pairwise("ABCD")}
OF_NMLS = {"NMLS <= NMLS bound": ("nmls", "nmls_bound")}
BOUNDED = {"MLS <= MLS bound": ("mls", "bound_d"), **OF_NMLS}
BY_NORM = {"bound_d": "d", "nmls_bound": "nmls"}
"""What these bounds are called in the quantity `bound_by_norm`."""


def theorems(pairs: Mapping[str, Pair], values: Callable[[str], Array]) -> Verdict:
    """Inequalities that hold for every value.

    pairs: text -> names of the smaller and the larger quantity.  values: name -> (runs, ...).
    """
    return attempt(
        lambda: every(theorem(text, values(a), values(b)) for text, (a, b) in pairs.items()),
        not_run,
    )


def in_training(caption: str, repeats: str = "") -> FigureClaims:
    """About the figures of A, B, C and D of one perceptron: the seeds of lr 0.1, batch size 20."""

    def looser(c: Curves, step: str, other: str) -> Estimate:
        """How much larger one distance is than another at the end: "D-C" than "B-A"."""
        names = [f"bound_{letter.lower()}" for letter in (*step.split("-"), *other.split("-"))]

        def of_runs() -> Array:
            a, b, x, y = c.ends(*names, interpolating=False)
            return (a - b) - (x - y)

        return c.over_runs(f"({step}) - ({other}) at the end", of_runs)

    def again(key: str) -> str:
        return f"{repeats}/{key}" if repeats else ""

    line = Lines(MLP, [CENTRAL])
    return {
        "c1": line.each(
            "A <= B <= C <= D at every checkpoint of every run of lr 0.1, batch size 20",
            caption,
            lambda c: theorems(CHAIN, c.values),
            quote="We empirically verify that the inequalities [...] hold",
            nature="theorem",
            repeats=again("c1"),
        ),
        "c2": line.each(
            "D - C > B - A and D - C > C - B at the end",
            caption,
            lambda c: (looser(c, "D-C", "B-A") > 0) & (looser(c, "D-C", "C-B") > 0),
            quote="the gap between C and D is large compared to the gap between A and B or B and C",
            repeats=again("c2"),
        ),
    }


@states(
    "A <= B <= C <= D and NMLS <= NMLS bound, for every network",
    "caption of Fig. H.6, Prop. 3.10",
    quote="We empirically verify that the inequalities in Equation (59) hold",
    nature="theorem",
)
def of_perceptrons(e: Evidence) -> Verdict:
    values = partial(e.values, MLP)
    return theorems(CHAIN, values) & theorems(OF_NMLS, values)


@states(
    "MLS <= MLS bound and NMLS <= NMLS bound for every perceptron (others are counted)",
    "Prop. 3.8, 3.10",
    quote="The maximum local sensitivity is upper bounded by a sharpness-related quantity",
    nature="theorem",
)
def of_all_networks(e: Evidence) -> Verdict:
    """MLS and NMLS within their bounds: a theorem on the MLP grid, a number on the others."""
    verdict = theorems(BOUNDED, partial(e.values, MLP))
    others = [grid for grid in e.tables if grid != MLP]
    return verdict.reporting(*(entry for grid in others for entry in counted(e, grid)))


def counted(e: Evidence, grid: str) -> Iterator[dict[str, Any]]:
    """Networks of a grid that violate a bound at the end, for each norm of a kernel measured."""
    table = end_of_training(e.tables[grid])  # reported, so that it is not evidence that was used
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
