"""The body of each job, named like its rule: from the inputs of a running job to its outputs.

What a body needs is imported when it runs: drawing does not wait for torch.
"""

from collections.abc import Sequence

from xarray import Dataset

from flatlab.core.registry import imported
from flatlab.core.store import load_dataset, load_weights
from flatlab.lab.jobs.imports import quick_imports
from flatlab.lab.jobs.job import RunningJob


def prepare(job: RunningJob) -> None:
    """Convert a data set to the common format."""
    from flatlab.data._dataset import load

    job.save(load(job.wildcards.dataset, job.config.get("data_folder")))


def train(*jobs: RunningJob) -> None:
    """Train the networks of packs with the same data and code, side by side where that pays."""
    if "function" in jobs[0].params.settings:  # of a study, which trains one run after the other
        for job in jobs:
            imported("lab/execution", "loop").train(job)
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
    job.save(imported("lab/execution", job.params.kind).measure(job))


def table(job: RunningJob) -> None:
    """Join the metric files of an experiment into one table."""
    from flatlab.lab.execution.metric_origin import check_data, check_weights

    check_data(job.input, job.params.settings["about"])
    check_weights(job.input)
    parts = [load_dataset(path) for path in job.input]
    job.save(imported("lab/execution", job.params.kind).tabulate(parts, job.params.settings))


def correlate(job: RunningJob) -> None:
    """Correlate every pair of quantities in a table."""
    from flatlab.lab.tables.correlations import correlate

    job.save(correlate(load_dataset(job.input.table)))


def draw(job: RunningJob) -> None:
    """Draw one figure, and write the numbers that it shows."""
    from flatlab.lab.figures.render import make

    figure = job.params.settings
    tables = _loaded(figure["experiments"], job.input.tables)
    job.save(**make(figure, tables, _loaded(figure["correlated"], job.input.correlations)))


def verify(job: RunningJob) -> None:
    """Test what a paper claims about one figure."""
    from flatlab.lab.claims.verify import verify

    target = f"{job.wildcards.paper}_{job.wildcards.figure}"
    job.save(verify(target, _loaded(job.params.tables, job.input.tables)))


def score(job: RunningJob) -> None:
    """Count the verdicts of all figures."""
    from flatlab.lab.claims.records import read_verdicts
    from flatlab.lab.publish.scoreboard import Board, as_html

    board = Board(map(read_verdicts, job.input))
    job.save(json=board.content, html=as_html(board))


def _loaded(keys: Sequence[str], paths: Sequence[str]) -> dict[str, Dataset]:
    """Tables by the keys of their experiments."""
    return dict(zip(keys, map(load_dataset, paths), strict=True))
