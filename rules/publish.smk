"""Published results: their tables -> figures drawn again, results/redrawn/<scale>/; nothing is trained."""


use rule draw as redraw with:
    input:
        tables=lambda wildcards: published(tables_of_figure(wildcards)),
        correlations=lambda wildcards: published(correlations_of_figure(wildcards)),
    output:
        pdf="results/redrawn/{scale}/{paper}/{figure}.pdf",
        svg="results/redrawn/{scale}/{paper}/{figure}.svg",
        png="results/redrawn/{scale}/{paper}/{figure}.png",
        csv="results/redrawn/{scale}/{paper}/{figure}.csv",
    log:
        "logs/{scale}/redraw/{paper}/{figure}.log",


rule published:
    """Draw all published figures again from their tables."""
    input:
        [
            f"results/redrawn/{scale}/{figure.paper}/{figure.key}.pdf"
            for scale in plan.published_scales()
            for figure in plan.published_figures(scale)
        ],
