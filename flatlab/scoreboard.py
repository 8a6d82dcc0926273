"""The verdicts on all claims, figure by figure: for the terminal, the README and the report."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatlab.stats.verdict import counts
from flatlab.tables.published import with_tables

OUTCOMES = ("holds", "fails", "undecided", "not run")


def collect(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows by figure, and sums over all of them, from the verdicts of the figures."""
    rows = []
    for content in verdicts:
        outcomes = counts(claim["verdict"] for claim in content["claims"])
        scales = {about["scale"] for about in with_tables(content)["tables"].values()}
        rows.append({"target": content["target"], "scale": "/".join(sorted(scales)), **outcomes})
    sums = {o: sum(row.get(o, 0) for row in rows) for o in OUTCOMES}
    return {"figures": rows, "all": sums}


def as_text(board: Mapping[str, Any]) -> str:
    """A table for the terminal."""
    lines = [f"  {'claims':<24}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES)]
    for name, row in _rows(board):
        lines.append(f"  {name:<24}" + "".join(f"{row.get(o, 0) or '':>11}" for o in OUTCOMES))
    return "\n".join(lines)


def as_markdown(board: Mapping[str, Any]) -> str:
    """A table for the README."""
    lines = [f"| claims | {' | '.join(OUTCOMES)} |", "|---" * (1 + len(OUTCOMES)) + "|"]
    for name, row in _rows(board):
        numbers = " | ".join(str(row.get(outcome, 0) or "") for outcome in OUTCOMES)
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


def as_html(board: Mapping[str, Any], verdicts: Iterable[Mapping[str, Any]]) -> bytes:
    """A page for the report: the table, then each claim with its verdict and its numbers."""
    head = "".join(f"<th>{outcome}</th>" for outcome in OUTCOMES)
    body = "".join(
        f"<tr><td>{name}</td>"
        + "".join(f"<td>{row.get(o, 0) or ''}</td>" for o in OUTCOMES)
        + "</tr>"
        for name, row in _rows(board)
    )
    parts = [f"<table><tr><th></th>{head}</tr>{body}</table>"]
    for content in verdicts:
        parts.append(f"<h2>{content['target']}</h2><table>")
        for claim in content["claims"]:
            cells = (claim["id"].split("/")[1], claim["verdict"], claim["text"], _numbers(claim))
            parts.append(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in cells)}</tr>")
        parts.append("</table>")
    style = "body{font:14px sans-serif}td,th{padding:2px 10px;text-align:left;vertical-align:top}"
    page = f"<!doctype html><meta charset='utf-8'><style>{style}</style><h1>Claims</h1>"
    return (page + "".join(parts)).encode()


def _rows(board: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    rows = [(f"{row['target']} ({row['scale']})", row) for row in board["figures"]]
    return [*rows, ("all", board["all"])]


def _numbers(claim: Mapping[str, Any]) -> str:
    """The reason, or the comparisons with their values and intervals."""
    shown = [claim["reason"]] if claim["reason"] else []
    for e in claim["evidence"]:
        if e.get("value") is None:
            continue
        ends = [e.get("low"), e.get("high")]
        interval = f" [{ends[0]:.3g}, {ends[1]:.3g}]" if None not in ends else ""
        shown.append(f"{e['quantity']} {e.get('claim', '')}: {e['value']:.3g}{interval}")
    return "; ".join(shown)


def paths_of(scale: str, targets: Iterable[str]) -> list[Path]:
    """Where the verdicts of some figures lie."""
    place = Path("results", scale, "verdicts")
    parts = (target.partition("_") for target in targets)
    return [place / paper / f"{key}.json" for paper, _, key in parts]
