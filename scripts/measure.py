from flatlab import jobs, metrics, store

with jobs.job(snakemake) as job:
    weights = [store.load_weights(job.input.weights), store.load_weights(job.input.dense)]
    raw = store.load_dataset(job.input.data)
    job.save(metrics.measure_pack(weights, raw, job.params.settings, job.device))
