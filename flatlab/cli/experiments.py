"""List the experiments, or every key that their files may set."""

import argparse

from flatlab import plan, text
from flatlab.cli import add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="list only this one")
    help_ = "list the keys that experiments of each kind may set"
    parser.add_argument("--keys", action="store_true", help=help_)
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
    print("\nflatlab experiments --keys lists the keys that a file of each kind may set")
    return 0


def _print_keys(kinds: set[str]) -> None:
    for kind, sections in plan.keys_of_kinds().items():
        if kind in kinds:
            print(f"\nKeys of a {kind}, by section:")
            for section, keys in sections.items():
                if keys:  # some architectures have no options
                    print(f"\n{section}\n{text.table('<<<', *keys)}")
