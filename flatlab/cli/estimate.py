"""Predict the number of jobs, hours and disk space of a run."""

import argparse
from collections.abc import Sequence

from flatlab.cli._main import add_device, add_scale, load_plan
from flatlab.cli._text import table
from flatlab.lab.jobs.forecast import (
    JOB_S,
    experiments_named,
    forecast,
    published,
    recorded,
    with_needs,
)
from flatlab.lab.plan.plan import Plan

GROUP = "Plan and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "figures, papers or experiments, or all; the papers that config.yaml names by default"
    parser.add_argument("name", nargs="*", help=help_)
    add_scale(parser)
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    print(_as_text(load_plan(options.scale, options.device), options.name))
    return 0


def _as_text(chosen: Plan, names: Sequence[str] = ()) -> str:
    """The forecast as a table, followed by its sums.  names: as for `experiments_named`."""
    experiments = experiments_named(chosen, names)
    kinds = forecast(chosen, published() | recorded(chosen, experiments=experiments), experiments)
    rows: list[Sequence[object]] = [("jobs of", "network", "to do", "done", "hours", "from")]
    for *head, hours, basis in kinds:
        shown = "unknown" if hours is None else f"{hours:.2f}"
        rows.append([*head, shown, basis or "no record: build one such job first"])
    known = sum(each.hours for each in kinds if each.hours is not None)
    unknown = sum(each.jobs for each in kinds if each.hours is None)
    jobs = sum(each.jobs for each in kinds)
    took = f"{known:.2f} hours one after the other"
    how = f"{took}, {unknown} of unknown length" if unknown else took
    parts = (
        table("<<>>><", *rows),
        f"{jobs} jobs: {how}; with {JOB_S:.0f} s per job for starting it, on "
        f"{chosen.config.device}, at the speed of the machines in the records",
        chosen.disk_use(with_needs(chosen, chosen.config.scale, experiments)),
    )
    return "\n".join(filter(None, parts))
