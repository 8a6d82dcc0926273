"""Quantities at the end of training along a sweep: from a setting to the next."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from flatlab.lab.tables.columns import in_words
from flatlab.lab.tables.curves import Curves
from flatlab.lab.tables.eligibility import estimate
from flatlab.stats.estimate import Estimate
from flatlab.stats.trends import difference
from flatlab.stats.verdict import Verdict, every


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
                curves.at(seen / float(curves.selection["batch_size"]), name)
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
