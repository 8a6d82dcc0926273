"""Zoos: networks by name -> weights, where they are trained here -> quantities, of each job."""


rule train_members:
    """Train the networks of one job, where a zoo says that they are trained here."""
    input:
        data_of_zoo,
    output:
        "results/{scale}/models/{zoo}/{part}.safetensors",
    log:
        "logs/{scale}/train_members/{zoo}/{part}.log",
    conda:
        "../envs/compute.yaml"
    params:
        settings=members_settings,
        code=members_code,
    script:
        "../scripts/train_members.py"


rule survey:
    """Measure the networks of one job: its members, or those whose weights come from elsewhere."""
    input:
        data=data_of_zoo,
        members=members_of_zoo,
    output:
        "results/{scale}/metrics/{zoo}/adaptive/{part}.zarr.zip",
    log:
        "logs/{scale}/survey/{zoo}/{part}.log",
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu_of_device,
    params:
        settings=survey_settings,
        code=survey_code,
    script:
        "../scripts/survey.py"
