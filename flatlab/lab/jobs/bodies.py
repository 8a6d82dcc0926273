"""The body of each job, named like its rule: from the inputs of a running job to its outputs.

`scripts/job.py` and `flatlab run` call them. What a body needs is imported when it runs: drawing
does not wait for torch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xarray import Dataset

from flatlab.core.paths import record_of
from flatlab.core.registry import imported
from flatlab.core.store import StoreError, load_dataset, load_json, load_weights
from flatlab.lab.jobs.job import RunningJob
from flatlab.lab.jobs.memory import quick_imports

VARIANTS = {"train_large": "train", "train_one": "train", "redraw": "draw", "reverify": "verify"}
"""Rules that differ from another in their files alone."""


def of_rule(name: str) -> Callable[[RunningJob], None]:
    """The body of the jobs of a rule."""
    body: Callable[[RunningJob], None] = globals()[VARIANTS.get(name, name)]
    return body


def prepare(job: RunningJob) -> None:
    """Convert a data set to the common format."""
    from flatlab.data._dataset import load

    job.save(load(job.wildcards.dataset, job.config.get("data_folder")))


def train(*jobs: RunningJob) -> None:
    """Train the networks of packs with the same data and code, side by side where that pays."""
    if "function" in jobs[0].params.settings:  # of a study, which trains one run after the other
        for job in jobs:
            imported("lab/kinds", "networks").train(job)
        return
    with quick_imports():
        from flatlab.lab.train.run import train_packs

    first = jobs[0]
    trained = train_packs(
        load_dataset(first.input.data),
        [job.params.settings for job in jobs],
        first.device,
        starts=[[load_weights(path) for path in job.input.get("start", [])] for job in jobs],
        folders=[job.unfinished for job in jobs],
        code=first.params.code,
        save_every_s=first.config["save_every_s"],
    )
    for job, networks in zip(jobs, trained, strict=True):
        job.save(**vars(networks))


def measure(job: RunningJob) -> None:
    """Measure one family of quantities, or several joined by +, on one pack."""
    job.save(imported("lab/kinds", job.params.kind).measure(job))


def table(job: RunningJob) -> None:
    """Join the metric files of an experiment into one table."""
    check_data(job.input, job.params.settings["about"])
    check_hyperparameters(job.input, job.params.settings.get("networks", {}))
    check_weights(job.input)
    parts = [load_dataset(path) for path in job.input]
    job.save(imported("lab/kinds", job.params.kind).tabulate(parts, job.params.settings))


def draw(job: RunningJob) -> None:
    """Draw one figure, and write the numbers that it shows."""
    from flatlab.lab.figures.render import make

    figure = job.params.settings
    job.save(**make(figure, _loaded(figure["experiments"], job.input.tables)))


def verify(job: RunningJob) -> None:
    """Test what a paper claims about one figure."""
    from flatlab.lab.claims import verify

    target = f"{job.wildcards.paper}_{job.wildcards.figure}"
    job.save(verify(target, _loaded(job.params.tables, job.input.tables)))


def score(job: RunningJob) -> None:
    """Count the verdicts of all figures."""
    from flatlab.lab.publish.scoreboard import Board, as_html
    from flatlab.lab.verdict_files import read_verdicts

    board = Board(map(read_verdicts, job.input))
    job.save(json=board.content, html=as_html(board))


# Metric files that were restored, or made on another machine, are taken as they are: Snakemake
# compares the settings of jobs that it ran itself, and has no others. So a table asks its files.


def check_data(paths: Iterable[str], about: Mapping[str, Any]) -> None:
    """Raise `StoreError` if a metric file of a grid was measured on other data than its table says.

    Grids alone are asked, since `stand_ins` exchanges the data of grids alone: what a zoo or a
    simulation computes on is in its own file, and a study names its samples in its settings.

    paths: metric files; one without a record beside it is not checked.
    about: the attributes of the table; only those of a grid name a network.
    """
    if "network" not in about:
        return
    for path, record in _records(paths):
        key = record["settings"]["data"]["set"]
        if key not in about["data"].split(" and "):
            raise StoreError(
                f"{path} was measured on {key}, this run is of {about['data']}; with "
                f"stand_ins: {{{about['data']}: {key}}} in config.yaml it is used, and "
                "figures say so; or delete the file to measure again"
            )


def check_hyperparameters(paths: Iterable[str], networks: Mapping[str, Any]) -> None:
    """Raise `StoreError` if a network was measured as another than its table says.

    `snakemake --touch` accepts what was measured before a hyper-parameter was edited.

    paths: metric files.  networks: those of a study, by the names of these files.
    """
    for path, record in _records(paths) if networks else ():
        now = networks[path.name.removesuffix(".zarr.zip")]["hyperparameters"]
        if (then := record["settings"].get("hyperparameters", now)) != now:
            raise StoreError(
                f"{path} is of {then}, and the experiment says {now} today; delete the file to "
                "measure again"
            )


def check_weights(paths: Iterable[str]) -> None:
    """Raise `StoreError` if two families of a pack were measured on different weights.

    Networks that are trained again on another machine differ from the first step on whose last bits
    differ: a row of such a table would be of two networks.

    paths: metric files; one whose record does not name its weights is not checked.
    """
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for path, record in _records(paths):
        for weights, digest in record["inputs"].items():
            if not (digest and weights.endswith(".safetensors")):
                continue
            other, known = first.setdefault((path.name, Path(weights).name), (str(path), digest))
            if known != digest:
                raise StoreError(
                    f"{other} and {path} were measured on different weights of this pack, which "
                    "was trained twice; delete the older one to measure it anew"
                )


def _records(paths: Iterable[str]) -> Iterator[tuple[Path, Any]]:
    """The metric files that have a record beside them, and what it says."""
    for path in map(Path, paths):
        if (record := record_of(path)).is_file():
            yield path, load_json(record)


def _loaded(keys: Sequence[str], paths: Sequence[str]) -> dict[str, Dataset]:
    """Tables by the keys of their experiments."""
    return dict(zip(keys, map(load_dataset, paths), strict=True))
