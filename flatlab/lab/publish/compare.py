"""Two folders of results compared: verdicts, the numbers that decide them, and experiments."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from flatlab.core import store
from flatlab.core.schema import SCALES
from flatlab.lab.plan.plan import Plan
from flatlab.lab.publish.publish import origin
from flatlab.lab.publish.scoreboard import OUTCOMES
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, FigureVerdicts, read_verdicts
from flatlab.stats.verdict import REPORTED, Outcome

Code = Mapping[str, list[str]]
"""The fingerprints of the code of an experiment, by stage."""


@dataclass(frozen=True)
class Results:
    """A folder such as results/demo or results/published/demo, and its verdict files by target."""

    folder: Path
    verdicts: Mapping[str, FigureVerdicts]

    @property
    def scale(self) -> str:
        """The scale of its tables; raises `StoreError` if there is not exactly one."""
        tables = (about for each in self.verdicts.values() for about in each["tables"].values())
        scales = sorted({str(about.get("scale")) for about in tables})
        if len(scales) != 1 or scales[0] not in SCALES:
            listed = ", ".join(scales) or "none"
            raise store.StoreError(f"{self.folder} must hold tables of one scale; found: {listed}")
        return scales[0]


def load(folder: Path) -> Results:
    """The results in a folder; raise `StoreError` if there are none."""
    if not folder.is_dir():
        raise store.StoreError(
            f"{folder} does not exist; name a folder of results, such as results/demo"
        )
    files = sorted((folder / "verdicts").glob("*/*.json"))
    files = [path for path in files if "." not in path.stem]  # without records of jobs
    if not files:
        raise store.StoreError(f"{folder} holds no verdicts (verdicts/<paper>/<figure>.json)")
    return Results(folder, {each["target"]: each for each in map(read_verdicts, files)})


class RelativeShift(NamedTuple):
    """How far a number moved: |b - a| over half the width of the interval in A."""

    size: float
    quantity: str


class ClaimPair(NamedTuple):
    """A claim in A and in B, and the largest movement of a number that decides it."""

    a: ClaimRecord
    b: ClaimRecord

    @property
    def moved(self) -> RelativeShift | None:
        """None if no number with an interval decides it in both."""
        before, after = _deciding(self.a), _deciding(self.b)
        same = (zip(before[key], after[key], strict=False) for key in before if key in after)
        moves = [_movement(a, b) for a, b in chain.from_iterable(same)]
        return max(filter(None, moves), default=None)


def _deciding(claim: ClaimRecord) -> dict[tuple[str, str], list[EvidenceEntry]]:
    deciding = defaultdict(list)
    for entry in claim["evidence"]:
        if entry["claim"] != REPORTED:
            deciding[entry["quantity"], entry["claim"]].append(entry)
    return deciding


def _movement(a: EvidenceEntry, b: EvidenceEntry) -> RelativeShift | None:
    before, low, high, after = a.get("value"), a.get("low"), a.get("high"), b.get("value")
    if before is None or low is None or high is None or after is None:
        return None
    distance, half = abs(after - before), (high - low) / 2
    if half:
        return RelativeShift(distance / half, a["quantity"])
    same = math.isclose(before, after, rel_tol=1e-9)  # up to rounding
    return RelativeShift(0.0 if same else math.inf, a["quantity"])


@dataclass(frozen=True)
class Comparison:
    """Claims with the same and with different verdicts, and the ids of those in one of both."""

    agreeing: list[ClaimPair]
    differing: list[ClaimPair]
    only_a: list[str]
    only_b: list[str]

    @property
    def reversal(self) -> bool:
        """Whether a verdict turns from `holds` to `fails`, or back."""
        return any({p.a["verdict"], p.b["verdict"]} == {"holds", "fails"} for p in self.differing)

    @property
    def turns(self) -> dict[tuple[Outcome, Outcome], list[str]]:
        """The ids of claims with different verdicts, by the verdicts in A and in B."""
        turns = defaultdict(list)
        for pair in self.differing:
            turns[pair.a["verdict"], pair.b["verdict"]].append(pair.a["id"])
        return turns

    @property
    def counts(self) -> list[tuple[int, Outcome]]:
        """How many verdicts agree, each verdict in turn."""
        verdicts = [pair.a["verdict"] for pair in self.agreeing]
        return [(verdicts.count(each), each) for each in OUTCOMES if each in verdicts]

    @property
    def most_moved(self) -> ClaimPair | None:
        """The claim with an agreeing verdict, one of whose numbers moved farthest."""
        moved = [pair for pair in self.agreeing if pair.moved]
        return max(moved, key=lambda pair: pair.moved or RelativeShift(0.0, ""), default=None)


def compare(a: Iterable[FigureVerdicts], b: Iterable[FigureVerdicts]) -> Comparison:
    """Compare claims by their ids."""
    before, after = ({c["id"]: c for each in side for c in each["claims"]} for side in (a, b))
    pairs = [ClaimPair(claim, after[key]) for key, claim in before.items() if key in after]
    alike = [pair.a["verdict"] == pair.b["verdict"] for pair in pairs]
    return Comparison(
        [pair for pair, same in zip(pairs, alike, strict=True) if same],
        [pair for pair, same in zip(pairs, alike, strict=True) if not same],
        [key for key in before if key not in after],
        [key for key in after if key not in before],
    )


def code_of(results: Results, plan_of: Callable[[str], Plan]) -> dict[str, Code]:
    """The recorded code of experiments, of published results or of those built in a folder.

    plan_of: the plan of a scale. It says which jobs an experiment has, and each has a record.
    """
    path = results.folder / "provenance.json"
    if path.is_file():
        return {key: made.get("code", {}) for key, made in store.load_json(path).items()}
    chosen = plan_of(results.scale)
    keys = {key for each in results.verdicts.values() for key in each["tables"]}
    known = sorted(keys & {*chosen.experiments})
    return {key: origin(chosen, key, results.folder)["code"] for key in known}


def experiments_that_differ(
    a: Results, b: Results, code_a: Mapping[str, Code], code_b: Mapping[str, Code]
) -> Iterator[str]:
    """A sentence for each experiment of a common figure that differs in settings or in code."""
    by_experiment: dict[str, dict[str, str]] = {}
    for target in [target for target in a.verdicts if target in b.verdicts]:
        ours, theirs = a.verdicts[target]["tables"], b.verdicts[target]["tables"]
        for key in {**ours, **theirs}:
            changes = by_experiment.setdefault(key, {})
            if key in ours and key in theirs:
                changes |= _changes(ours[key], theirs[key])
            else:
                changes[target] = f"{target}, which reads it in {'A' if key in ours else 'B'} alone"
    for key, changes in sorted(by_experiment.items()):
        code, other = code_a.get(key, {}), code_b.get(key, {})
        recorded = [stage for stage in code if code[stage] and other.get(stage)]
        if changed := [stage for stage in recorded if {*code[stage]} != {*other[stage]}]:
            changes["code"] = f"code ({', '.join(changed)})"
        if changes:
            yield f"{key} differs in {'; '.join(changes.values())}"


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a table that differ, by name, with both values in words."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return {name: f"{name} ({_said(a, name)} in A, {_said(b, name)} in B)" for name in names}


def _said(about: Mapping[str, Any], name: str) -> str:
    value = about.get(name)
    listed = " and ".join(map(str, value)) if isinstance(value, list) else value
    return "nothing" if listed in (None, "") else str(listed)
