"""flatlab: every figure and table of five papers on flat minima is a target.

`snakemake` builds the papers of config.yaml, `snakemake chen2026` one of them,
`snakemake chen2026_figH8` one figure, and `--list-target-rules` lists all targets.
"""

from snakemake.script import PythonScript
from snakemake.utils import min_version

min_version("9.20")


configfile: "config.yaml"


include: "rules/common.smk"


from flatlab.lab.jobs import forks


report: "report/workflow.rst"


wildcard_constraints:
    scale="|".join(plan.SCALES),
    experiment="[a-z0-9-]+",
    pack="[^/]+",
    family="[a-z0-9+-]+",
    dataset="[a-z0-9-]+",
    paper="[a-z0-9]+",
    figure=plan.FIGURE_KEY,


rule all:
    """Every figure of the configured papers, with the verdicts on its claims."""
    default_target: True
    input:
        files_of_all,
        plan.built_at(PLAN.config.scale).scoreboard("json"),


localrules:  # too light for a cluster's nodes, or (prepare) in need of the internet
    prepare,
    table,
    draw,
    redraw,
    verify,
    reverify,
    score,
    explain,


onstart:
    plan.record_start()
    jobs = [*workflow.dag.needrun_jobs()]
    grids = {
        job.wildcards.experiment
        for job in jobs
        if job.rule.name in ("train", "train_large", "train_one", "table")
    }
    scales = {
        job.wildcards.scale for job in jobs if "scale" in job.wildcards.keys()
    }
    for line in (PLAN.disk_use(grids), *plan.outdated(PLAN.experiment, scales)):
        print(line, end="\n" if line else "")
    if workflow.local_exec:
        # An internal of Snakemake, which has no option for it. The limiter of submissions, which
        # only clusters need, looks for new jobs once a second for each job that has ended: after
        # 137 jobs that took a fifth of a core. tests/workflow/test_limiter.py says when it may go.
        workflow.scheduler.job_rate_limiter = None
        if workflow.is_main_process and PLAN.config.device == "cpu":
            forks.use(PythonScript)


include: "rules/data.smk"


if PLAN.config.packs == "all":  # otherwise metric files are sources

    include: "rules/train.smk"
    include: "rules/measure.smk"


include: "rules/analyse.smk"
include: "rules/figures.smk"
include: "rules/verify.smk"
include: "rules/publish.smk"


for paper, figures in PLAN.papers.items():

    rule:
        name:
            paper
        input:
            [files_of_figure(figure) for figure in figures],

    for figure in figures:

        rule:
            name:
                figure.target
            input:
                files_of_figure(figure),


rule explain:
    """Say why a name on the command line is not a target, and which one may be meant."""
    input:
        why_there_is_no_target,
    output:
        touch("{target}"),
    log:
        "logs/{target}.log",
    wildcard_constraints:
        target="[A-Za-z][A-Za-z0-9_-]*",
    conda:
        "envs/draw.yaml"
    shell:
        "false"
