"""The claims of a paper, by figure and key."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from flatlab.lab.claims.claim import Claim, Predicate
from flatlab.lab.claims.reading import Reading


class Claims(dict[str, dict[str, Claim]]):
    """The claims of a paper: figure -> key -> claim. As a decorator it registers a predicate.

    paper: its key.
    readings: what the paper leaves open, by name.

    >>> from flatlab.stats import not_run
    >>> claims = Claims("smith2030")
    >>> @claims("fig1", "sharpness falls with the rate", "Sec. 2", "Larger rates are flatter.")
    ... def falls(tables):
    ...     return not_run("no tables")
    >>> claims.repeat("fig2", of="fig1")
    >>> claims["fig2"]["c1"].repeats
    'smith2030_fig1/c1'
    """

    def __init__(self, paper: str, readings: Mapping[str, Reading] | None = None) -> None:
        super().__init__()
        self.paper, self.readings = paper, readings or {}

    def __call__(
        self,
        figure: str,
        text: str,
        source: str,
        quote: str,
        key: str = "",
        under: Iterable[str] = (),
        **about: Any,
    ) -> Callable[[Predicate], Predicate]:
        """The decorator that registers the predicate below it, which it returns as it is.

        figure: whose claim it is.
        text, source, quote: see `Claim`.
        key: of the claim; by default c1, c2, ... in order.
        under: names of readings. The claim is registered under each choice, which the predicate
            gets by name: first under the main ones, then as variants, "c6-accuracies".
        about: other fields of `Claim`, and `variant`, see `add`.
        """
        variant, fixed = about.pop("variant", ""), dict(about.pop("readings", {}))

        def register(predicate: Predicate) -> Predicate:
            known = key
            for choice, ending in self.ways(under):
                judge = partial(predicate, **choice) if choice else predicate
                words = "; ".join(f"{name}: {chosen}" for name, chosen in choice.items())
                read = f"{text} ({words})" if words else text
                claim = Claim(read, source, judge, quote, readings=fixed | choice, **about)
                known = self.add(figure, claim, known, ending + variant)
            return predicate

        return register

    def ways(self, under: Iterable[str]) -> list[tuple[dict[str, str], str]]:
        """Each choice of some readings, with the ending of its key, the main ones first."""
        open_ = {name: self.readings[name] for name in under}
        choices = product(*((reading.main, *reading.others) for reading in open_.values()))
        return [
            (
                dict(zip(open_, choice, strict=True)),
                "".join(
                    f"-{chosen}"
                    for chosen, reading in zip(choice, open_.values(), strict=True)
                    if chosen != reading.main
                ),
            )
            for choice in choices
        ]

    def add(self, figure: str, claim: Claim, key: str = "", variant: str = "") -> str:
        """Register a claim; returns its key without the variant.

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
        return key

    def repeat(
        self, figure: str, of: str, *keys: str, claims: "Claims | None" = None, **about: Any
    ) -> None:
        """Register the claims of another figure about the same networks, as repetitions.

        figure: whose claims they are, too.
        of: the other figure.
        keys: of these claims, with their variants; by default of all.
        claims: of the other figure's paper, if it is another one.
        about: fields in which they differ, such as source and quote.
        """
        others = self if claims is None else claims
        for key in keys or [*others[of]]:
            known = "" if keys else key
            for name, claim in others[of].items():
                if name == key or (keys and name.startswith(f"{key}-")):
                    same = claim.repeats or f"{others.paper}_{of}/{name}"
                    claim = replace(claim, repeats=same, **about)
                    known = self.add(figure, claim, known, name.removeprefix(key))
