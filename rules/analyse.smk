"""Analysis: metric files -> tables of grids, with correlations, and zoos, results/<scale>/tables/."""


rule table:
    """Join the metric files of a grid into one table."""
    input:
        metrics_of_grid,
    output:
        "results/{scale}/tables/{grid}.zarr.zip",
    log:
        "logs/{scale}/table/{grid}.log",
    conda:
        "../envs/draw.yaml"
    params:
        settings=table_settings,
        code=plan.fingerprint("flatlab.tables.table"),
    script:
        "../scripts/table.py"


rule correlate:
    """Correlate all pairs of quantities of a grid, with intervals."""
    input:
        table="results/{scale}/tables/{grid}.zarr.zip",
    output:
        "results/{scale}/tables/{grid}.correlations.zarr.zip",
    log:
        "logs/{scale}/correlate/{grid}.log",
    conda:
        "../envs/draw.yaml"
    params:
        code=plan.fingerprint("flatlab.tables.correlations"),
    script:
        "../scripts/correlate.py"


rule gather:
    """Join the files of a zoo into one table."""
    input:
        metrics_of_zoo,
    output:
        "results/{scale}/tables/{zoo}.zarr.zip",
    log:
        "logs/{scale}/gather/{zoo}.log",
    conda:
        "../envs/draw.yaml"
    params:
        settings=gathering_settings,
        code=plan.fingerprint("flatlab.tables.zoo"),
    script:
        "../scripts/gather.py"
