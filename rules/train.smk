"""Training: data -> weights and training curves of each pack, results/<scale>/models/<grid>/."""


rule train:
    """Train the networks of one pack: one setting, one block of seeds."""
    input:
        data=data_of_grid,
    output:
        weights="results/{scale}/models/{grid}/{pack}.safetensors",
        curves="results/{scale}/models/{grid}/{pack}.curves.zarr.zip",
    params:
        settings=train_settings,
        code=train_code,
    log:
        "logs/{scale}/train/{grid}/{pack}.log",
    resources:
        gpu=gpu_of_device,
    conda:
        "../envs/compute.yaml"
    script:
        "../scripts/train.py"
