"""List every figure and table of the papers, and whether it is built."""

import argparse
from collections import Counter

from flatlab.cli import _text as text
from flatlab.cli._main import add_scale, load_plan
from flatlab.lab import plan

GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", help="list only the figures of this paper")
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    scale = load_plan(options.scale).config.scale
    if options.paper and options.paper not in (papers := plan.papers()):
        hint = plan.closest(options.paper, papers)
        raise plan.PlanError(f"unknown paper {options.paper!r}; {hint}")
    titles = {figure.target: figure.title for figure in plan.figures()}
    rows = []
    for target in plan.targets():
        paper, _, key = target.partition("_")
        if options.paper not in (None, paper):
            continue
        if reason := plan.why_not(target).removeprefix(f"{target} is "):
            rows.append((target, "not here", reason))
        else:
            is_built = plan.built_at(scale).figure(paper, key, "pdf").is_file()
            rows.append((target, "built" if is_built else "to build", titles[target]))
    states = Counter(state for _, state, _ in rows)
    print(text.table("<<<", *rows))
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    print(f"{len(rows)} targets at scale {scale}: {counted}")
    print(f"build one of them with: {plan.command(scale, 'TARGET')}")
    return 0
