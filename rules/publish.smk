"""Published tables -> their figures, drawn again in results/redrawn/<scale>/; nothing is trained."""


use rule draw as redraw with:
    input:
        tables=published(tables_of_figure),
        correlations=published(correlations_of_figure),
    output:
        pdf="results/redrawn/{scale}/{paper}/{figure}.pdf",
        svg="results/redrawn/{scale}/{paper}/{figure}.svg",
        png="results/redrawn/{scale}/{paper}/{figure}.png",
        csv="results/redrawn/{scale}/{paper}/{figure}.csv",
    log:
        "logs/{scale}/redraw/{paper}/{figure}.log",


rule published:
    """Redraw all published figures from their published tables."""
    input:
        [
            f"results/redrawn/{scale}/{figure.paper}/{figure.key}.pdf"
            for scale in plan.published_scales()
            for figure in plan.published_figures(scale)
        ],
