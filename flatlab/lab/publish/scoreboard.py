"""The scoreboard: verdicts counted by figure and by kind of evidence, and as a page of the report.

The counts are one board for the terminal, the report and the site. Kinds of evidence are never
added up. Theorems, checks, repetitions of another claim and what was not run are counted apart from
the findings that were tested. Templates stand here and not in files of their own, so that the
fingerprint of the code has them.
"""

import functools
import itertools
from collections.abc import Iterable
from typing import Any, get_args

from flatlab.core.schema import EVIDENCE
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, FigureVerdicts, all_claims
from flatlab.stats.verdict import REPORTED, Outcome

OUTCOMES = get_args(Outcome)
GROUPS = {
    "own": "findings, own: the paper's networks and data",
    "reduced": "findings, reduced: its data; fewer, smaller or shorter",
    "stand-in": "findings, stand-in: other networks or data",
    "not run": "findings, not run",
    "theorem": "theorems",
    "check": "checks of the code or the set-up",
    "repetition": "repetitions and other readings of claims",
}
"""What a claim is counted among; each claim is in one of these."""

FALSE_DISCOVERIES = 0.05
"""The false discovery rate, controlled by the procedure of Benjamini and Hochberg."""

Rows = list[list[str]]

ESTIMANDS = ("over all networks", "within settings", "adjusted for the training loss")

NUMBERS = """\
{%- macro short(x) %}{{ "–" if x is none else "%.3g" | format(x) }}{% endmacro -%}
{%- macro estimate(e) -%}
{%- if "of" in e %}{{ e.violations }} of {{ e.of }} values violate it{% endif -%}
{%- if "value" in e %}{{ short(e.value) }}{% endif -%}
{%- if "low" in e %} [{{ short(e.low) }}, {{ short(e.high) }}]{% endif -%}
{%- if "n" in e %} n {{ e.n }}{% endif -%}
{%- endmacro -%}
{% for between, entries in groups %}<table class="numbers"><tr><th>quantity</th><th>claim</th>
{%- for name in estimands if between %}<th>{{ name }}</th>
{%- else %}<th>estimate</th><th>of</th>{% endfor %}</tr>
{% for e in entries %}<tr><td>{{ e.quantity }}</td><td>{{ e.claim }}</td>
{%- for name in estimands if between %}{% set other = e.get("beside", {}).get(name, {}) %}<td>
{%- if name != e.estimand %}{{ estimate(other) }}
{%- if e.claim != reported and (other.get("value") or 0) * (e.value or 0) < 0 -%}
{{ " " }}<mark>other sign</mark>{% endif %}
{%- elif e.claim != reported %}<b>{{ estimate(e) }}</b>{% else %}{{ estimate(e) }}{% endif %}</td>
{%- else %}<td>{{ estimate(e) }}</td><td>{{ e.get("estimand", "") }}</td>{% endfor %}</tr>
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


class Board:
    """The verdicts of some figures, counted; each set of rows is computed once.

    verdicts: of each figure.
    counts: group -> outcome -> number of claims.
    figures: target, scale, evidence (the kinds that were used) and counts of each.
    discoveries: see `discoveries`.
    """

    def __init__(self, verdicts: Iterable[FigureVerdicts]) -> None:
        self.verdicts = list(verdicts)
        claims = all_claims(self.verdicts)
        self.counts = _counts(claims)
        self.figures = [_of_figure(each) for each in self.verdicts]
        self.discoveries = discoveries(claims)

    @property
    def content(self) -> dict[str, Any]:
        """What scoreboard.json holds."""
        return {key: getattr(self, key) for key in ("figures", "counts", "discoveries")}

    @property
    def headline(self) -> str:
        """The verdicts on the papers' own networks and data; other evidence does not enter."""
        said = ", ".join(f"{outcome} {n}" for outcome, n in self.counts["own"].items() if n)
        return f"Findings on the papers' own networks and data: {said or 'none'}"

    @functools.cached_property
    def survivors(self) -> list[str]:
        """A sentence for each paper and kind of evidence with decisive findings."""
        lines = []
        for group in self.discoveries:
            line = f"{group['paper']}, {group['kind']}: {group['survive']} of {group['decisive']} "
            line += "decisive findings survive a false discovery rate of "
            line += f"{100 * FALSE_DISCOVERIES:g} %"
            if group["without_p"]:
                line += f"; {group['without_p']} more without a p-value not counted"
            lines += [line] if group["decisive"] + group["without_p"] else []
        return lines

    @functools.cached_property
    def by_group(self) -> Rows:
        """The head and a row for each group; zeros are left empty."""
        rows = ([GROUPS[group], *map(_number, n.values())] for group, n in self.counts.items())
        return [["claims", *OUTCOMES], *rows]

    @functools.cached_property
    def by_figure(self) -> Rows:
        """The head and a row for each figure; counts by kind of evidence stay apart, 2 + 1."""
        rows = [["findings", "evidence", *OUTCOMES, "other claims"]]
        for row in self.figures:
            counts = row["counts"]
            cells = []
            for outcome in OUTCOMES[:-1]:
                parts = [counts[kind][outcome] for kind in row["evidence"]]
                cells.append(" + ".join(map(str, parts)) if any(parts) else "")
            apart = sum(sum(counts[group].values()) for group in ("theorem", "check", "repetition"))
            name, kinds = f"{row['target']} ({row['scale']})", " + ".join(row["evidence"])
            not_run = _number(counts["not run"]["not run"])
            rows.append([name, kinds, *cells, not_run, _number(apart)])
        return rows


def discoveries(claims: Iterable[ClaimRecord]) -> list[dict[str, Any]]:
    """How many decisive findings survive a false discovery rate, by kind of evidence and paper.

    The rate is controlled over all findings with a p-value, undecided ones too. Decisive are those
    of them that hold or fail; without_p: how many more hold or fail and have no p-value.
    """
    from scipy.stats import false_discovery_control  # slow to import

    tested: dict[tuple[str, str], list[ClaimRecord]] = {}
    for claim in claims:
        if (kind := group_of(claim)) in EVIDENCE:
            tested.setdefault((kind, claim["id"].partition("_")[0]), []).append(claim)
    families = []
    for (kind, paper), findings in sorted(tested.items()):  # the kinds' order is alphabetical
        valued = [claim for claim in findings if claim["p"] is not None]
        adjusted = false_discovery_control([claim["p"] for claim in valued])
        pairs = zip(valued, adjusted, strict=True)
        rates = [float(rate) for claim, rate in pairs if claim["verdict"] != "undecided"]
        decided = [claim for claim in findings if claim["verdict"] != "undecided"]
        families.append(
            {
                "kind": kind,
                "paper": paper,
                "survive": sum(rate <= FALSE_DISCOVERIES for rate in rates),
                "decisive": len(rates),
                "without_p": len(decided) - len(rates),
            }
        )
    return families


def group_of(claim: ClaimRecord) -> str:
    """What a claim is counted among, a key of `GROUPS`."""
    if claim["repeats"]:
        return "repetition"
    if claim["nature"] != "finding":
        return claim["nature"]
    return "not run" if claim["verdict"] == "not run" else claim["kind"]


def _of_figure(content: FigureVerdicts) -> dict[str, Any]:
    used = {claim["kind"] for claim in content["claims"] if claim["verdict"] != "not run"}
    return {
        "target": content["target"],
        "scale": "/".join(sorted({about["scale"] for about in content["tables"].values()})),
        "evidence": [kind for kind in EVIDENCE if kind in used],
        "counts": _counts(content["claims"]),
    }


def _counts(claims: Iterable[ClaimRecord]) -> dict[str, dict[str, int]]:
    counts = {group: dict.fromkeys(OUTCOMES, 0) for group in GROUPS}
    for claim in claims:
        counts[group_of(claim)][claim["verdict"]] += 1
    return counts


def _number(count: int) -> str:
    return str(count or "")


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
    grouped = itertools.groupby(evidence, lambda entry: entry.get("estimand") in ESTIMANDS)
    groups = [(between, [*entries]) for between, entries in grouped]
    words = {"estimands": ESTIMANDS, "reported": REPORTED}
    shown: str = _template(NUMBERS).render(groups=groups, **words)
    return shown
