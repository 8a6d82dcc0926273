"""What a file of verdicts holds. All who write or read one take the types from here."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from flatlab.core.store import StoreError
from flatlab.stats.verdict import REPORTED, Outcome

Nature = Literal["finding", "theorem", "check"]


class EvidenceEntry(TypedDict):
    """A number that was compared, or was reported beside those; null where it is not finite.

    quantity: its name.
    claim: the side it must lie on, or `REPORTED` of `flatlab.stats.verdict`.
    value, low, high: the number and its 95 % interval.
    violations, of: in place of these, of an inequality for all values, how many values violate it.
    n: how many networks or runs it rests on.
    estimand: which correlation between networks it is.
    beside: the correlations by other estimands.
    """

    quantity: str
    claim: str
    value: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    violations: NotRequired[int]
    of: NotRequired[int]
    n: NotRequired[int]
    estimand: NotRequired[str]
    beside: NotRequired[dict[str, Any]]


class ClaimRecord(TypedDict):
    """A claim with its verdict.

    id: figure and key, "chen2026_figH8/c1".
    text, quote, source, nature, repeats: see `Claim`.
    kind: the fidelity of the tables that it was judged by; "" if there were none.
    differs: how these differ from the paper's experiments.
    verdict: the outcome.
    reason: for it, if there is one.
    p: two-sided; null where nothing was tested.
    thresholds: the verdicts with other thresholds.
    evidence: the numbers.
    readings: see `Claim`; of claims that have any.
    """

    id: str
    text: str
    quote: str
    source: str
    nature: Nature
    repeats: str
    kind: str
    differs: list[str]
    verdict: Outcome
    reason: str
    p: float | None
    thresholds: list[dict[str, Any]]
    evidence: list[EvidenceEntry]
    readings: NotRequired[dict[str, str]]


class FigureVerdicts(TypedDict):
    """A verdict file: the claims about a figure, and the attributes of its tables.

    target: the figure.
    claims: those about it.
    tables: attributes by experiment.
    readings: what the claims are judged under, see `flatlab.lab.claims`.
    """

    target: str
    claims: list[ClaimRecord]
    tables: dict[str, dict[str, Any]]
    readings: NotRequired[dict[str, dict[str, Any]]]


def read_verdicts(path: str | Path) -> FigureVerdicts:
    """Read a verdict file; raise `StoreError` that names it if it is damaged."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=FigureVerdicts)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is damaged, or of another version ({error}); build it anew, or get it back "
            "from where it was copied"
        ) from None


def decided_by(claim: ClaimRecord) -> EvidenceEntry | None:
    """The number that decides a verdict, if it is one alone and has an interval."""
    judged = [each for each in claim["evidence"] if each["claim"] != REPORTED]
    known = [each for each in judged if None not in map(each.get, ("value", "low", "high"))]
    return known[0] if len(known) == len(judged) == 1 else None


def all_claims(verdicts: Iterable[FigureVerdicts]) -> list[ClaimRecord]:
    """The claims of several figures."""
    return [claim for figure in verdicts for claim in figure["claims"]]
