"""Targets, verdicts, and where to look."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flatlab import __version__, scoreboard, store
from flatlab.cli import add_scale, load_plan
from flatlab.tables.published import with_tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale)
    folder = Path("results", chosen.config.scale)
    print(f"\nflatlab {__version__}, scale {chosen.config.scale}")
    built: list[Mapping[str, Any]] = []
    for figure in chosen.figures:
        picture = folder / "figures" / figure.paper / f"{figure.key}.pdf"
        verdicts = folder / "verdicts" / figure.paper / f"{figure.key}.json"
        if not (picture.is_file() and verdicts.is_file()):
            print(f"\n{figure.target}: not built; snakemake {figure.target}")
            continue
        built.append(with_tables(store.load_json(verdicts)))
        print(f"\n{figure.target}: {figure.title}")
        _print_verdicts(built[-1])
        print(f"  figure:   {picture} (also .svg, .png, and .csv: exactly what is drawn)")
        print(f"  evidence: {verdicts}")
    if built:
        print("\n" + scoreboard.as_text(scoreboard.collect(built)))
    print(f"\n{len(built)} of {len(chosen.figures)} targets built; tables in {folder / 'tables'}")
    return 0


def _print_verdicts(content: Mapping[str, Any]) -> None:
    """What a figure was drawn from, and each claim with its verdict."""
    for about in content["tables"].values():
        more = f"; stands in for {about['stands_in_for']}" if about["stands_in_for"] else ""
        print(f"  {about['name']}: {about['extent']}{more}")
    keys = [claim["id"].split("/")[1] for claim in content["claims"]]
    width = max([8, *(len(key) + 2 for key in keys)])
    for key, claim in zip(keys, content["claims"], strict=True):
        print(f"  {claim['verdict']:>9}  {key:<{width}}{claim['text']}")
        if claim["reason"]:
            print(f"{'':{13 + width}}{claim['reason']}")
