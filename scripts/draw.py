from flatlab import jobs, plotting, store

with jobs.job(snakemake) as job:
    figure = job.params.settings
    tables = zip(figure["experiments"], map(store.load_dataset, job.input.tables), strict=True)
    loaded = zip(figure["correlated"], map(store.load_dataset, job.input.correlations), strict=True)
    job.save(**plotting.make(figure, dict(tables), dict(loaded)))
