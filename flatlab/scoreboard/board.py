"""Verdicts counted by figure and by kind of evidence, for the terminal and the site.

Kinds of evidence are never added up. Theorems, checks, repetitions of another claim and what was
not run are counted apart from the findings that were tested.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from flatlab.plan.schema import EVIDENCE
from flatlab.stats.verdict import Outcome

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

Claims = Iterable[Mapping[str, Any]]
Board = Mapping[str, Any]
Rows = list[list[str]]


def collect(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the verdicts of each figure and of all figures together.

    Returns figures: target, scale, evidence (the kinds that were used) and counts of each; counts:
    group -> outcome -> number of claims; discoveries: see `discoveries`.
    """
    figures, claims = [], []
    for content in verdicts:
        claims += content["claims"]
        used = {claim["kind"] for claim in content["claims"] if claim["verdict"] != "not run"}
        figures.append(
            {
                "target": content["target"],
                "scale": "/".join(sorted({about["scale"] for about in content["tables"].values()})),
                "evidence": [kind for kind in EVIDENCE if kind in used],
                "counts": _counts(content["claims"]),
            }
        )
    return {"figures": figures, "counts": _counts(claims), "discoveries": discoveries(claims)}


def discoveries(claims: Claims) -> list[dict[str, Any]]:
    """How many decisive findings survive a false discovery rate, by kind of evidence and paper.

    The rate is controlled over all findings with a p-value, undecided ones too. Decisive are those
    of them that hold or fail; without_p: how many more hold or fail and have no p-value.
    """
    from scipy.stats import false_discovery_control  # slow to import

    tested: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for claim in claims:
        if (kind := _group(claim)) in EVIDENCE:
            tested.setdefault((kind, claim["id"].partition("_")[0]), []).append(claim)
    found = []
    for (kind, paper), findings in sorted(tested.items()):  # the kinds' order is alphabetical
        valued = [claim for claim in findings if claim["p"] is not None]
        adjusted = false_discovery_control([claim["p"] for claim in valued])
        pairs = zip(valued, adjusted, strict=True)
        rates = [float(rate) for claim, rate in pairs if claim["verdict"] != "undecided"]
        decided = [claim for claim in findings if claim["verdict"] != "undecided"]
        found.append(
            {
                "kind": kind,
                "paper": paper,
                "survive": sum(rate <= FALSE_DISCOVERIES for rate in rates),
                "decisive": len(rates),
                "without_p": len(decided) - len(rates),
            }
        )
    return found


def _group(claim: Mapping[str, Any]) -> str:
    """What a claim is counted among, a key of `GROUPS`."""
    if claim["repeats"]:
        return "repetition"
    if claim["nature"] != "finding":
        return str(claim["nature"])
    return "not run" if claim["verdict"] == "not run" else str(claim["kind"])


def _counts(claims: Claims) -> dict[str, dict[str, int]]:
    counts = {group: dict.fromkeys(OUTCOMES, 0) for group in GROUPS}
    for claim in claims:
        counts[_group(claim)][claim["verdict"]] += 1
    return counts


def headline(board: Board) -> str:
    """The verdicts on the papers' own networks and data; other evidence does not enter."""
    own = ", ".join(f"{outcome} {n}" for outcome, n in board["counts"]["own"].items() if n)
    return f"Findings on the papers' own networks and data: {own or 'none'}"


def survivors(board: Board) -> list[str]:
    """A sentence for each paper and kind of evidence with decisive findings."""
    lines = []
    for found in board["discoveries"]:
        line = f"{found['paper']}, {found['kind']}: {found['survive']} of {found['decisive']} "
        line += f"decisive findings survive a false discovery rate of {100 * FALSE_DISCOVERIES:g} %"
        if found["without_p"]:
            line += f"; {found['without_p']} more without a p-value not counted"
        lines += [line] if found["decisive"] + found["without_p"] else []
    return lines


def by_group(board: Board) -> Rows:
    """The head and a row for each group; zeros are left empty."""
    rows = ([GROUPS[group], *map(_number, n.values())] for group, n in board["counts"].items())
    return [["claims", *OUTCOMES], *rows]


def by_figure(board: Board) -> Rows:
    """The head and a row for each figure; counts on several kinds of evidence stay apart, 2 + 1."""
    rows = [["findings", "evidence", *OUTCOMES, "other claims"]]
    for row in board["figures"]:
        counts = row["counts"]
        cells = []
        for outcome in OUTCOMES[:-1]:
            parts = [counts[kind][outcome] for kind in row["evidence"]]
            cells.append(" + ".join(map(str, parts)) if any(parts) else "")
        apart = sum(sum(counts[group].values()) for group in ("theorem", "check", "repetition"))
        name, kinds = f"{row['target']} ({row['scale']})", " + ".join(row["evidence"])
        rows.append([name, kinds, *cells, _number(counts["not run"]["not run"]), _number(apart)])
    return rows


def _number(count: int) -> str:
    return str(count or "")
