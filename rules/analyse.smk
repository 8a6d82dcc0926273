"""Analysis: metric files -> one table per experiment.

Reads results/<scale>/metrics/<experiment>/<family>/<pack>.zarr.zip;
writes results/<scale>/tables/<experiment>.zarr.zip.
"""


rule table:
    """Join the metric files of an experiment into one table."""
    input:
        metrics_of_experiment,
    output:
        HERE.table("{experiment}"),
    log:
        "logs/{scale}/table/{experiment}.log",
    conda:
        "../envs/draw.yaml"
    params:
        kind=kind_of,
        settings=settings(tabulating),
        code=code(tabulating),
    script:
        "../scripts/job.py"
