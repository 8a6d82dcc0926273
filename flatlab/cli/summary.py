"""Print the verdicts on the claims of each figure, and where to find figures and evidence."""

import argparse
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from flatlab import __version__, comparison, plan, scoreboard, store, text
from flatlab.cli import add_scale, load_plan

GROUP = "Look at results"
FEW = 3
"""How many claims the comparison with published verdicts names, of each kind of difference."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale)
    place = plan.built_at(chosen.config.scale)
    print(f"\nflatlab {__version__}, scale {chosen.config.scale}")
    built: list[Mapping[str, Any]] = []
    figures: list[plan.Figure] = []
    missing = 0
    for figure in itertools.chain(*chosen.papers.values()):
        picture = place.figure(figure.paper, figure.key, "pdf")
        verdicts = place.verdicts(figure.paper, figure.key)
        if not (picture.is_file() and verdicts.is_file()):
            if figure in chosen.figures:  # of other papers, only what is built is shown
                print(f"\n{figure.target}: not built; snakemake {figure.target}")
                missing += 1
            continue
        figures.append(figure)
        built.append(content := store.load_json(verdicts))
        print(f"\n{figure.target}: {figure.title}")
        for about in content["tables"].values():
            print(f"  {about['name']}: {about['extent']}; evidence: {about['evidence']}")
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
    if built:
        print(_as_published(chosen.config.scale, figures))
    return 0


def _as_published(scale: str, figures: Sequence[plan.Figure]) -> str:
    """A line on how the verdicts of built figures compare with the published ones."""
    there, here = (
        [place.verdicts(figure.paper, figure.key) for figure in figures]
        for place in (plan.published_at(scale), plan.built_at(scale))
    )
    published = [comparison.read(path) for path in there if path.is_file()]
    found = comparison.compare(published, map(comparison.read, here))
    same, other = len(found.agreeing), len(found.differing)
    if not same + other:
        return f"verdicts: none of them is published at scale {scale}"
    turns = (f"{a} -> {b}: {_some(ids)}" for (a, b), ids in found.turns.items())
    line = f"verdicts: {same} as published, {other} differ"
    line += f" ({'; '.join(turns)})" if other else ""
    line += f", {len(found.only_b)} not published" if found.only_b else ""
    folder = plan.built_at(scale).folder
    return f"{line}; flatlab compare {folder} shows them" if other else line


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - FEW} more" if len(ids) > FEW else ""
    return f"{', '.join(ids[:FEW])}{more}"
