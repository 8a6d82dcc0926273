"""Training curves as chen2026 compares them: at equal epochs, in halves of interpolation, late."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from flatlab.lab.tables.columns import in_words
from flatlab.lab.tables.curves import Curves, Window
from flatlab.lab.tables.eligibility import NotEligible, estimate, require
from flatlab.lab.tables.selection import INTERPOLATES
from flatlab.stats.estimate import Array, Estimate
from flatlab.stats.trends import difference
from flatlab.stats.verdict import Verdict, every

NEAR = 0.2
"""How far from a requested iteration, relative to it, the nearest checkpoint may lie."""


def excess(curves: Curves, name: str, samples: str, over: str) -> Estimate:
    """Mean over I of a quantity on some samples less that on others."""

    def of_runs() -> Array:
        more = curves.values(name, samples) - curves.values(name, over)
        runs, begins = curves.interpolating()
        inside = np.isfinite(more) & (np.arange(more.shape[1]) >= begins[:, None])
        runs &= inside.any(axis=1)
        return curves.enough(np.mean(more[runs], axis=1, where=inside[runs]), name)

    label = f"{name} on {samples} samples - {name} on {over} samples, mean over I"
    return curves.over_runs(label, of_runs)


def slowing(curves: Curves, name: str, share: float = 1.0) -> Estimate:
    """Size of the slope per iteration in the last half of I less a share of that before."""
    halves: tuple[Window, Window] = ("first half of I", "last half of I")

    def of_runs() -> Array:
        first, last = (
            np.array([np.polyfit(t, v[0], 1)[0] for t, v in curves.seen([name], half, "train")])
            for half in halves
        )
        return np.abs(last) - share * np.abs(first)

    first, last = (f"|slope({name}, {half})|" for half in halves)
    return curves.over_runs(f"{last} - {share:g} {first}", of_runs)


def change_in_last_half(curves: Curves, name: str) -> Estimate:
    """The relative change of a quantity over the last half of I."""

    def of_runs() -> Array:
        seen = curves.seen([name], "last half of I", "train")
        return np.array([values[0, -1] / values[0, 0] - 1 for _, values in seen])

    return curves.over_runs(f"relative change of {name} over the last half of I", of_runs)


def near(curves: Curves, iteration: float) -> int:
    """The position of the checkpoint nearest to an iteration."""
    steps = curves.runs["checkpoint"].values
    nearest = int(np.abs(steps - iteration).argmin())
    if abs(steps[nearest] - iteration) > NEAR * iteration:
        raise NotEligible(f"{curves.key} has no checkpoint near iteration {iteration:,.0f}")
    return nearest


def values_near(curves: Curves, iteration: float, name: str) -> Array:
    """A quantity near an iteration, of the runs that interpolate there: (runs)."""
    nearest = near(curves, iteration)
    runs = curves.values("train_loss")[:, nearest] < INTERPOLATES
    require(runs.sum(), curves, f"networks that interpolate near iteration {iteration:,.0f}")
    return curves.enough(curves.values(name)[runs, nearest], name)


def since(curves: Curves, iteration: int, name: str, relative: bool = False) -> Estimate:
    """Change of a quantity from an iteration to the end, mean over the runs."""

    def of_runs() -> Array:
        nearest = near(curves, iteration)
        if nearest == curves.runs.sizes["checkpoint"] - 1:
            raise NotEligible(f"{curves.key} has no checkpoint behind iteration {iteration:,}")
        ends = np.stack([curves.values(name)[:, nearest], curves.end(name)], axis=1)
        then, now = curves.enough(ends, name).T
        return now / then - 1 if relative else now - then

    label = f"{'relative ' if relative else ''}change of {name} since iteration {iteration:,}"
    return curves.over_runs(label, of_runs)


def until_interpolation(curves: Curves, name: str) -> Estimate:
    """A quantity at the beginning of I less the same at iteration 0."""

    def of_runs() -> Array:
        values, (runs, begins) = curves.values(name), curves.interpolating()
        change = values[np.arange(len(values)), begins] - curves.from_the_start(values)
        return curves.enough(change[runs], name)

    return curves.over_runs(f"{name} at the start of I - at 0", of_runs)


def difference_of_ends(a: Curves, b: Curves, name: str) -> Estimate:
    """Q(b) - Q(a), where Q is the mean over seeds at the end of training."""
    label = f"Q({name}; {in_words(b.selection)}) - Q({name}; {in_words(a.selection)}); {a.key}"
    return estimate(label, lambda: difference(label, *b.ends(name), *a.ends(name)))


def differences_at_equal_epochs(sweep: Sequence[Curves], name: str) -> Iterator[Estimate]:
    """As `difference_of_ends` from each batch size to the next, when all have seen as many samples.

    That is as many as the smallest batches have shown at the end of training.
    """
    smallest = min(float(curves.selection["batch_size"]) for curves in sweep)
    for a, b in pairwise(sweep):
        at = f"{name} at {in_words(b.selection)} - at {in_words(a.selection)}"
        label = f"{at}, equal epochs; {a.key}"

        def at_equal_epochs(
            larger: Curves = b, smaller: Curves = a, label: str = label
        ) -> Estimate:
            seen = smallest * max(larger.runs["checkpoint"].values)
            values = (
                values_near(curves, seen / float(curves.selection["batch_size"]), name)
                for curves in (larger, smaller)
            )
            return difference(label, *values)

        yield estimate(label, at_equal_epochs)


def monotonic(sweep: Sequence[Curves], name: str, rising: bool) -> Verdict:
    """The quantity rises, or falls, along the settings of a sweep.

    Its mean over seeds at the end of training does so at every step from a setting to the next.
    """
    steps = [difference_of_ends(a, b, name) for a, b in pairwise(sweep)]
    return every((step > 0) if rising else (step < 0) for step in steps)
