"""Measuring: weights -> quantities, results/<scale>/metrics/<grid>/<family>/<pack>.zarr.zip."""


rule measure:
    """Evaluate a family of quantities, or several joined, on every checkpoint of one pack."""
    input:
        weights="results/{scale}/models/{grid}/{pack}.safetensors",
        dense="results/{scale}/models/{grid}/{pack}.dense.safetensors",
        data=data_of_pack,
    output:
        "results/{scale}/metrics/{grid}/{family}/{pack}.zarr.zip",
    log:
        "logs/{scale}/measure/{grid}/{family}/{pack}.log",
    cache: PLAN.shares_results
    conda:
        "../envs/compute.yaml"
    resources:
        gpu=gpu_of_device,
    params:
        settings=measure_settings,
        code=measure_code,
    script:
        "../scripts/measure.py"
