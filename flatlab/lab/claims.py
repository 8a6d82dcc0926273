"""Claims: statements of papers with predicates on tables, registered by figure, and judged.

The claims of a paper are in its own folder, in `papers/<paper>/claims.py`: `CLAIMS`, a `Claims`.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple, cast

import xarray as xr

from flatlab.core.schema import EVIDENCE
from flatlab.lab.plan.figures import figures, papers
from flatlab.lab.tables.eligibility import unless_missing
from flatlab.lab.tables.networks import ResultTables
from flatlab.lab.tables.selection import counts
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, FigureVerdicts, Nature
from flatlab.stats.verdict import Verdict, not_run

Predicate = Callable[..., Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the predicate that judges it.

    text: the predicate, in words.
    source: where, or when, it was stated.
    predicate: the judge of `ResultTables` and, if there is one, of a threshold.
    quote: what the paper says, its own words, shortened, or this project's statement and what would
        refute it.
    threshold: a number in the predicate that is ours; the verdicts at half and at twice of it are
        reported.
    nature: `finding`; `theorem`, which can fail by rounding alone; `check` of code or set-up.
    repeats: the claim that says the same of the same networks, or of which this is a variant.
    admits: the fidelities that can decide it; on others it is `not run`, with its numbers.
    readings: what is chosen where the paper leaves something open: {"gap": "losses"}.
    """

    text: str
    source: str
    predicate: Predicate
    quote: str
    threshold: float | None = None
    nature: Nature = "finding"
    repeats: str = ""
    admits: Collection[str] = EVIDENCE
    readings: Mapping[str, str] = field(default_factory=dict)

    def judge(self, tables: ResultTables) -> Verdict:
        """The verdict; `not run` if something that the claim is about was not computed."""
        arguments = () if self.threshold is None else (self.threshold,)
        verdict = unless_missing(lambda: self.predicate(tables, *arguments), not_run)
        fidelity = tables.fidelity
        if not fidelity or fidelity in self.admits:
            return verdict
        admitted = " and ".join(self.admits)
        reason = f"the evidence is {fidelity}, and this claim admits {admitted} alone"
        return not_run(reason).reporting(*verdict.evidence)

    def entry(self, name: str, tables: ResultTables) -> ClaimRecord:
        """What the file of verdicts says of it.  name: its id."""
        tables.used.clear()
        verdict = self.judge(tables)
        others = [] if self.threshold is None else [self.threshold / 2, 2 * self.threshold]
        record: ClaimRecord = {
            "id": name,
            "text": self.text,
            "quote": self.quote,
            "source": self.source,
            "nature": self.nature,
            "repeats": self.repeats,
            "kind": tables.fidelity,
            "differs": tables.differs,
            "verdict": verdict.outcome,
            "reason": verdict.reason,
            "p": verdict.p,
            "thresholds": [
                {"threshold": n, "verdict": replace(self, threshold=n).judge(tables).outcome}
                for n in others
            ],
            "evidence": cast("list[EvidenceEntry]", verdict.evidence),
        }
        return {**record, "readings": dict(self.readings)} if self.readings else record


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

    def ways(self, under: Iterable[str]) -> Iterator[tuple[dict[str, str], str]]:
        """Each choice of some readings, with the ending of its key, the main ones first."""
        open_ = {name: self.readings[name] for name in under}
        for choice in product(*((each.main, *each.others) for each in open_.values())):
            pairs = zip(choice, open_.values(), strict=True)
            endings = (f"-{chosen}" for chosen, reading in pairs if chosen != reading.main)
            yield dict(zip(open_, choice, strict=True)), "".join(endings)

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


def verify(target: str, tables: Mapping[str, xr.Dataset]) -> FigureVerdicts:
    """The verdicts on the claims of a figure, as they are stored in JSON.

    target: the figure, "chen2026_fig2".
    tables: by the keys of their experiments.
    """
    paper, figure = target.split("_")
    results = ResultTables(tables)
    of_paper = claims_of(paper)
    known = {*papers()[paper].targets, *(each.key for each in figures() if each.paper == paper)}
    for unknown in {*of_paper} - known:
        warnings.warn(f"{paper}: claims of {unknown}, which is no figure", stacklevel=2)
    claims = of_paper.get(figure, {})
    entries = [claim.entry(f"{target}/{key}", results) for key, claim in claims.items()]
    abouts = {
        key: table.attrs | (counts(table) if "diverged" in table.coords else {})
        for key, table in tables.items()
    }
    verdicts: FigureVerdicts = {"target": target, "claims": entries, "tables": abouts}
    named = {name for entry in entries for name in entry.get("readings", {})}
    told = {name: of_paper.readings[name]._asdict() for name in sorted(named)}
    return {**verdicts, "readings": told} if told else verdicts


def claims_of(paper: str) -> Claims:
    """The claims of a paper; a paper may have none."""
    module = f"flatlab.papers.{paper}.claims"
    return importlib.import_module(module).CLAIMS if find_spec(module) else Claims(paper)
