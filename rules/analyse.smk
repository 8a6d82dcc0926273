"""Analysis: metric files -> one table per grid and its correlations, results/<scale>/tables/."""


rule table:
    """Join the metric files of a grid into one table."""
    input:
        metrics_of_grid,
    output:
        "results/{scale}/tables/{grid}.zarr.zip",
    params:
        settings=table_settings,
        code=plan.fingerprint("flatlab.tables.table"),
    log:
        "logs/{scale}/table/{grid}.log",
    conda:
        "../envs/draw.yaml"
    script:
        "../scripts/table.py"


rule correlate:
    """Correlate all pairs of quantities of a grid, with intervals."""
    input:
        table="results/{scale}/tables/{grid}.zarr.zip",
    output:
        "results/{scale}/tables/{grid}.correlations.zarr.zip",
    params:
        code=plan.fingerprint("flatlab.tables.correlations"),
    log:
        "logs/{scale}/correlate/{grid}.log",
    conda:
        "../envs/draw.yaml"
    script:
        "../scripts/correlate.py"
