"""Every figure and table of the papers, and its state."""

from __future__ import annotations

import argparse
from pathlib import Path

from flatlab import plan
from flatlab.cli import add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", help="of this paper alone")
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    scale = load_plan(options.scale).config.scale
    titles = {figure.target: figure.title for figure in plan.figures()}
    papers = list(dict.fromkeys(target.partition("_")[0] for target in plan.targets()))
    if options.paper and options.paper not in papers:
        raise plan.PlanError(
            f"unknown paper {options.paper!r}; {plan.closest(options.paper, papers)}"
        )
    states = []
    for target in plan.targets():
        paper, _, key = target.partition("_")
        if options.paper not in (None, paper):
            continue
        picture = Path("results", scale, "figures", paper, f"{key}.pdf")
        if reason := plan.why_not(target).removeprefix(f"{target} is "):
            state, text = "not here", reason
        else:
            state, text = "built" if picture.is_file() else "to build", titles[target]
        states.append(state)
        print(f"  {target:<28}{state:<10}{text}")
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    print(f"{len(states)} targets at scale {scale}: {counted}")
    print("snakemake TARGET builds one of them")
    return 0
