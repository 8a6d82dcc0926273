"""Print the verdicts on the claims of each figure, and where to find figures and evidence."""

import argparse
import itertools
from collections.abc import Mapping
from typing import Any

from flatlab import __version__, plan, scoreboard, store, text
from flatlab.cli import add_scale, load_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale)
    place = plan.built_at(chosen.config.scale)
    print(f"\nflatlab {__version__}, scale {chosen.config.scale}")
    built: list[Mapping[str, Any]] = []
    missing = 0
    for figure in itertools.chain(*chosen.papers.values()):
        picture = place.figure(figure.paper, figure.key, "pdf")
        verdicts = place.verdicts(figure.paper, figure.key)
        if not (picture.is_file() and verdicts.is_file()):
            if figure in chosen.figures:  # of other papers, only what is built is shown
                print(f"\n{figure.target}: not built; snakemake {figure.target}")
                missing += 1
            continue
        built.append(content := store.load_json(verdicts))
        print(f"\n{figure.target}: {figure.title}")
        for about in content["tables"].values():
            more = f"; stands in for {about['stands_in_for']}" if about["stands_in_for"] else ""
            print(f"  {about['name']}: {about['extent']}{more}")
        rows = []
        for claim in content["claims"]:
            rows.append((claim["verdict"], claim["id"].split("/")[1], claim["text"]))
            rows += [("", "", claim["reason"])] if claim["reason"] else []
        if rows:
            print(text.table("><<", *rows))
        print(f"  figure:   {picture} (also .svg, .png, and .csv with the numbers it shows)")
        print(f"  evidence: {verdicts}")
    if built:
        print(f"\n{scoreboard.as_text(scoreboard.collect(built))}")
    print(f"\n{len(built)} targets built, {missing} not; tables in {place.folder / 'tables'}")
    return 0
