"""Analysis: metric files -> one table per experiment and its correlations, results/<scale>/tables/."""


rule table:
    """Join the metric files of an experiment into one table."""
    input:
        metrics_of_experiment,
    output:
        "results/{scale}/tables/{experiment}.zarr.zip",
    log:
        "logs/{scale}/table/{experiment}.log",
    conda:
        "../envs/draw.yaml"
    params:
        kind=kind_of,
        settings=settings(tabulating),
        code=code(tabulating),
    script:
        "../scripts/table.py"


rule correlate:
    """Correlate every pair of quantities in a table, with confidence intervals."""
    input:
        table="results/{scale}/tables/{experiment}.zarr.zip",
    output:
        "results/{scale}/tables/{experiment}.correlations.zarr.zip",
    log:
        "logs/{scale}/correlate/{experiment}.log",
    conda:
        "../envs/draw.yaml"
    params:
        code=plan.correlations_code(),
    script:
        "../scripts/correlate.py"
