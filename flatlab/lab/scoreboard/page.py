"""The scoreboard as a page of the report, with every claim and its numbers.

Templates stand here and not in files of their own, so that the fingerprint of the code has them.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from flatlab.lab.claims.records import EvidenceEntry
from flatlab.lab.scoreboard.board import Board
from flatlab.stats.verdict import REPORTED

ESTIMANDS = ("over all networks", "within settings", "adjusted for the training loss")

NUMBERS = """\
{% for head, rows in tables %}<table class="numbers"><tr>
{%- for name in head %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>
{%- if cell.judged %}<b>{{ cell.text }}</b>{% else %}{{ cell.text }}{% endif %}
{%- if cell.opposite %} <mark>other sign</mark>{% endif %}</td>{% endfor %}</tr>
{% endfor %}</table>{% endfor %}"""

PAGE = """\
{%- macro small(words) %}{% if words %}<br><small>{{ words }}</small>{% endif %}{% endmacro -%}
{%- macro counts(rows) %}<table class="counts"><tr>
{%- for cell in rows[0] %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in rows[1:] %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endmacro -%}
<!doctype html><meta charset="utf-8"><title>Claims</title><style>
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
</style><h1>Claims</h1>
<p><b>{{ board.headline }}</b></p>
{{ counts(board.by_group) }}
<ul>{% for line in board.survivors %}<li>{{ line }}</li>{% endfor %}</ul><h2>By figure</h2>
{{ counts(board.by_figure) }}
<p>Every claim follows. An estimate is shown with its 95 % interval and the number n of
networks or runs that it rests on; a dash is a number that is not finite. Correlations between
networks are shown by estimand: the judged one is bold, and <mark>other sign</mark> marks another
one whose sign differs from it. The false discovery rate is controlled by the procedure of Benjamini
and Hochberg, over the findings of a paper on one kind of evidence, undecided ones included.</p>
{% for content in board.verdicts if content.claims %}<h2>{{ content.target }}</h2>
<table class="claims"><tr><th>claim</th><th>in the paper's words</th><th>predicate</th>
<th>evidence</th><th>verdict</th><th>p</th><th>with our threshold changed</th><th>numbers</th></tr>
{% for claim in content.claims %}<tr><td>{{ claim.id }}
{%- if claim.nature != "finding" %}{{ small(claim.nature) }}{% endif %}
{%- if claim.repeats %}{{ small("repeats " ~ claim.repeats) }}{% endif %}</td>
<td><q>{{ claim.quote }}</q>{{ small(claim.source) }}</td>
<td>{{ claim.text }}</td>
<td>{{ claim.kind }}{% for words in claim.differs %}{{ small(words) }}{% endfor %}</td>
<td><b class="{{ claim.verdict | replace(" ", "-") }}">{{ claim.verdict }}</b>
{{- small(claim.reason) }}</td>
<td>{% if claim.p is not none %}{{ "%.2g" | format(claim.p) }}{% endif %}</td>
<td>{% for each in claim.thresholds %}{% if not loop.first %}<br>{% endif %}
{{- "%g" | format(each.threshold) }}: {{ each.verdict }}{% endfor %}</td>
<td>{{ numbers(claim.evidence) | safe }}</td></tr>
{% endfor %}</table>
{% endfor %}"""


class Cell(NamedTuple):
    """A cell of a table of numbers.

    text: what it says.
    judged: whether the claim was judged by it; it is bold.
    opposite: whether its sign is another one than that of the judged number.
    """

    text: str
    judged: bool = False
    opposite: bool = False


@functools.cache
def _template(source: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(source)


def as_html(board: Board) -> bytes:
    """A page for the report: the counts, then every claim with its verdict and its numbers."""
    page: str = _template(PAGE).render(board=board, numbers=numbers)
    return page.encode()


def numbers(evidence: Iterable[EvidenceEntry]) -> str:
    """Tables of comparisons in HTML: those of correlations between networks by estimand."""
    groups = itertools.groupby(evidence, lambda entry: entry.get("estimand") in ESTIMANDS)
    tables = []
    for between_networks, entries in groups:
        columns = ESTIMANDS if between_networks else ("estimate", "of")
        rows = [
            [
                Cell(entry["quantity"]),
                Cell(entry["claim"]),
                *(_estimands(entry) if between_networks else _alone(entry)),
            ]
            for entry in entries
        ]
        tables.append((("quantity", "claim", *columns), rows))
    shown: str = _template(NUMBERS).render(tables=tables)
    return shown


def _alone(entry: EvidenceEntry) -> Iterator[Cell]:
    yield Cell(_estimate(entry))
    yield Cell(entry.get("estimand", ""))


def _estimands(entry: EvidenceEntry) -> Iterator[Cell]:
    """A correlation by estimand."""
    judged = entry["claim"] != REPORTED
    for name in ESTIMANDS:
        if name == entry["estimand"]:
            yield Cell(_estimate(entry), judged)
            continue
        other = entry.get("beside", {}).get(name, {})
        opposite = judged and (other.get("value") or 0) * (entry["value"] or 0) < 0
        yield Cell(_estimate(other), opposite=opposite)


def _estimate(entry: Mapping[str, Any]) -> str:
    """`value [low, high] n` as far as there is any; of an inequality for all values, violations."""
    shown = [f"{entry['violations']} of {entry['of']} values violate it"] if "of" in entry else []
    shown += [_short(entry["value"])] if "value" in entry else []
    shown += [f"[{_short(entry['low'])}, {_short(entry['high'])}]"] if "low" in entry else []
    return " ".join([*shown, f"n {entry['n']}"] if "n" in entry else shown)


def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.3g}"
