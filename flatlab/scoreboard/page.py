"""The scoreboard as a page of the report, with every claim and its numbers."""

import html
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from flatlab.scoreboard.board import Board, Rows, by_figure, by_group, headline, survivors

ESTIMANDS = ("over all networks", "within settings", "adjusted for the training loss")
REPORTED = "reported, not judged"

_HEAD = """<!doctype html><meta charset="utf-8"><title>Claims</title><style>
body{font:14px/1.4 sans-serif;margin:2em}
table{border-collapse:collapse}
th,td{padding:3px 8px;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}
th{background:#f3f3f3}
.counts td+td{white-space:nowrap}
.claims{font-size:13px}
.claims>tbody>tr>:is(:nth-child(2),:nth-child(3)){min-width:14em;max-width:24em}
.numbers{font-size:12px}
.numbers td{border:0}
.holds{color:#06662d}.fails{color:#a3120a}.undecided{color:#7a5a00}.not-run{color:#666}
small{color:#555}
</style><h1>Claims</h1>"""

_LEGEND = """<p>Every claim follows. An estimate is shown with its 95 % interval and the number n of
networks or runs that it rests on; a dash is a number that is not finite. Correlations between
networks are shown by estimand: the judged one is bold, and <mark>other sign</mark> marks another
one whose sign differs from it. The false discovery rate is controlled by the procedure of Benjamini
and Hochberg, over the findings of a paper on one kind of evidence, undecided ones included.</p>"""

_CLAIM = ["claim", "in the paper's words", "predicate", "evidence", "verdict", "p"]
_CLAIM += ["with our threshold changed", "numbers"]


def as_html(board: Board, verdicts: Iterable[Mapping[str, Any]]) -> bytes:
    """A page for the report: the counts, then every claim with its verdict and its numbers."""
    lines = "".join(f"<li>{html.escape(line)}" for line in survivors(board))
    parts = [
        _HEAD,
        f"<p><b>{html.escape(headline(board))}</b></p>",
        _table(_escaped(by_group(board)), "counts"),
        f"<ul>{lines}</ul><h2>By figure</h2>",
        _table(_escaped(by_figure(board)), "counts"),
        _LEGEND,
    ]
    for content in verdicts:
        if content["claims"]:
            rows = [_CLAIM, *map(_claim, content["claims"])]
            parts.append(f"<h2>{html.escape(content['target'])}</h2>{_table(rows, 'claims')}")
    return "\n".join(parts).encode()


def _claim(claim: Mapping[str, Any]) -> list[str]:
    """A claim as the cells, in HTML, of one row."""
    safe = html.escape
    about = [claim["nature"]] if claim["nature"] != "finding" else []
    about += [f"repeats {claim['repeats']}"] if claim["repeats"] else []
    verdict, changed = claim["verdict"], claim["thresholds"]
    marked = f'<b class="{verdict.replace(" ", "-")}">{safe(verdict)}</b>'
    return [
        _lines(safe(claim["id"]), *map(_small, about)),
        _lines(f"<q>{safe(claim['quote'])}</q>", _small(claim["source"])),
        safe(claim["text"]),
        _lines(safe(claim["kind"]), *map(_small, claim["differs"])),
        _lines(marked, _small(claim["reason"])),
        "" if claim["p"] is None else f"{claim['p']:.2g}",
        _lines(*(safe(f"{each['threshold']:g}: {each['verdict']}") for each in changed)),
        numbers(claim["evidence"]),
    ]


def numbers(evidence: Iterable[Mapping[str, Any]]) -> str:
    """Tables of comparisons in HTML: those of correlations between networks by estimand."""
    groups = itertools.groupby(evidence, lambda entry: entry.get("estimand") in ESTIMANDS)
    tables = []
    for between_networks, entries in groups:
        columns = ESTIMANDS if between_networks else ("estimate", "of")
        rows = [["quantity", "claim", *columns]]
        for entry in entries:
            alone = [_estimate(entry), html.escape(entry.get("estimand", ""))]
            cells = _estimands(entry) if between_networks else alone
            rows.append([html.escape(entry["quantity"]), html.escape(entry["claim"]), *cells])
        tables.append(_table(rows, "numbers"))
    return "".join(tables)


def _estimands(entry: Mapping[str, Any]) -> list[str]:
    """A correlation by estimand; the judged one is bold, and another sign than its is marked."""
    judged = entry["claim"] != REPORTED
    cells = []
    for name in ESTIMANDS:
        if name == entry["estimand"]:
            cells.append(f"<b>{_estimate(entry)}</b>" if judged else _estimate(entry))
            continue
        other = entry.get("beside", {}).get(name, {})
        differs = judged and (other.get("value") or 0) * (entry["value"] or 0) < 0
        cells.append(_estimate(other) + (" <mark>other sign</mark>" if differs else ""))
    return cells


def _estimate(found: Mapping[str, Any]) -> str:
    """`value [low, high] n` as far as there is any; of an inequality for all values, violations."""
    shown = [f"{found['violations']} of {found['of']} values violate it"] if "of" in found else []
    shown += [_short(found["value"])] if "value" in found else []
    shown += [f"[{_short(found['low'])}, {_short(found['high'])}]"] if "low" in found else []
    return " ".join([*shown, f"n {found['n']}"] if "n" in found else shown)


def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.3g}"


def _small(content: str) -> str:
    return f"<small>{html.escape(content)}</small>" if content else ""


def _lines(*parts: str) -> str:
    return "<br>".join(filter(None, parts))


def _escaped(rows: Rows) -> Rows:
    return [[html.escape(cell) for cell in row] for row in rows]


def _table(rows: Rows, name: str) -> str:
    """Rows of cells in HTML, the first of them the head."""
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        lines.append("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row))
    return f'<table class="{name}">' + "\n".join(lines) + "</table>"
