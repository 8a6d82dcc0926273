"""List the experiments, or every key that their files may set."""

import argparse
from collections.abc import Sequence

from flatlab.cli._main import add_device, add_scale, load_plan
from flatlab.core import text
from flatlab.lab import plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="list only this one")
    help_ = "list the keys that experiments of each kind may set"
    parser.add_argument("--keys", action="store_true", help=help_)
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    chosen = load_plan(options.scale, packs="all")
    keys = [options.experiment] if options.experiment else list(chosen.experiments)
    shown = [chosen.experiment(key) for key in keys]
    if options.keys:
        for kind, sections in plan.keys_of_kinds().items():
            if not options.experiment or kind == shown[0].kind:
                print(f"\nKeys of kind {kind}, by section:")
                for section, described in sections.items():
                    if described:  # some architectures have no options
                        print(f"\n{section}\n{text.table('<<<', *described)}")
        return 0
    for each in shown:
        lines = [f"{each.key} ({each.kind}, {each.scale}): {each.title}", *each.about]
        print("\n  ".join(lines))
    print("\nflatlab experiments --keys lists the keys that a file of each kind may set")
    return 0


def add_arguments_estimate(parser: argparse.ArgumentParser) -> None:
    help_ = "figures, papers or experiments, or all; the papers that config.yaml names by default"
    parser.add_argument("name", nargs="*", help=help_)
    add_scale(parser)
    add_device(parser)


def run_estimate(options: argparse.Namespace) -> int:
    """Predict the number of jobs, hours and disk space of a run."""
    from flatlab.lab.jobs import forecast  # xarray, which lists of experiments do not need

    chosen = load_plan(options.scale, options.device)
    experiments = forecast.experiments_named(chosen, options.name)
    here, there = forecast.recorded(chosen, experiments=chosen.experiments), forecast.published()
    factor = forecast.slower(here, there, chosen.config.device)
    scaled = {key: (seconds * factor, *rest) for key, (seconds, *rest) in there.items()}
    kinds = forecast.forecast(chosen, scaled | here, experiments)
    rows: list[Sequence[object]] = [("jobs of", "network", "to do", "done", "hours", "from")]
    for *head, hours, basis in kinds:
        shown = "unknown" if hours is None else f"{hours:.2f}"
        rows.append([*head, shown, basis or "no record: build one such job first"])
    unknown = sum(each.jobs for each in kinds if each.hours is None)
    took = f"{sum(each.hours or 0 for each in kinds):.2f} hours one after the other"
    took += f", {unknown} of unknown length" if unknown else ""
    print(text.table("<<>>><", *rows))
    device = chosen.config.device
    print(
        f"{sum(each.jobs for each in kinds)} jobs: {took}; with {forecast.JOB_S[device]:g} s per "
        f"job for starting it, on {device}, "
        + (
            "at the speed of the machines in the records"
            if factor == 1
            else f"with published times multiplied by {factor:.2g}, as jobs here took"
        )
    )
    if disk := chosen.disk_use(forecast.with_needs(chosen, chosen.config.scale, experiments)):
        print(disk)
    return 0
