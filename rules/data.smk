"""Data: a download, or a data set that comes with a library -> one file.

Reads nothing of the workflow; writes results/<scale>/data/<data set>.zarr.zip.
"""


rule prepare:
    """Convert a data set to the common format."""
    output:
        HERE.data("{dataset}"),
    log:
        "logs/{scale}/prepare/{dataset}.log",
    conda:
        "../envs/compute.yaml"
    params:
        code=lambda wildcards: PLAN.preparing(wildcards.dataset).code,
    script:
        "../scripts/job.py"
