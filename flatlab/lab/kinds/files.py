"""Networks of a study that were trained elsewhere: their files, and what is known of each.

`files` is a pattern in the study's folder, `runs` a CSV or JSON with a row for each file: its
hyper-parameters, its seed and outcomes such as a test error. One job measures one network.
"""

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from flatlab.core.schema import PlanError, means
from flatlab.core.studies import studies
from flatlab.lab.kinds import Dataset, RunningJob
from flatlab.lab.kinds.user_networks.experiment import Declared, Network, NetworksExperiment
from flatlab.lab.plan.experiments import LoadExperiment, Source
from flatlab.lab.plan.run_records import RunRecords, read_records


class DeclaredFiles(Declared, frozen=True, kw_only=True):
    """The content of the file at one scale, but for its section `measure`."""

    files: Annotated[
        str | list[str], means("state dictionaries, or patterns such as checkpoints/*.pt")
    ]
    runs: Annotated[
        str | None,
        means("CSV or JSON: a row per network with its file, hyper-parameters, seed and outcomes"),
    ] = None
    outcomes: Annotated[
        list[str], means("columns of `runs` that are outcomes, besides those called like one")
    ] = field(default_factory=list)


class Files(NetworksExperiment, frozen=True, kw_only=True):
    """Networks from files at one scale."""

    kind: ClassVar[str] = "files"
    schema: ClassVar[type[Declared]] = DeclaredFiles
    trained: ClassVar[str] = "elsewhere"

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "Files":
        """Read and check the file, and that of the runs; each file of weights is a pack."""
        fields = cls.load_own(source)
        records = _records(source, fields["file"], studies()[fields["study"]])
        packs: dict[str, Network] = {}
        columns = (records.hyperparameters, records.outcomes, records.seeds)
        for name, file, values, outcomes, seed in zip(
            records.names, records.files, *columns, strict=True
        ):
            pack = name.replace(os.sep, "_")
            if pack in packs:
                where = source.location("files")
                raise PlanError(f"{where}: two files are called {pack}; rename one")
            packs[pack] = Network(
                hyperparameters=values, seed=seed, file=str(file), outcomes=outcomes
            )
        return cls(**{**fields, "packs": packs})

    def weights_of(self, pack: str) -> str:
        return str(self.path(self.pack(pack).file))


def _records(source: Source, file: DeclaredFiles, folder: Path) -> RunRecords:
    """What is known of each file that a pattern names; paths are relative to the study's folder."""
    patterns = [file.files] if isinstance(file.files, str) else file.files
    paths: set[str] = set()
    for pattern in patterns:
        if not (there := glob.glob(pattern, root_dir=folder, recursive=True)):
            raise PlanError(f"{source.location('files')}: no file is called like {pattern}")
        paths |= {*there}
    table = None if file.runs is None else Path(os.path.relpath(folder / file.runs))
    return read_records([Path(path) for path in sorted(paths)], table, file.outcomes)


def measure(job: RunningJob) -> Dataset:
    """Measure some families on one network."""
    from flatlab.lab.jobs.memory import quick_imports

    with quick_imports():
        from flatlab.lab.kinds.user_networks.networks import measured

    return measured(job)


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table of the datasets of all metric files, network by network."""
    from flatlab.lab.tables.own_networks import Row, gather

    networks = settings["networks"]
    records = RunRecords(
        files=tuple(Path(network["file"]) for network in networks.values()),
        hyperparameters=tuple(network["hyperparameters"] for network in networks.values()),
        outcomes=tuple(network["outcomes"] for network in networks.values()),
        seeds=tuple(network["seed"] for network in networks.values()),
    )
    places = [place for place in range(len(networks)) for _ in range(settings["jobs"])]
    rows = [(place, Row.of(part)) for place, part in zip(places, parts, strict=True)]
    return gather(rows, records, settings["about"])
