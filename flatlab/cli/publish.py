"""Copy built results to results/published/, which the site shows.

`--again` publishes the figures and verdicts that `snakemake published` has computed again from the
published tables, after statistics, claims or drawing have changed.
"""

import argparse

from flatlab.cli._main import add_scale, load_plan
from flatlab.lab import plan
from flatlab.lab.publish.publish import built_figures, keep, publish, publish_redrawn, restore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "experiments, figures or papers; by default everything that is built"
    parser.add_argument("name", nargs="*", help=help_)
    help_ = "what is computed again from published tables, at all scales or at --scale"
    parser.add_argument("--again", action="store_true", help=help_)
    add_scale(parser)


def run(options: argparse.Namespace) -> int:
    if options.again:
        if options.name:
            raise plan.PlanError("--again takes no names: it publishes all figures again")
        files = publish_redrawn(options.scale)
    else:
        chosen = load_plan(options.scale)
        files = publish(chosen, options.name)
        if (empty := built_figures(chosen.config.scale)[1]) and not options.name:
            print(f"show nothing, left out: {', '.join(figure.target for figure in empty)}")
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB, in {plan.PUBLISHED}")
    print("FINDINGS.md looks numbers up in them: python -m tools.findings. The site shows them")
    return 0


def add_arguments_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="key of an experiment")
    parser.add_argument("--restore", action="store_true", help="copy missing files back")
    add_scale(parser)


def run_keep(options: argparse.Namespace) -> int:
    """Put the metric files of measured packs under version control, or restore them from there.

    They are copied to results/published/ for you to commit. `--restore` copies missing ones back to
    results/, from which `snakemake --config packs=measured` draws figures without training.
    """
    experiment = load_plan(options.scale, packs="all").experiment(options.experiment)
    print(restore(experiment) if options.restore else keep(experiment))
    return 0
