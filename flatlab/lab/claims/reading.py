"""A reading: one way to take a sentence of a paper that admits several."""

from typing import NamedTuple


class Reading(NamedTuple):
    """A choice that a paper leaves open, and that can decide a verdict.

    The main reading is argued for by the paper's text alone, whatever the verdict under it is. The
    others are variants, with verdicts of their own and their name in the claim's key.

    main, others: what can be chosen.
    why: what the text says for the main one.
    quote, source: the sentence that says so.
    """

    main: str
    others: tuple[str, ...]
    why: str
    quote: str
    source: str
