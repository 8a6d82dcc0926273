"""Print the verdicts of what is built, or, for figures and papers by name, their claims."""

import argparse
import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from flatlab import __version__
from flatlab.cli._main import WIDTH, add_scale, load_plan
from flatlab.core import text
from flatlab.lab import plan
from flatlab.lab.figures.labels import extent_of, two_digits
from flatlab.lab.publish import compare
from flatlab.lab.publish.publish import figures_named
from flatlab.lab.publish.scoreboard import Board
from flatlab.lab.verdict_files import decided_by, read_verdicts

PUBLISHED = "published"

OF_A_DEMO = """\
Those of papers are small networks, mostly on handwritten digits. They show
that the workflow runs, not what holds: that is in FINDINGS.md."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "figures or papers; prints each of their claims, with the evidence"
    parser.add_argument("name", nargs="*", help=help_)
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale)
    scale = chosen.config.scale
    known = [figure for figures in chosen.papers.values() for figure in figures]
    built = [figure for figure in known if _is_built(figure, scale)]
    named = [figure for name in options.name for figure in figures_named(name, built, chosen)]
    print(f"\nflatlab {__version__}, scale {scale}")
    if named:
        print("\n".join(line for figure in named for line in _claims(figure, scale)))
        return 0
    place = plan.built_at(scale)
    compared = _as_published(scale, built)
    if built:
        board = Board(read_verdicts(place.verdicts(f.paper, f.key)) for f in built)
        changed = {pair.a["id"].partition("/")[0] for pair in compared.differing}
        print(f"\n{_as_text(board, changed)}")
        if changed:
            print("  * verdicts differ from the published ones")
    # Of papers that config.yaml does not name, only what is built counts.
    missing = [figure.target for figure in chosen.figures if figure not in built]
    if missing:
        said = f"not built: {', '.join(missing)}; build one with: {plan.command(scale, missing[0])}"
        print(f"\n{text.table('<', [said], width=WIDTH)}")
    print(f"\n{len(built)} targets built, {len(missing)} not; tables in {place.folder / 'tables'}")
    if built:
        print(f"pictures (.pdf, .svg, .png) and their numbers (.csv): {place.folder / 'figures'}")
        print(f"the claims of a figure or a paper: flatlab summary {built[0].target}")
        print(OF_A_DEMO if scale == "demo" else "what was found: FINDINGS.md")
        print(_in_words(compared, scale))
    return 0


def add_arguments_figures(parser: argparse.ArgumentParser) -> None:
    add_scale(parser)


def run_figures(options: argparse.Namespace) -> int:
    """List every figure and table of the papers, and whether it is built."""
    scale = load_plan(options.scale).config.scale
    titles = {figure.target: figure.declared.title for figure in plan.figures()}
    rows = []
    for target in plan.targets():
        paper, _, key = target.partition("_")
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


def _is_built(figure: plan.Figure, scale: str) -> bool:
    place = plan.built_at(scale)
    picture = place.figure(figure.paper, figure.key, "pdf")
    return picture.is_file() and place.verdicts(figure.paper, figure.key).is_file()


def _claims(figure: plan.Figure, scale: str) -> Iterator[str]:
    """Tables, verdicts with reasons, and files of one figure, in lines."""
    place = plan.built_at(scale)
    path = place.verdicts(figure.paper, figure.key)
    content = read_verdicts(path)
    yield f"\n{figure.target}: {figure.declared.title}"
    for about in content["tables"].values():
        yield f"  {about['name']}: {extent_of(about)}; evidence: {about['evidence']}"
    rows: list[tuple[str, str, str]] = []
    for claim in content["claims"]:
        rows.append((claim["verdict"], claim["id"].split("/")[1], claim["text"]))
        rows += [("", "", claim["reason"])] if claim["reason"] else []
        number: Any = decided_by(claim)
        if number:
            value, low, high = (two_digits(number[key]) for key in ("value", "low", "high"))
            rows.append(("", "", f"{value} [{low}, {high}], n = {number['n']}"))
    if rows:
        yield text.table("><<", *rows)
    picture = place.figure(figure.paper, figure.key, "pdf")
    yield f"  figure:   {picture} (also .svg, .png, and .csv with the numbers it shows)"
    yield f"  evidence: {path}"


def _as_published(scale: str, figures: Sequence[plan.Figure]) -> compare.Comparison:
    """The published verdicts of built figures compared with theirs."""
    published_paths, built_paths = (
        [place.verdicts(figure.paper, figure.key) for figure in figures]
        for place in (plan.published_at(scale), plan.built_at(scale))
    )
    published = [read_verdicts(path) for path in published_paths if path.is_file()]
    return compare.compare(published, map(read_verdicts, built_paths))


def _in_words(compared: compare.Comparison, scale: str) -> str:
    same, other = len(compared.agreeing), len(compared.differing)
    if not same + other:
        return f"verdicts: none of them is published at scale {scale}"
    turns = (f"{a} -> {b}: {text.some(ids)}" for (a, b), ids in compared.turns.items())
    line = f"verdicts: {same} as published, {other} differ"
    line += f" ({'; '.join(turns)})" if other else ""
    line += f", {len(compared.only_b)} not published" if compared.only_b else ""
    folder = plan.built_at(scale).folder
    return f"{line}; flatlab compare {folder} shows them" if other else line


def _as_text(board: Board, marked: Collection[str] = ()) -> str:
    """Tables for a terminal of 80 columns, without rows and columns that are empty.

    marked: the figures that get an asterisk.
    """
    (_, *head), *rows = board.by_figure
    figures = [["findings", *head[:-1], "others"]]
    for name, *cells in rows:
        target, _, _ = name.partition(" ")
        figures.append([f"{target} *" if target in marked else target, *cells])
    shown = [i for i, column in enumerate(zip(*figures, strict=True)) if any(column[1:])]
    figures = [[row[i] for i in shown] for row in figures]
    groups = [[name.partition(":")[0], *counts] for name, *counts in board.by_group]
    groups = [groups[0], *(row for row in groups[1:] if any(row[1:]))]
    own = [board.headline] if any(board.counts["own"].values()) else []
    tables = [text.table("<<>>>>>"[: len(shown)], *figures), text.table("<>>>>", *groups)]
    lines = [[line] for line in (*board.survivors, *board.cautions, *own)]
    return "\n\n".join([*tables, *([text.table("<", *lines, width=WIDTH)] if lines else [])])


def add_arguments_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", type=Path, help="a folder such as results/demo")
    help_ = f"another one, or `{PUBLISHED}` (default): what is published at the scale of A"
    parser.add_argument("b", metavar="B", nargs="?", default=PUBLISHED, help=help_)


def run_compare(options: argparse.Namespace) -> int:
    """Compare the verdicts of two folders of results.

    Exit status: 0 if no verdict turns from holds to fails or back, 1 otherwise and for errors.
    """
    a = compare.load(options.a)
    other = plan.published_at(a.scale).folder if options.b == PUBLISHED else Path(options.b)
    b = compare.load(other)
    plan_of = functools.partial(load_plan, packs="all")
    code = [compare.code_of(each, plan_of) for each in (a, b)]
    compared = compare.compare(a.verdicts.values(), b.verdicts.values())
    print(f"A: {a.folder}, scale {a.scale}\nB: {b.folder}, scale {b.scale}")
    _print_verdicts(compared)
    for side, ids in (("A", compared.only_a), ("B", compared.only_b)):
        by_figure = itertools.groupby(ids, lambda each: each.partition("/")[0])
        rows = [(f, ", ".join(each.partition("/")[2] for each in of)) for f, of in by_figure]
        if rows:
            print(f"\nclaims only in {side}: {len(ids)}\n{text.table('<<', *rows)}")
    sentences = list(compare.experiments_that_differ(a, b, *code))
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
