"""Data: nothing or a download -> results/<scale>/data/<data set>.zarr.zip, as published."""


rule prepare:
    """Bring a data set into the form that every data file has."""
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
