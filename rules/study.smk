"""Studies: settings -> the table of a computation without networks of a grid, results/<scale>/tables/."""


rule study:
    """Compute the table of one study."""
    output:
        "results/{scale}/tables/{study}.zarr.zip",
    log:
        "logs/{scale}/study/{study}.log",
    cache: PLAN.shares_results
    conda:
        "../envs/draw.yaml"
    params:
        settings=study_settings,
        code=study_code,
    script:
        "../scripts/study.py"
