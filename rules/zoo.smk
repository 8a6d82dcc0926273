"""Zoos: networks by name -> quantities -> one table per zoo, results/<scale>/tables/<zoo>.zarr.zip."""


rule survey:
    """Get, and train where a zoo says so, the networks of one job, and measure each."""
    input:
        data_of_zoo,
    output:
        "results/{scale}/metrics/{zoo}/adaptive/{part}.zarr.zip",
    log:
        "logs/{scale}/survey/{zoo}/{part}.log",
    conda:
        "../envs/compute.yaml"
    params:
        settings=survey_settings,
        code=survey_code,
    script:
        "../scripts/survey.py"


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
