"""Measuring: weights, if any, and data -> quantities.

Reads results/<scale>/models/<experiment>/<pack>{,.dense}.safetensors, or those of the grid whose
networks a zoo has, and results/<scale>/data/<data set>.zarr.zip;
writes results/<scale>/metrics/<experiment>/<family>/<pack>.zarr.zip.
"""


rule measure:
    """Measure one family of quantities, or several joined by +, on one pack."""
    input:
        unpack(inputs(measuring)),
    output:
        HERE.metrics("{experiment}", "{family}", "{pack}"),
    log:
        "logs/{scale}/measure/{experiment}/{family}/{pack}.log",
    cache: HAS_CACHE
    priority: 1  # before training goes on: an interruption, or a failure, leaves whole packs
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu(measuring),
    params:
        kind=kind_of,
        settings=settings(measuring),
        code=code(measuring),
    script:
        "../scripts/job.py"
