"""Verdicts counted by figure, for the terminal, the README and the report."""

import html
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from flatlab import text
from flatlab.stats.verdict import Outcome

OUTCOMES = get_args(Outcome)


def collect(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the verdicts of each figure and of all figures together."""
    rows = []
    for content in verdicts:
        outcomes = [claim["verdict"] for claim in content["claims"]]
        scales = {about["scale"] for about in content["tables"].values()}
        counts = {o: outcomes.count(o) for o in OUTCOMES if o in outcomes}
        rows.append({"target": content["target"], "scale": "/".join(sorted(scales)), **counts})
    sums = {o: sum(row.get(o, 0) for row in rows) for o in OUTCOMES}
    return {"figures": rows, "all": sums}


def as_text(board: Mapping[str, Any]) -> str:
    """A table for the terminal."""
    return text.table("<" + ">" * len(OUTCOMES), *_cells(board))


def as_markdown(board: Mapping[str, Any]) -> str:
    """A table for the README."""
    head, *lines = (f"| {' | '.join(row)} |" for row in _cells(board))
    return "\n".join([head, "|---" * (1 + len(OUTCOMES)) + "|", *lines])


def as_html(board: Mapping[str, Any], verdicts: Iterable[Mapping[str, Any]]) -> bytes:
    """A page for the report: the table, then every claim with its verdict and its numbers."""
    style = "body{font:14px sans-serif}td{padding:2px 10px;vertical-align:top}"
    style += "h1+table tr:first-child{font-weight:bold}"
    head = f"<!doctype html><meta charset='utf-8'><style>{style}</style><h1>Claims</h1>"
    parts = [head, _table(_cells(board))]
    for content in verdicts:
        claims = content["claims"]
        rows = [(c["id"].split("/")[1], c["verdict"], c["text"], _numbers(c)) for c in claims]
        parts.append(f"<h2>{content['target']}</h2>{_table(rows)}")
    return "".join(parts).encode()


def _cells(board: Mapping[str, Any]) -> list[list[str]]:
    """The head, a row for each figure and one for all; zeros are left empty."""
    named = {f"{row['target']} ({row['scale']})": row for row in board["figures"]}
    named["all"] = board["all"]
    rows = ([name, *(str(row.get(o) or "") for o in OUTCOMES)] for name, row in named.items())
    return [["claims", *OUTCOMES], *rows]


def _table(rows: Iterable[Iterable[str]]) -> str:
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _numbers(claim: Mapping[str, Any]) -> str:
    """The reason for a verdict, and each comparison with its value and its interval."""
    shown = [claim["reason"]] if claim["reason"] else []
    for e in claim["evidence"]:
        if e.get("value") is None:
            continue
        ends = [e.get("low"), e.get("high")]
        interval = f" [{ends[0]:.3g}, {ends[1]:.3g}]" if None not in ends else ""
        shown.append(f"{e['quantity']} {e.get('claim', '')}: {e['value']:.3g}{interval}")
    return "; ".join(shown)
