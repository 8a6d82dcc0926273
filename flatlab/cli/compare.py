"""Compare the verdicts of two folders of results.

Exit status: 0 if no verdict turns from holds to fails or back, 1 otherwise and for errors.
"""

import argparse
import functools
from pathlib import Path

from flatlab.cli._main import load_plan
from flatlab.core import text
from flatlab.lab import plan
from flatlab.lab.publish import compare

GROUP = "Look at results"
PUBLISHED = "published"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", type=Path, help="a folder such as results/demo")
    help_ = f"another one, or `{PUBLISHED}` (default): what is published at the scale of A"
    parser.add_argument("b", metavar="B", nargs="?", default=PUBLISHED, help=help_)


def run(options: argparse.Namespace) -> int:
    a = compare.load(options.a)
    other = plan.published_at(a.scale).folder if options.b == PUBLISHED else Path(options.b)
    b = compare.load(other)
    plan_of = functools.partial(load_plan, packs="all")
    origins = [compare.origins_of(each, plan_of) for each in (a, b)]
    compared = compare.compare(a.verdicts.values(), b.verdicts.values())
    print(f"A: {a.folder}, scale {a.scale}\nB: {b.folder}, scale {b.scale}")
    _print_verdicts(compared)
    for side, ids in (("A", compared.only_a), ("B", compared.only_b)):
        if ids:
            print(f"\nclaims only in {side}: {len(ids)}\n{text.table('<<', *_by_figure(ids))}")
    sentences = list(compare.experiments_that_differ(a, b, *origins))
    verb = "these experiments differ" if sentences else "no experiment differs"
    print(f"\n{verb} in settings or, where both have records, in code")
    if sentences:
        print(text.table("<", *([sentence] for sentence in sentences)))
    return int(compared.reversal)


def _print_verdicts(compared: compare.Comparison) -> None:
    counted = ", ".join(f"{count} {verdict}" for count, verdict in compared.counts)
    print(f"\nverdicts that agree: {len(compared.agreeing)}{f' ({counted})' if counted else ''}")
    if pair := compared.most_moved:
        print(f"  the number that moved most: {' '.join(_moved(pair.moved))}, of {pair.a['id']}")
    print(f"verdicts that differ: {len(compared.differing)}")
    if compared.differing:
        rows = []
        for pair in compared.differing:
            moved, quantity = _moved(pair.moved)
            reworded = "" if pair.a["text"] == pair.b["text"] else "the claims read differently"
            said = "; ".join(filter(None, (quantity, reworded)))
            rows.append((pair.a["id"], pair.a["verdict"], pair.b["verdict"], moved, said))
        print(text.table("<<<><", ("claim", "A", "B", "moved", "quantity"), *rows))
    print("moved: |value in B - value in A| over half the width of the interval in A")


def _moved(movement: compare.RelativeShift | None) -> tuple[str, str]:
    return (f"{movement.size:.2g}", movement.quantity) if movement else ("", "")


def _by_figure(ids: list[str]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for target, _, key in (each.partition("/") for each in ids):
        found.setdefault(target, []).append(key)
    return [(target, ", ".join(keys)) for target, keys in found.items()]
