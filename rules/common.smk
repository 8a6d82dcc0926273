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
        config, Path(workflow.basedir, "grids"), "config.yaml (or --config)"
    )
except plan.PlanError as error:
    raise WorkflowError(str(error)) from None

STUDIES = "|".join(plan.keys_of("simulations")) or "none"
ZOOS = "|".join(plan.zoo_keys()) or "none"
LARGE_GRIDS = [grid.key for grid in PLAN.grids if not grid.keeps_dense_checkpoints]


def grid_of(wildcards):
    return PLAN.grid(wildcards.grid, wildcards.scale)


def pack_of(wildcards):
    packs = grid_of(wildcards).packs
    if wildcards.pack not in packs:
        raise WorkflowError(
            f"unknown pack {wildcards.pack!r} of {wildcards.grid}; "
            f"{plan.closest(wildcards.pack, packs)}"
        )
    return packs[wildcards.pack]


def gpu_of_device(wildcards):
    return 1 if PLAN.config.device == "cuda" else 0


def data_of_pack(wildcards):
    return f"results/{wildcards.scale}/data/{pack_of(wildcards).data.set}.zarr.zip"


def metrics_of_grid(wildcards):
    grid = grid_of(wildcards)
    if not grid.packs:
        raise WorkflowError(
            f"no pack of {grid.key} is measured at scale {grid.scale}; packs: all trains them"
        )
    return [
        grid.metrics(pack, family) for pack in grid.packs for family in grid.families
    ]


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


def train_settings(wildcards):
    return plan.train_settings(pack_of(wildcards))


def train_code(wildcards):
    return plan.train_code(pack_of(wildcards).network.name)


def measure_settings(wildcards):
    return plan.measure_settings(
        grid_of(wildcards), pack_of(wildcards), wildcards.family
    )


def measure_code(wildcards):
    return plan.measure_code(wildcards.family, pack_of(wildcards).network.name)


def table_settings(wildcards):
    return plan.table_settings(grid_of(wildcards), PLAN.as_published(wildcards.grid))


def study_settings(wildcards):
    return plan.study_settings(wildcards.study, wildcards.scale)


def study_code(wildcards):
    return plan.study_code(wildcards.study)


def zoo_of(wildcards):
    return plan.load_zoo(wildcards.zoo, wildcards.scale)


def data_of_zoo(wildcards):
    trained = zoo_of(wildcards).trained
    return f"results/{wildcards.scale}/data/{trained.data}.zarr.zip" if trained else []


def members_of_zoo(wildcards):
    zoo = zoo_of(wildcards)
    return zoo.members(wildcards.part) if zoo.trained else []


def metrics_of_zoo(wildcards):
    zoo = zoo_of(wildcards)
    return [zoo.metrics(part) for part in zoo.parts]


def members_settings(wildcards):
    zoo = zoo_of(wildcards)
    if not zoo.trained:
        raise WorkflowError(f"the networks of {zoo.name} are trained elsewhere")
    return plan.members_settings(zoo, wildcards.part)


def members_code(wildcards):
    return plan.members_code()


def survey_settings(wildcards):
    return plan.survey_settings(zoo_of(wildcards), wildcards.part)


def survey_code(wildcards):
    return plan.survey_code()


def gathering_settings(wildcards):
    return plan.gathering_settings(
        zoo_of(wildcards), plan.load_zoo(wildcards.zoo, "paper")
    )


def why_there_is_no_target(wildcards):
    target = f"{wildcards.paper}_{wildcards.figure}"
    try:
        raise WorkflowError(plan.why_not(target))
    except plan.PlanError as error:
        raise WorkflowError(str(error)) from None
