"""Which jobs show that two versions of the code compute the same: one pack of every combination.

Trainings are cut to some iterations of some networks; all other settings stay as they are.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WHOLE_SET = 50_000
"""Samples of a data set that is not cut, for the length of an epoch in forecasts."""

Pack = tuple[str, str, str]
"""Scale, experiment and key of a pack."""

Change = tuple[str, str, str]
"""A stage, `train` or a family, and the fingerprints of its code in the old and the new version."""


@dataclass(frozen=True)
class Cut:
    """How much of each training is computed.

    iterations: steps of the optimizer, at most.
    networks: networks of each pack, the first ones, and those from which others start.
    """

    iterations: int = 500
    networks: int = 2


@dataclass
class Piece:
    """One pack that both versions compute.

    pack: scale, experiment and key.
    changes: the stages whose code differs between the versions.
    jobs: those of each version, in order, those of the packs included that it starts from.
    """

    pack: Pack
    changes: list[Change]
    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(self.pack)


class Planned:
    """What one version plans.

    answer: what `tools.prove_equal.checkout.planned` returns.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.packs: dict[Pack, dict[str, Any]] = {
            (scale, key, pack): jobs
            for scale, content in answer.items()
            for key, experiment in content["experiments"].items()
            for pack, jobs in experiment["packs"].items()
        }

    def codes(self, pack: Pack) -> dict[str, str]:
        """The fingerprint of each stage of a pack."""
        jobs = self.packs[pack]
        stages = {"train": jobs["train"], **jobs["measure"]}
        return {name: job["params"]["code"] for name, job in stages.items() if job}

    def combination(self, pack: Pack) -> tuple[Any, ...]:
        """Architecture, loss and data set of a pack; of a zoo, those of all its networks."""
        jobs = self.packs[pack]
        settings = [
            job["params"]["settings"] for job in (jobs["train"], *jobs["measure"].values()) if job
        ]
        if jobs["train"]:
            chosen = settings[0]
            return chosen["network"]["name"], chosen["training"]["loss"], chosen["data"]["set"]
        networks = [n for each in settings for n in each.get("networks", [])]
        of_zoo = {(n["network"]["name"], n["data"]["set"]) for n in networks}
        return (*sorted(of_zoo), *(() if networks else pack[1:2]))


def pieces(old: Planned, new: Planned, cut: Cut) -> list[Piece]:
    """What to compute: of each change of code, the first pack of each architecture, loss and data.

    Packs of which no code differs, and those that one version alone has, are left out.
    """
    found: list[Piece] = []
    seen: set[tuple[Any, ...]] = set()
    for pack in new.packs:
        if pack not in old.packs:
            continue
        before, now = old.codes(pack), new.codes(pack)
        changed = [(s, before[s], now[s]) for s in now if before.get(s, now[s]) != now[s]]
        combination = new.combination(pack)
        if changes := [change for change in changed if (combination, change) not in seen]:
            seen |= {(combination, change) for change in changes}
            found.append(Piece(pack, changes))
    for piece in found:
        families = [stage for stage, _, _ in piece.changes if stage != "train"]
        for name, version in (("old", old), ("new", new)):
            piece.jobs[name] = _Jobs(version, cut).of(piece.pack, families)
    return found


class _Jobs:
    """The jobs of a pack, each behind those whose outputs it reads."""

    def __init__(self, planned: Planned, cut: Cut) -> None:
        self.planned, self.cut = planned, cut
        self.runs: dict[Pack, list[str]] = {}
        """The networks of each pack that is trained, which may be those that others start from."""
        self.order: list[Pack] = []

    def of(self, pack: Pack, families: list[str]) -> list[dict[str, Any]]:
        """The jobs that train a pack and measure it.  families: those to measure."""
        jobs = self.planned.packs[pack]
        measured = {name: copy.deepcopy(jobs["measure"][name]) for name in families}
        if jobs["train"]:
            self._want(pack, jobs["train"]["params"]["settings"]["runs"][: self.cut.networks])
        for job in measured.values():
            self._cut_zoo(job, pack[0])
        trainings = [self._training(each) for each in self.order]
        for job in measured.values() if jobs["train"] else ():
            kept = self._kept(pack)
            settings = job["params"]["settings"]
            job["time"][2] *= len(kept) / len(settings["seeds"])
            settings["seeds"] = [settings["seeds"][number] for number in kept]
        every = [*trainings, *measured.values()]
        return [*self._data(every, pack[0]), *every]

    def _want(self, pack: Pack, runs: list[str]) -> None:
        """Note that networks of a pack are needed, and those from which these start."""
        known = self.runs.setdefault(pack, [])
        known += [run for run in runs if run not in known]
        job = self.planned.packs[pack]["train"]
        settings = job["params"]["settings"]
        for number in self._kept(pack) if "start" in settings else []:
            file, run = settings["start"]["runs"][number]
            self._want(_pack_of(job["input"]["start"][file], pack[0]), [run])
        if pack not in self.order:
            self.order.append(pack)

    def _kept(self, pack: Pack) -> list[int]:
        """The numbers of the networks of a pack that are trained."""
        runs = self.planned.packs[pack]["train"]["params"]["settings"]["runs"]
        return [number for number, run in enumerate(runs) if run in self.runs[pack]]

    def _training(self, pack: Pack) -> dict[str, Any]:
        """The job that trains a pack, cut."""
        job: dict[str, Any] = copy.deepcopy(self.planned.packs[pack]["train"])
        settings, kept = job["params"]["settings"], self._kept(pack)
        training = settings["training"]
        batch = training["batch_size"]
        full = training["minibatches"] == "full"
        samples = settings["data"].get("samples")
        count = samples if isinstance(samples, int) else batch if full else WHOLE_SET
        per_step = count if full else batch
        seen = (training["iterations"] or 0) * per_step + (training["epochs"] or 0) * count
        steps = max(self.cut.iterations * batch // per_step, 1)
        steps = min(steps, training["iterations"] or steps)
        training |= {"iterations": steps, "epochs": None}
        job["time"][2] *= min(steps * per_step / seen, 1) * len(kept) / len(settings["runs"])
        for record in (settings, settings.get("start", {})):
            for name in {"seeds", "runs"} & record.keys():
                record[name] = [record[name][number] for number in kept]
        return job

    def _cut_zoo(self, job: dict[str, Any], scale: str) -> None:
        """Keep the first networks of each architecture of a zoo of trained networks."""
        settings, files = job["params"]["settings"], job["input"].get("weights")
        if "networks" not in settings or not isinstance(files, list):
            return
        by_name: dict[str, list[dict[str, Any]]] = {}
        for network in settings["networks"]:
            by_name.setdefault(network["network"]["name"], []).append(network)
        first = [each for alike in by_name.values() for each in alike[: self.cut.networks]]
        chosen = [network for network in settings["networks"] if network in first]
        job["time"][2] *= len(chosen) / len(settings["networks"])
        used = list(dict.fromkeys(network["file"] for network in chosen))
        job["input"]["weights"] = [files[number] for number in used]
        settings["networks"] = [{**each, "file": used.index(each["file"])} for each in chosen]
        for network in chosen:
            self._want(_pack_of(files[network["file"]], scale), [network["run"]])

    def _data(self, jobs: list[dict[str, Any]], scale: str) -> Iterator[dict[str, Any]]:
        """The jobs that prepare the data sets of other jobs."""
        read = (path for job in jobs for path in job["input"].values())
        paths = [each for path in read for each in (path if isinstance(path, list) else [path])]
        for path in dict.fromkeys(path for path in paths if Path(path).parent.name == "data"):
            name = Path(path).name.removesuffix(".zarr.zip")
            yield {
                "rule": "prepare",
                "input": {},
                "output": {"data": path},
                "params": {"code": self.planned.answer[scale]["data"][name]},
                "wildcards": {"scale": scale, "dataset": name},
                "gpu": False,
                "time": ["prepare", name, 0.0],
            }


def _pack_of(path: str, scale: str) -> Pack:
    """The pack of a file of weights: results/<scale>/models/<experiment>/<pack>.safetensors."""
    return scale, Path(path).parent.name, Path(path).name.removesuffix(".safetensors")
