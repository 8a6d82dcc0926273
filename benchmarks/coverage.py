"""How often nominal 95 % intervals cover, on which side they miss, and how wide they are.

    python -m benchmarks.coverage              all designs; the summary goes into docs/coverage.md
    python -m benchmarks.coverage tau zoo      those whose names contain one of these words

Every replicate draws new seeds of fixed settings and goes through `flatlab.stats` as a claim does.
The width is compared with that of an oracle that knows the distribution of the error on the scale
on which the interval is computed: [point - q(0.975), point - q(0.025)], q the quantiles of
point - truth over all replicates. Both are compared on the scale that is reported.
"""

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.designs import Design, designs
from flatlab.stats.verdict import TAIL

LEAST_COVERAGE = 0.92
MISSES = 0.003, 0.06
"""The least and the largest share of intervals that miss on each side."""
LARGEST_WIDTH = 1.3
"""The largest median of width / oracle's width; a mean of five has it by Student's t already."""

PAGE = Path("docs/coverage.md")
BEGIN, END = "<!-- table of benchmarks/coverage.py -->\n", "<!-- end of the table -->\n"


@dataclass(frozen=True)
class Coverage:
    """What the replicates of one design show.

    above, below: shares of intervals that lie wholly above and below the truth.  width: median of
    width / oracle's width, with its standard error; mean_width: ratio of the mean widths.  none:
    share of replicates whose interval is undefined or in doubt, which enter nothing else.
    """

    design: Design
    above: float
    below: float
    width: float
    width_error: float
    mean_width: float
    none: float
    missed: list[str] = field(default_factory=list)

    @property
    def covered(self) -> float:
        """The share of intervals that contain the truth."""
        return 1 - self.above - self.below


def simulate(design: Design) -> Coverage:
    """Draw its estimates; what misses a requirement is named in `missed`."""
    rng = np.random.default_rng(zlib.crc32(str(design).encode()))
    drawn = [design.draw(rng) for _ in range(design.replicates)]
    back = np.tanh if drawn[0].on_z else np.array
    rows = np.array([(e.point, *e.interval()) for e in drawn if not e.instability]).reshape(-1, 3)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        return Coverage(design, *[np.nan] * 5, none=1.0)
    truth = design.truth()
    above, below = (rows[:, 1] > back(truth)).mean(), (rows[:, 2] < back(truth)).mean()
    width, mean_width = _widths(rows, truth, back)
    draws = (rng.integers(len(rows), size=len(rows)) for _ in range(50))
    error = np.std([_widths(rows[draw], truth, back)[0] for draw in draws])
    bound = LARGEST_WIDTH + 2 * error * design.of_five
    requirements = {
        "coverage": 1 - above - below >= LEAST_COVERAGE,
        "above": MISSES[0] <= above <= MISSES[1],
        "below": MISSES[0] <= below <= MISSES[1],
        "width": width <= bound,
    }
    missed = [name for name, met in requirements.items() if not met]
    none = 1 - len(rows) / design.replicates
    return Coverage(design, above, below, width, error, mean_width, none, missed)


def _widths(rows: np.ndarray, truth: float, back: Callable[..., np.ndarray]) -> tuple[float, float]:
    """Median of width / oracle's width, and the ratio of means.  rows: (replicates, 3)."""
    point, low, high = rows.T
    least, most = np.quantile(point - truth, [TAIL, 1 - TAIL])
    oracle = back(point - least) - back(point - most)
    return float(np.median((high - low) / oracle)), float((high - low).mean() / oracle.mean())


def summary(found: list[Coverage]) -> Iterator[str]:
    """Markdown: a table, one row for each group of designs, and what misses a requirement."""
    groups: dict[str, list[Coverage]] = {}
    for one in found:
        groups.setdefault(one.design.group, []).append(one)
    names = ["coverage, %", "above, %", "below, %", "width", "mean width", "none, %"]
    yield f"| estimate | designs | {' | '.join(names)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for group, members in groups.items():
        cells = [group, str(len(members))]
        cells += [_range([100 * getattr(m, name) for m in members]) for name in SHARES]
        cells += [_range([getattr(m, name) for m in members], 2) for name in WIDTHS]
        cells.append(_range([100 * m.none for m in members], 0))
        yield f"| {' | '.join(cells)} |"
    yield ""
    missed = [one for one in found if one.missed]
    yield f"{len(found)} designs; {len(missed)} miss a requirement{':' if missed else '.'}"
    yield ""
    for one in missed:
        sides = f"{one.above:.1%} above, {one.below:.1%} below"
        widths = f"width {one.width:.2f} ± {one.width_error:.2f}"
        numbers = f"coverage {one.covered:.1%}, {sides}, {widths}"
        yield f"- {one.design} ({', '.join(one.missed)}): {numbers}"


SHARES, WIDTHS = ("covered", "above", "below"), ("width", "mean_width")


def _range(values: list[float], digits: int = 1) -> str:
    """The lowest and the highest, or the one that they are."""
    known = [value for value in values if np.isfinite(value)] or [np.nan]
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (min(known), max(known))))


def main() -> None:
    words, start, found = sys.argv[1:], time.perf_counter(), []
    header = f"{'coverage':>9}{'above':>8}{'below':>8}{'width':>14}{'mean':>7}{'none':>7}"
    print(f"{'':64}{header}")
    for design in designs():
        if words and not any(word in str(design) for word in words):
            continue
        one = simulate(design)
        found.append(one)
        shares = f"{one.covered:9.2%}{one.above:8.2%}{one.below:8.2%}"
        widths = f"{one.width:7.2f} ± {one.width_error:4.2f}{one.mean_width:7.2f}"
        missed = f"  MISSED: {', '.join(one.missed)}" if one.missed else ""
        print(f"{design!s:64}{shares}{widths}{one.none:7.1%}{missed}", flush=True)
    table = "".join(f"{line}\n" for line in summary(found))
    seconds = time.perf_counter() - start
    print(f"\n{table}\n{seconds:.0f} s")
    if not words:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
