"""Published tables -> correlations, figures and verdicts anew, results/redrawn/<scale>/; nothing is trained."""


use rule correlate as recorrelate with:
    input:
        table=local("results/published/{scale}/tables/{experiment}.zarr.zip"),
    output:
        "results/redrawn/{scale}/tables/{experiment}.correlations.zarr.zip",
    log:
        "logs/{scale}/recorrelate/{experiment}.log",


use rule draw as redraw with:
    input:
        tables=published_tables,
        correlations=lambda wildcards: correlations_of_figure(
            wildcards, plan.redrawn_at
        ),
    output:
        pdf="results/redrawn/{scale}/figures/{paper}/{figure}.pdf",
        svg="results/redrawn/{scale}/figures/{paper}/{figure}.svg",
        png="results/redrawn/{scale}/figures/{paper}/{figure}.png",
        csv="results/redrawn/{scale}/figures/{paper}/{figure}.csv",
    log:
        "logs/{scale}/redraw/{paper}/{figure}.log",


use rule verify as reverify with:
    input:
        tables=published_tables,
    output:
        "results/redrawn/{scale}/verdicts/{paper}/{figure}.json",
    log:
        "logs/{scale}/reverify/{paper}/{figure}.log",


rule published:
    """Compute the correlations, figures and verdicts of all published tables anew."""
    input:
        [
            files_of_figure(figure, plan.redrawn_at(scale))
            for scale in plan.published_scales()
            for figure in plan.published_figures(scale)
        ],
