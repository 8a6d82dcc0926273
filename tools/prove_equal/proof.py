"""Proof that this version of the code computes what an older checkout computes.

Both train and measure one pack of every combination in which the code of published tables has
changed, each with its own code in processes of its own. Fingerprints of code whose results are
equal byte for byte are recorded in `results/published/proofs.json`, and tables that the older code
made do not count as made with other code any more (`flatlab.lab.plan.published`). Every array is
compared byte for byte, and of weights what describes them, apart from names that changed.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flatlab.core.paths import PROOFS, record_of
from flatlab.core.progress import Progress
from flatlab.core.schema import Refusal
from flatlab.core.store import load_dataset, load_json, load_weights, save_json
from flatlab.lab.jobs.job import commit_of
from tools.prove_equal.jobs import Change, Cut, Piece, Planned, pieces

DRIVER = Path(__file__).with_name("checkout.py")


@dataclass
class Version:
    """A checkout, and the folder for its results.

    checkout: an absolute path.
    folder: its jobs run there.
    config: the configuration of its plan and its jobs.
    """

    checkout: Path
    folder: Path
    config: Mapping[str, Any]

    def ask(self, what: str, request: Mapping[str, Any]) -> Any:
        """Run the driver in a process of its own; raise `Refusal` with what that says."""
        self.folder.mkdir(parents=True, exist_ok=True)
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
        done = subprocess.run(
            [sys.executable, "-P", str(DRIVER), str(self.checkout), what],
            input=json.dumps({"config": dict(self.config), **request}),
            cwd=self.folder,
            env={**os.environ, **threads, "PYTHONPATH": str(self.checkout)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            said = [line for line in lines if line.startswith("flatlab ")] or lines[-1:]
            raise Refusal(f"{self.checkout}: {' '.join(said) or 'the process ended'}")
        return json.loads(done.stdout) if what == "plan" else None


@dataclass
class Outcome:
    """What a piece shows.

    piece: the pack.
    unequal: by stage, what differs, in words.
    files: how many files of each stage were compared.
    arrays: how many arrays these have.
    """

    piece: Piece
    unequal: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    files: Counter[str] = field(default_factory=Counter)
    arrays: Counter[str] = field(default_factory=Counter)


class Proof:
    """Computes what both versions need, as far as that is not done yet, and compares it.

    old: the checkout whose code made the tables.
    new: this one.
    experiments: keys by scale.
    cut: how much is trained.
    renamed: new names of quantities by old ones, "" for those that are gone.
    """

    def __init__(
        self,
        old: Version,
        new: Version,
        experiments: Mapping[str, Sequence[str]],
        cut: Cut,
        renamed: Mapping[str, str],
    ) -> None:
        self.versions = {"old": old, "new": new}
        self.cut, self.renamed = cut, renamed
        request = {"experiments": experiments}
        before, now = (Planned(version.ask("plan", request)) for version in (old, new))
        self.pieces = pieces(before, now, cut)
        self.done: list[Outcome] = []

    def forecast(self, seconds_of: Mapping[tuple[str, str], float]) -> str:
        """What it will take, in words.  seconds_of: per unit of work, by kind and network."""
        jobs = [
            job
            for name, version in self.versions.items()
            for piece in self.pieces
            for job in piece.jobs[name]
            if not all((version.folder / path).is_file() for path in job["output"].values())
        ]
        known = [seconds_of.get((job["time"][0], job["time"][1])) for job in jobs]
        timed = zip(known, jobs, strict=True)
        sum_s = sum(seconds * job["time"][2] for seconds, job in timed if seconds is not None)
        sum_s += 4.0 * len(self.versions) * len(self.pieces)  # starting processes
        computing = [s for s, job in zip(known, jobs, strict=True) if job["rule"] != "prepare"]
        took = f"about {sum_s / 60:.0f} minutes"
        if unknown := computing.count(None):
            took += f", and {unknown} jobs of unknown length"
        return f"{len(self.pieces)} packs, {len(jobs)} jobs to do: {took}"

    def run(self) -> Iterator[Outcome]:
        """Compute and compare pack by pack."""
        steps = [(piece, name) for piece in self.pieces for name in self.versions]
        at = 0
        progress = Progress(len(steps), "packs", lambda: str(steps[min(at, len(steps) - 1)][0]))
        for piece in self.pieces:
            outcome = Outcome(piece)
            try:
                for version, jobs in zip(self.versions.values(), piece.jobs.values(), strict=True):
                    progress.advance(lambda: at)  # noqa: B023 - called at once
                    version.ask("run", {"jobs": jobs})
                    at += 1
                self._compare(outcome)
            except Refusal as error:
                outcome.unequal |= {stage: [str(error)] for stage, _, _ in piece.changes}
            self.done.append(outcome)
            yield outcome
        progress.close(len(steps))

    def _compare(self, outcome: Outcome) -> None:
        """Compare all files of a piece, those of the packs that it starts from included."""
        for job in outcome.piece.jobs["new"]:
            stage = job["wildcards"].get("family", "train")
            renamed = self.renamed if job["rule"] == "measure" else {}
            for path in job["output"].values():
                old, new = (version.folder / path for version in self.versions.values())
                if unequal := [f"{path}: {words}" for words in differences(old, new, renamed)]:
                    outcome.unequal[stage] += unequal
                outcome.files[stage] += 1
                outcome.arrays[stage] += len(contents(new)[0])

    def proofs(self) -> list[dict[str, Any]]:
        """What is proved: each change of code, for which every pack that has it is equal."""
        outcomes_of: dict[Change, list[Outcome]] = defaultdict(list)
        for outcome in self.done:
            for change in outcome.piece.changes:
                outcomes_of[change].append(outcome)
        old, new = self.versions.values()
        return [
            {
                "stage": stage,
                "old": before,
                "new": now,
                "old_commit": commit_of(old.checkout),
                "commit": commit_of(new.checkout),
                **asdict(self.cut),
                "renamed": dict(self.renamed),
                **self._machine(outcomes[0]),
                "evidence": [
                    {
                        **dict(zip(("scale", "experiment", "pack"), each.piece.pack, strict=True)),
                        "files": each.files[stage],
                        "equal_arrays": each.arrays[stage],
                    }
                    for each in outcomes
                ],
            }
            for (stage, before, now), outcomes in outcomes_of.items()
            if not any(stage in each.unequal or "train" in each.unequal for each in outcomes)
        ]

    def _machine(self, outcome: Outcome) -> dict[str, Any]:
        path = next(iter(outcome.piece.jobs["new"][-1]["output"].values()))
        record = load_json(record_of(self.versions["new"].folder / path))
        return {key: record[key] for key in ("machine", "device", "versions")}


def record(proofs: Sequence[Mapping[str, Any]]) -> None:
    """Add proofs to those that are recorded, in place of earlier ones about the same code."""
    known = load_json(PROOFS) if PROOFS.is_file() else []
    by_code = {(each["stage"], each["old"], each["new"]): each for each in (*known, *proofs)}
    save_json(PROOFS, [by_code[key] for key in sorted(by_code)])


class Content(NamedTuple):
    """All that makes an array: names of dimensions, type, shape, and bytes or, of text, a list."""

    dims: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    values: Any


def contents(path: Path) -> tuple[dict[str, Content], dict[str, Any]]:
    """The arrays of a result file by name, and of weights what describes them.

    Attributes of datasets are text for readers (names, units, sources) and are left out.
    """
    if path.suffix == ".safetensors":
        arrays, about = load_weights(path)
        return {name: _content((), array) for name, array in arrays.items()}, about
    variables = load_dataset(path).variables
    return {str(name): _content(v.dims, v.to_numpy()) for name, v in variables.items()}, {}


def _content(dims: Iterable[object], array: np.ndarray) -> Content:
    values = array.tolist() if array.dtype == object else array.tobytes()
    return Content(tuple(map(str, dims)), array.dtype.str, array.shape, values)


def differences(old: Path, new: Path, renamed: Mapping[str, str] = {}) -> Iterator[str]:
    """How a file differs from an older one, in words; nothing if they are equal.

    old: the older file.
    new: the other one.
    renamed: new names of quantities and dimensions by old ones; "" for those that are gone.
    """
    (before, about), (after, about_now) = contents(old), contents(new)
    kept = {
        now: each._replace(dims=tuple(renamed.get(dim, dim) for dim in each.dims))
        for name, each in before.items()
        if (now := renamed.get(name, name))
    }
    if lacking := sorted(kept.keys() - after.keys()):
        yield f"lacks {', '.join(lacking)}"
    if further := sorted(after.keys() - kept.keys()):
        yield f"has {', '.join(further)} besides"
    if unequal := sorted(name for name in kept.keys() & after.keys() if kept[name] != after[name]):
        yield f"other values of {', '.join(unequal)}"
    if json.dumps(about, sort_keys=True) != json.dumps(about_now, sort_keys=True):
        yield "another description"
