"""Functions that the rules use; no rule stands here. Rules see the plan and nothing else."""

import functools
import gc
import os
import sys
from pathlib import Path

# What is imported by now stays. Collections that walk all of it, while the syntax of the package
# is read for the fingerprints, took a quarter of the time of planning.
gc.freeze()

# This folder's own code, whichever flatlab is installed.
HOME = Path(str(workflow.current_basedir)).resolve().parent
if (HOME / "flatlab").is_dir():
    sys.path.insert(0, str(HOME))

from flatlab.lab import plan
from flatlab.core.schema import plain


def exit_on_plan_error(function):
    """The same function; a `PlanError` ends Snakemake with its sentence alone."""

    @functools.wraps(function)
    def checked(*arguments):
        try:
            return function(*arguments)
        except plan.PlanError as error:
            raise SystemExit(f"flatlab: {error}") from None

    return checked


def once(function):
    """The same function of wildcards, asked once a job: for its inputs, params and resources."""
    known = {}

    @functools.wraps(function)
    def remembered(wildcards):
        key = (*wildcards.items(),)
        if key not in known:
            known[key] = function(wildcards)
        return known[key]

    return remembered


plan.set_job_environment(str(HOME))
exit_on_plan_error(plan.require_writable_snakemake_folder)()
PLAN = exit_on_plan_error(plan.Plan)(config, "config.yaml (or --config)")
for key, value in plain(PLAN.config).items():  # what config.yaml leaves out
    config.setdefault(key, value)
HERE, REDRAWN = plan.built_at("{scale}"), plan.redrawn_at("{scale}")
LARGE = [e.key for e in PLAN.experiments.values() if not e.keeps_dense_checkpoints]
HAS_CACHE = bool(os.environ.get("SNAKEMAKE_OUTPUT_CACHE"))
OF_FUNCTIONS = [e.key for e in PLAN.experiments.values() if e.by_function]


@exit_on_plan_error
def experiment_of(wildcards):
    return PLAN.experiment(wildcards.experiment, wildcards.scale)


@once
@exit_on_plan_error
def training(wildcards):
    stage = experiment_of(wildcards).training(wildcards.pack)
    if stage is None:
        raise plan.PlanError(f"{wildcards.experiment} trains nothing")
    return stage


@once
@exit_on_plan_error
def measuring(wildcards):
    planned = experiment_of(wildcards).measuring(wildcards.pack, wildcards.family)
    return PLAN.with_content(planned)


@once
@exit_on_plan_error
def tabulating(wildcards):
    experiment = experiment_of(wildcards)
    experiment.check_table()
    return experiment.tabulating(PLAN.as_published[wildcards.experiment])


def kind_of(wildcards):
    return experiment_of(wildcards).kind


def inputs(stage):
    return lambda wildcards: stage(wildcards).inputs


def settings(stage):
    return lambda wildcards: stage(wildcards).settings


def code(stage):
    return lambda wildcards: stage(wildcards).code


def gpu(stage):
    return lambda wildcards: int(PLAN.config.device == "cuda" and stage(wildcards).gpu)


@exit_on_plan_error
def metrics_of_experiment(wildcards):
    experiment = experiment_of(wildcards)
    if not experiment.packs:
        raise plan.PlanError(
            f"no pack of {experiment.key} is measured at scale {experiment.scale}; "
            "packs: all trains them"
        )
    return experiment.metric_files


@exit_on_plan_error
def figure_of(wildcards):
    return PLAN.figure(f"{wildcards.paper}_{wildcards.figure}", wildcards.scale)


def published_figure(wildcards):
    """Of the experiments that it was published with."""
    return plan.as_published(figure_of(wildcards), plan.published_at(wildcards.scale))


def tables_of_figure(wildcards):
    keys = figure_of(wildcards).experiments
    return [plan.built_at(wildcards.scale).table(key) for key in keys]


def correlations_of_figure(wildcards):
    keys = figure_of(wildcards).correlated
    return [plan.built_at(wildcards.scale).correlations(key) for key in keys]


def verdicts_of_figure(figure, place=plan.built_at(PLAN.config.scale)):
    return place.verdicts(figure.paper, figure.key)


def files_of_figure(figure, place=plan.built_at(PLAN.config.scale)):
    endings = ("pdf", "svg", "png", "csv", "txt")
    pictures = [place.figure(figure.paper, figure.key, ending) for ending in endings]
    return [*pictures, verdicts_of_figure(figure, place)]


@exit_on_plan_error
def files_of_all(wildcards):
    PLAN.check_figures()
    return [path for figure in PLAN.figures for path in files_of_figure(figure)]


def published_tables(wildcards):
    """The published tables of a figure. `local`: they are no rule's output."""
    place = plan.published_at(wildcards.scale)
    keys = published_figure(wildcards).experiments
    return [local(str(place.table(key))) for key in keys]


def redrawn_correlations(wildcards):
    keys = published_figure(wildcards).correlated
    return [plan.redrawn_at(wildcards.scale).correlations(key) for key in keys]


@exit_on_plan_error
def why_there_is_no_target(wildcards):
    raise plan.PlanError(PLAN.why_not(wildcards.target))
