"""The experiments, and every key that one may set."""

from __future__ import annotations

import argparse

from flatlab import plan
from flatlab.cli import add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="this one alone")
    parser.add_argument(
        "--keys", action="store_true", help="the keys that a file of each kind may set instead"
    )
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale, packs="all")
    keys = [options.experiment] if options.experiment else list(chosen.experiments)
    shown = [chosen.experiment(key) for key in keys]
    if options.keys:
        _print_keys({each.kind for each in shown} if options.experiment else set(plan.kinds()))
        return 0
    for experiment in shown:
        print(f"{experiment.key} ({experiment.kind}, {experiment.scale}): {experiment.title}")
        for line in experiment.about:
            print(f"  {line}")
    print("\nflatlab experiments --keys lists what a file of each kind may set")
    return 0


def _print_keys(kinds: set[str]) -> None:
    for kind, sections in plan.keys_of_kinds().items():
        if kind not in kinds:
            continue
        print(f"\nKeys of a {kind}, one section after the other:")
        for section, keys in sections.items():
            if not keys:
                continue  # an architecture without options
            print(f"\n{section}")
            for key, allowed, meaning in keys:
                print(f"  {key:<23} {allowed:<43} {meaning}")
