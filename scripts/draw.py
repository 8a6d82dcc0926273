from flatlab import jobs, plotting, store
from flatlab.tables.published import with_current_names

with jobs.job(snakemake) as job:
    figure = job.params.figure
    loaded = zip(figure["experiments"], map(store.load_dataset, job.input.tables), strict=True)
    tables = {key: with_current_names(table, key) for key, table in loaded}
    loaded = zip(figure["correlated"], map(store.load_dataset, job.input.correlations), strict=True)
    job.save(**plotting.make(figure, tables, dict(loaded)))
