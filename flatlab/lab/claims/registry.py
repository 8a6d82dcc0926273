"""The claims of a paper, by figure and key."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flatlab.lab.claims.claim import Claim, Predicate


class Claims(dict[str, dict[str, Claim]]):
    """The claims of a paper: figure -> key -> claim. As a decorator it registers a predicate.

    paper: its key.

    >>> from flatlab.stats import not_run
    >>> claims = Claims("smith2030")
    >>> @claims("fig1", "sharpness falls with the rate", "Sec. 2", "Larger rates are flatter.")
    ... def falls(tables):
    ...     return not_run("no tables")
    >>> claims.repeat("fig2", of="fig1")
    >>> claims["fig2"]["c1"].repeats
    'smith2030_fig1/c1'
    """

    def __init__(self, paper: str) -> None:
        super().__init__()
        self.paper = paper

    def __call__(
        self, figure: str, text: str, source: str, quote: str, key: str = "", **about: Any
    ) -> Callable[[Predicate], Predicate]:
        """The decorator that registers the predicate below it, which it returns as it is.

        figure: whose claim it is.
        text, source, quote: see `Claim`.
        key: of the claim; by default c1, c2, ... in order.
        about: other fields of `Claim`, and `variant`, see `add`.
        """
        variant = about.pop("variant", "")

        def register(predicate: Predicate) -> Predicate:
            self.add(figure, Claim(text, source, predicate, quote, **about), key, variant)
            return predicate

        return register

    def add(self, figure: str, claim: Claim, key: str = "", variant: str = "") -> None:
        """Register a claim.

        figure: whose claim it is.
        claim: the claim. The claim that it repeats may be named without the paper, "fig1/c2".
        key: by default c1, c2, ... in order.
        variant: suffix of the keys of an alternative interpretation of the same claims, "-code":
            c1-code repeats c1.
        """
        claims = self.setdefault(figure, {})
        if not key:
            alike = [name for name in claims if re.fullmatch(rf"c\d+{re.escape(variant)}", name)]
            key = f"c{len(alike) + 1}"
        repeats = claim.repeats or (f"{figure}/{key}" if variant else "")
        if repeats and "_" not in repeats:
            repeats = f"{self.paper}_{repeats}"
        claims[key + variant] = replace(claim, repeats=repeats)

    def repeat(
        self, figure: str, of: str, *keys: str, claims: "Claims | None" = None, **about: Any
    ) -> None:
        """Register the claims of another figure about the same networks, as repetitions.

        figure: whose claims they are, too.
        of: the other figure.
        keys: of these claims; by default of all.
        claims: of the other figure's paper, if it is another one.
        about: fields in which they differ, such as source and quote.
        """
        others = self if claims is None else claims
        for key in keys or [*others[of]]:
            claim = replace(others[of][key], repeats=f"{others.paper}_{of}/{key}", **about)
            self.add(figure, claim, "" if keys else key)
