"""Data: a download, or a data set that comes with a library -> results/<scale>/data/<data set>.zarr.zip."""


rule prepare:
    """Convert a data set to the common format."""
    output:
        "results/{scale}/data/{dataset}.zarr.zip",
    log:
        "logs/{scale}/prepare/{dataset}.log",
    conda:
        "../envs/compute.yaml"
    params:
        code=lambda wildcards: plan.fingerprint(
            plan.module_of("data", wildcards.dataset)
        ),
    script:
        "../scripts/prepare.py"
