"""Training: data -> weights and training curves of each pack, results/<scale>/models/<grid>/."""


rule train:
    """Train the networks of one pack: one setting, one block of seeds."""
    input:
        data=data_of_pack,
    output:
        weights="results/{scale}/models/{grid}/{pack}.safetensors",
        dense="results/{scale}/models/{grid}/{pack}.dense.safetensors",
        curves="results/{scale}/models/{grid}/{pack}.curves.zarr.zip",
    log:
        "logs/{scale}/train/{grid}/{pack}.log",
    cache: PLAN.shares_results
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu_of_device,
    params:
        settings=train_settings,
        code=train_code,
    script:
        "../scripts/train.py"


if LARGE_GRIDS:

    use rule train as train_large with:
        # Their dense checkpoints exceed the budget: they go when they have been measured.
        output:
            weights="results/{scale}/models/{grid}/{pack}.safetensors",
            dense=temp("results/{scale}/models/{grid}/{pack}.dense.safetensors"),
            curves="results/{scale}/models/{grid}/{pack}.curves.zarr.zip",
        wildcard_constraints:
            grid="|".join(LARGE_GRIDS),

    ruleorder: train_large > train
