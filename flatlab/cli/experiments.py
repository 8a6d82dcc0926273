"""List the experiments, or every key that their files may set."""

import argparse

from flatlab.cli import _text as text
from flatlab.cli._main import add_scale, load_plan
from flatlab.lab import plan

GROUP = "Plan and run"


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
        kinds = {each.kind for each in shown} if options.experiment else {*plan.kinds()}
        for kind, sections in plan.keys_of_kinds().items():
            if kind in kinds:
                print(f"\nKeys of a {kind}, by section:")
                for section, described in sections.items():
                    if described:  # some architectures have no options
                        print(f"\n{section}\n{text.table('<<<', *described)}")
        return 0
    for each in shown:
        lines = [f"{each.key} ({each.kind}, {each.scale}): {each.title}", *each.about]
        print("\n  ".join(lines))
    print("\nflatlab experiments --keys lists the keys that a file of each kind may set")
    return 0
