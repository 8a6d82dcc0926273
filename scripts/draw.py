from flatlab import jobs, plotting, store

with jobs.job(snakemake) as job:
    loaded = map(store.load_dataset, job.input.tables)
    tables = dict(zip(job.params.tables, loaded, strict=True))
    loaded = map(store.load_dataset, job.input.correlations)
    correlations = dict(zip(job.params.grids, loaded, strict=True))
    target = f"{job.wildcards.paper}_{job.wildcards.figure}"
    job.save(**plotting.make(target, tables, correlations))
