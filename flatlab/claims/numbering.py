"""Claims of papers that do not use the registry yet."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flatlab.claims.claim import Claim, Predicate

Judge = Predicate
FigureClaims = dict[str, Claim]


def states(text: str, source: str, **about: Any) -> Callable[[Predicate], Claim]:
    """The decorator that makes a claim of the predicate below it.  about: other fields of it."""
    return lambda predicate: Claim(text, source, predicate, **about)


def numbered(*claims: Claim, reading: str = "", of: str = "") -> FigureClaims:
    """Claims by the keys c1, c2, ..., as repetitions if it is another reading of a figure."""
    return {
        f"c{number}{reading}": replace(claim, repeats=f"{of}/c{number}") if reading else claim
        for number, claim in enumerate(claims, start=1)
    }
