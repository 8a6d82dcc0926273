"""Training: data -> weights and training curves of each pack.

Reads results/<scale>/data/<data set>.zarr.zip, and for fine-tuning
results/<scale>/models/<other experiment>/<pack>.safetensors;
writes results/<scale>/models/<experiment>/<pack>{,.dense}.safetensors and <pack>.curves.zarr.zip.
"""


rule train:
    """Train the networks of one pack: one setting, one block of seeds."""
    input:
        unpack(inputs(training)),
    output:
        **HERE.models("{experiment}", "{pack}"),
    log:
        "logs/{scale}/train/{experiment}/{pack}.log",
    cache: HAS_CACHE
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu(training),
    params:
        settings=settings(training),
        code=code(training),
    script:
        "../scripts/job.py"


if LARGE:

    use rule train as train_large with:
        # Dense checkpoints that exceed the disk budget are deleted once they have been measured.
        output:
            **HERE.models("{experiment}", "{pack}")
            | {"dense": temp(HERE.models("{experiment}", "{pack}")["dense"])},
        wildcard_constraints:
            experiment="|".join(LARGE),

    ruleorder: train_large > train


if OF_FUNCTIONS:

    use rule train as train_one with:
        # A function of a study trains one run; what it returns is all there is.
        output:
            weights=HERE.models("{experiment}", "{pack}")["weights"],
        wildcard_constraints:
            experiment="|".join(OF_FUNCTIONS),

    ruleorder: train_one > train
