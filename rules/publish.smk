"""Published tables -> figures and verdicts anew; nothing is trained.

Reads results/published/<scale>/tables/<experiment>.zarr.zip;
writes what the rules of the other files write to results/<scale>/ to results/redrawn/<scale>/.
"""


use rule draw as redraw with:
    input:
        tables=published_tables,
    output:
        pdf=REDRAWN.figure("{paper}", "{figure}", "pdf"),
        svg=REDRAWN.figure("{paper}", "{figure}", "svg"),
        png=REDRAWN.figure("{paper}", "{figure}", "png"),
        csv=REDRAWN.figure("{paper}", "{figure}", "csv"),
        txt=REDRAWN.figure("{paper}", "{figure}", "txt"),
    log:
        "logs/{scale}/redraw/{paper}/{figure}.log",
    params:
        settings=lambda wildcards: published_figure(wildcards).settings,
        code=lambda wildcards: published_figure(wildcards).code,


use rule verify as reverify with:
    input:
        tables=published_tables,
    output:
        REDRAWN.verdicts("{paper}", "{figure}"),
    log:
        "logs/{scale}/reverify/{paper}/{figure}.log",
    params:
        tables=lambda wildcards: published_figure(wildcards).experiments,
        code=lambda wildcards: plan.claims_code(wildcards.paper),


rule published:
    """Compute the figures and verdicts of all published tables anew."""
    input:
        [
            files_of_figure(figure, plan.redrawn_at(scale))
            for scale in plan.published_scales()
            for figure in plan.published_figures(scale)
        ],
