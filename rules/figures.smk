"""Figures: tables -> pictures, and the numbers that they show.

Reads results/<scale>/tables/<experiment>.zarr.zip;
writes results/<scale>/figures/<paper>/<figure>.{pdf,svg,png,csv,txt}.
"""


rule draw:
    """Draw one figure, and write exactly the numbers that it shows as CSV."""
    input:
        tables=tables_of_figure,
    output:
        pdf=HERE.figure("{paper}", "{figure}", "pdf"),
        svg=report(
            HERE.figure("{paper}", "{figure}", "svg"),
            caption="../report/figure.rst",
            category="{paper}",
            labels={"figure": "{figure}", "scale": "{scale}"},
        ),
        png=HERE.figure("{paper}", "{figure}", "png"),
        csv=HERE.figure("{paper}", "{figure}", "csv"),
        txt=HERE.figure("{paper}", "{figure}", "txt"),
    log:
        "logs/{scale}/draw/{paper}/{figure}.log",
    priority: 1  # drawing takes longer than verifying, and both come last
    conda:
        "../envs/draw.yaml"
    params:
        settings=lambda wildcards: figure_of(wildcards).settings,
        code=lambda wildcards: figure_of(wildcards).code,
    script:
        "../scripts/job.py"
