"""Verdicts: tables -> which of a figure's claims hold, results/<scale>/verdicts/<paper>/<figure>.json."""


rule verify:
    """Test what a paper claims about one figure."""
    input:
        tables=tables_of_figure,
    output:
        "results/{scale}/verdicts/{paper}/{figure}.json",
    log:
        "logs/{scale}/verify/{paper}/{figure}.log",
    conda:
        "../envs/draw.yaml"
    params:
        tables=lambda wildcards: figure_of(wildcards).experiments,
        code=lambda wildcards: plan.claims_code(wildcards.paper),
    script:
        "../scripts/verify.py"


rule score:
    """Count the verdicts of all figures."""
    input:
        [verdicts_of_figure(figure) for figure in PLAN.figures],
    output:
        json="results/{scale}/verdicts/scoreboard.json",
        html=report(
            "results/{scale}/verdicts/scoreboard.html",
            caption="../report/scoreboard.rst",
            category="scoreboard",
        ),
    log:
        "logs/{scale}/score.log",
    conda:
        "../envs/draw.yaml"
    params:
        code=plan.fingerprint("flatlab.scoreboard.page"),
    script:
        "../scripts/score.py"
