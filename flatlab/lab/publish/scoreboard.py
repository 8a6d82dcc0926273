"""The scoreboard: verdicts counted by figure and by kind of evidence, and as a page of the report.

The counts are one board for the terminal, the report and the site. Kinds of evidence are never
added up. Theorems, checks, repetitions of another claim and what was not run are counted apart from
the findings that were tested.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from flatlab.core.schema import EVIDENCE
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, FigureVerdicts, all_claims
from flatlab.stats.verdict import LEVEL, REPORTED, Outcome

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

READS = "*.html"
"""The templates beside this module: its fingerprint has their content, too."""


class Board:
    """The verdicts of some figures, counted; each set of rows is computed once.

    verdicts: of each figure.
    counts: group -> outcome -> number of claims.
    figures: target, scale, evidence (the kinds that were used) and counts of each.
    discoveries: see `discoveries`.  read: see `read_in_ways`.
    """

    def __init__(self, verdicts: Iterable[FigureVerdicts]) -> None:
        self.verdicts = list(verdicts)
        claims = all_claims(self.verdicts)
        self.counts = _counts(claims)
        self.figures = [_of_figure(each) for each in self.verdicts]
        self.discoveries = discoveries(claims)
        self.read = read_in_ways(claims)

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
    def cautions(self) -> list[str]:
        """How many findings depend on a reading, and how many chance may decide."""
        findings = [claim for claim in all_claims(self.verdicts) if group_of(claim) in EVIDENCE]
        read = [self.read[claim["id"]] for claim in findings if claim["id"] in self.read]
        tested = sum(claim["p"] is not None for claim in findings)
        said = {
            f"{len(read)} findings are read in several ways; of {sum(map(differ, read))} the "
            "verdict depends on the reading": read,
            f"If nothing were true, chance would decide {(1 - LEVEL) * tested:.0f} of {tested} "
            "findings with a p-value": tested,
        }
        return [line for line, known in said.items() if known]

    @functools.cached_property
    def readings(self) -> Rows:
        """What the papers leave open: a head, and a row for each reading."""
        rows = {
            (name, about["main"]): [
                *(name, about["main"], ", ".join(about["others"]), about["why"]),
                f"{about['quote']} ({about['source']})",
            ]
            for content in self.verdicts
            for name, about in content.get("readings", {}).items()
        }
        return [["reading", "main", "others", "why", "sentence"], *rows.values()]

    @functools.cached_property
    def by_reading(self) -> Rows:
        """A head, and a row for each claim whose verdict depends on a reading."""
        rows = [
            [name, of[""], "; ".join(f"{key}: {verdict}" for key, verdict in of.items() if key)]
            for name, of in self.read.items()
            if differ(of)
        ]
        return [["claim", "main reading", "others"], *rows]

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


def read_in_ways(claims: Iterable[ClaimRecord]) -> dict[str, dict[str, Outcome]]:
    """The verdicts on claims that are read in several ways, by id and by the ending of a variant.

    The ending of the main reading is "".
    """
    known = {claim["id"]: claim for claim in claims}
    found: dict[str, dict[str, Outcome]] = {}
    for name in (name for name, claim in known.items() if claim["repeats"]):
        parts = name.split("-")
        stems = ("-".join(parts[:count]) for count in range(1, len(parts)))
        if stem := next((stem for stem in stems if stem in known), ""):
            of = found.setdefault(stem, {"": known[stem]["verdict"]})
            of[name.removeprefix(f"{stem}-")] = known[name]["verdict"]
    return found


def differ(verdicts: Mapping[str, Outcome]) -> bool:
    """Whether readings disagree; what was not run says nothing."""
    return len({*verdicts.values()} - {"not run"}) > 1


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
def _template(name: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    source = Path(__file__).with_name(name).read_text()
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(source)


def as_html(board: Board) -> bytes:
    """A page for the report: the counts, then every claim with its verdict and its numbers."""
    page: str = _template("scoreboard.html").render(board=board, numbers=numbers)
    return page.encode()


def numbers(evidence: Iterable[EvidenceEntry]) -> str:
    """Tables of comparisons in HTML: those of correlations between networks by estimand."""
    grouped = itertools.groupby(evidence, lambda entry: entry.get("estimand") in ESTIMANDS)
    groups = [(between, [*entries]) for between, entries in grouped]
    words = {"estimands": ESTIMANDS, "reported": REPORTED}
    shown: str = _template("numbers.html").render(groups=groups, **words)
    return shown
