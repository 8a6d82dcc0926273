from flatlab import figures, store

with store.job(snakemake) as job:
    grids = job.params.grids
    tables = dict(zip(grids, map(store.load_dataset, job.input.tables), strict=True))
    correlations = dict(zip(grids, map(store.load_dataset, job.input.correlations), strict=True))
    target = f"{job.wildcards.paper}_{job.wildcards.figure}"
    job.save(**figures.make(target, tables, correlations))
