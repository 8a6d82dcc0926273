"""Training: data -> weights and training curves of each pack, results/<scale>/models/<experiment>/."""


rule train:
    """Train the networks of one pack: one setting, one block of seeds."""
    input:
        unpack(inputs(training)),
    output:
        weights="results/{scale}/models/{experiment}/{pack}.safetensors",
        dense="results/{scale}/models/{experiment}/{pack}.dense.safetensors",
        curves="results/{scale}/models/{experiment}/{pack}.curves.zarr.zip",
    log:
        "logs/{scale}/train/{experiment}/{pack}.log",
    cache: PLAN.shares_results
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu(training),
    params:
        settings=settings(training),
        code=code(training),
    script:
        "../scripts/train.py"


if LARGE:

    use rule train as train_large with:
        # Dense checkpoints that exceed the disk budget are deleted once they have been measured.
        output:
            weights="results/{scale}/models/{experiment}/{pack}.safetensors",
            dense=temp("results/{scale}/models/{experiment}/{pack}.dense.safetensors"),
            curves="results/{scale}/models/{experiment}/{pack}.curves.zarr.zip",
        wildcard_constraints:
            experiment="|".join(LARGE),

    ruleorder: train_large > train
