"""Two folders of results compared: verdicts, and the numbers that decide them."""

import itertools
import math

import pytest

from flatlab.lab.publish.compare import compare
from flatlab.lab.publish.scoreboard import OUTCOMES
from tests.synthetic.verdicts import claim, entry, verdicts


def compared(before, after):
    """One claim, of which both sides have a verdict and numbers."""
    sides = (verdicts("x_y", claim("x_y/c1", v, evidence=[*of])) for v, of in (before, after))
    return compare(*([side] for side in sides))


def moved(before, after):
    """How far the numbers of one claim moved."""
    return compared(("holds", before), ("holds", after)).agreeing[0].moved


def test_only_a_verdict_that_turns_into_its_opposite_is_an_error():
    pairs = itertools.product(OUTCOMES, repeat=2)
    turned = {(a, b) for a, b in pairs if compared((a, [entry()]), (b, [entry()])).reversal}
    assert turned == {("holds", "fails"), ("fails", "holds")}


THEOREM = {"quantity": "bound", "claim": "for every value", "violations": 0, "of": 9, "n": 3}
REPORTED = {"claim": "reported, not judged"}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (entry(0.5), entry(0.9, claim="< 0")),
        (entry(0.5), entry(0.9, quantity="rho(mls, test_loss)")),
        (entry(0.5, **REPORTED), entry(0.9, **REPORTED)),
        (entry(0.5), entry(None)),
        (entry(None), entry(0.5)),
        (entry(0.5, high=None), entry(0.9)),
        (THEOREM, THEOREM),
    ],
    ids=["claim", "quantity", "reported", "not finite in b", "not finite in a", "end", "theorem"],
)
def test_only_numbers_that_decide_the_claim_in_both_can_move(a, b):
    assert moved([a], [b]) is None
    assert compared(("holds", [a]), ("holds", [b])).most_moved is None


OTHER = {"quantity": "rho(mls, log_volume)"}


@pytest.mark.parametrize(
    ("a", "b", "size"),
    [
        # the largest of a claim, in half widths of the interval in A
        ([entry(0.5), entry(0.5, 0.01, **OTHER)], [entry(0.2, 0.7), entry(0.48, 0.7, **OTHER)], 3),
        ([entry(0.5), entry(0.9)], [entry(0.6), entry(0.9)], 1),  # of one name: in their order
        ([entry(0.5, 0)], [entry(0.5, 0)], 0),  # without width: not at all, or beyond measure
        ([entry(0.5, 0)], [entry(0.5 * (1 + 1e-13), 0)], 0),
        ([entry(0.5, 0)], [entry(0.51, 0)], math.inf),
    ],
)
def test_a_movement_is_counted_in_half_widths_of_the_interval_in_a(a, b, size):
    assert moved(a, b) == (pytest.approx(size), "rho(mls, nmls)")
