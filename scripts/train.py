from flatlab import store, train

with store.job(snakemake) as job:
    raw = store.load_dataset(job.input.data)
    weights, curves = train.train_pack(raw, job.params.settings, job.device)
    job.save(weights=weights, curves=curves)
