"""Verdicts: tables -> which of a figure's claims hold.

Reads results/<scale>/tables/<experiment>.zarr.zip;
writes results/<scale>/verdicts/<paper>/<figure>.json, and of all figures scoreboard.{json,html}.
"""


rule verify:
    """Test what a paper claims about one figure."""
    input:
        tables=tables_of_figure,
    output:
        HERE.verdicts("{paper}", "{figure}"),
    log:
        "logs/{scale}/verify/{paper}/{figure}.log",
    conda:
        "../envs/draw.yaml"
    params:
        tables=lambda wildcards: figure_of(wildcards).experiments,
        code=lambda wildcards: plan.claims_code(wildcards.paper),
    script:
        "../scripts/job.py"


rule score:
    """Count the verdicts of all figures."""
    input:
        [verdicts_of_figure(figure) for figure in PLAN.figures],
    output:
        json=HERE.scoreboard("json"),
        html=report(
            HERE.scoreboard("html"),
            caption="../report/scoreboard.rst",
            category="scoreboard",
        ),
    log:
        "logs/{scale}/score.log",
    conda:
        "../envs/draw.yaml"
    params:
        code=plan.fingerprint("flatlab.lab.publish.scoreboard"),
    script:
        "../scripts/job.py"
