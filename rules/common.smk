"""Functions that the rules use; no rule stands here. Rules see the plan and nothing else."""

import sys
from pathlib import Path

sys.path.insert(
    0, workflow.basedir
)  # the code beside it, whichever flatlab is installed

from flatlab import plan

plan.set_job_environment(workflow.basedir)
try:
    PLAN = plan.Plan(
        config, Path(workflow.basedir, "experiments"), "config.yaml (or --config)"
    )
except plan.PlanError as error:
    raise WorkflowError(str(error)) from None

LARGE = [e.key for e in PLAN.experiments.values() if not e.keeps_dense_checkpoints]


def in_a_sentence(function):
    """A function of wildcards whose `PlanError` ends the workflow with its sentence alone."""

    def checked(wildcards):
        try:
            return function(wildcards)
        except plan.PlanError as error:
            raise WorkflowError(str(error)) from None

    return checked


@in_a_sentence
def experiment_of(wildcards):
    return PLAN.experiment(wildcards.experiment, wildcards.scale)


@in_a_sentence
def training(wildcards):
    stage = experiment_of(wildcards).training(wildcards.pack)
    if stage is None:
        raise WorkflowError(f"{wildcards.experiment} trains nothing")
    return stage


@in_a_sentence
def measuring(wildcards):
    return experiment_of(wildcards).measuring(wildcards.pack, wildcards.family)


def tabulating(wildcards):
    return experiment_of(wildcards).tabulating(PLAN.as_published(wildcards.experiment))


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


def metrics_of_experiment(wildcards):
    experiment = experiment_of(wildcards)
    if not experiment.packs:
        raise WorkflowError(
            f"no pack of {experiment.key} is measured at scale {experiment.scale}; "
            "packs: all trains them"
        )
    return experiment.metric_files


def figure_of(wildcards):
    target = f"{wildcards.paper}_{wildcards.figure}"
    known = {figure.target: figure for figure in plan.figures()}
    if target not in known:
        raise WorkflowError(f"unknown figure {target!r}; {plan.closest(target, known)}")
    return known[target]


def tables_of_figure(wildcards):
    keys = figure_of(wildcards).experiments
    return [f"results/{wildcards.scale}/tables/{key}.zarr.zip" for key in keys]


def correlations_of_figure(wildcards):
    keys = figure_of(wildcards).correlated
    return [
        f"results/{wildcards.scale}/tables/{key}.correlations.zarr.zip" for key in keys
    ]


def verdicts_of_figure(figure):
    return f"results/{PLAN.config.scale}/verdicts/{figure.paper}/{figure.key}.json"


def files_of_figure(figure):
    stem = f"results/{PLAN.config.scale}/figures/{figure.paper}/{figure.key}"
    pictures = [f"{stem}.{extension}" for extension in ("pdf", "svg", "png", "csv")]
    return [*pictures, verdicts_of_figure(figure)]


def published(tables):
    """The published files in the place of some tables: results/published/<scale>/tables/."""
    return [local(path.replace("results", str(plan.PUBLISHED), 1)) for path in tables]


def why_there_is_no_target(wildcards):
    target = f"{wildcards.paper}_{wildcards.figure}"
    try:
        raise WorkflowError(plan.why_not(target))
    except plan.PlanError as error:
        raise WorkflowError(str(error)) from None
