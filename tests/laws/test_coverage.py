"""Nominal 95 % intervals cover, miss on both sides, and are not wide for it: decisive designs.

`python -m benchmarks.coverage` simulates many more.
"""

from dataclasses import replace

import pytest

from benchmarks import designs
from benchmarks.coverage import simulate

DECISIVE = (
    "pooled, 3 x 5: rho 0.9, spread 0, t4",
    "within, 3 x 5: rho 0.9, spread 1, t4",
    "pooled, 5 x 5: rho 0.5, spread 0, normal",
    "pooled, 5 x 5: rho 0.0, spread 0, t4",
    "pooled, 5 x 5: rho 0.9, spread 0, t4",
    "adjusted, 5 x 5: rho 0.5, spread 1, normal",
    "difference, pooled, 5 x 5: rho 0.9 - 0.5, t4",
    "mean of 5: normal",
    "difference of means of 5 and 5: deviations 1 and 5, normal",
    "rise over 3 settings of 5: unequal deviations, t4",
    "tau of 20 checkpoints, mean of 5 runs: slope 1, memory 0.9, normal",
    "tau of 25 networks: rho 0.5, normal",
    "zoo of 13 x 2: intraclass 0.5, rho 0.5, normal",
)
KNOWN = {str(design): design for design in designs.designs()}


@pytest.mark.parametrize("name", DECISIVE)
def test_an_interval_covers_the_truth_as_often_as_it_says(name):
    found = simulate(replace(KNOWN[name], replicates=2_000))
    assert not found.missed, found
