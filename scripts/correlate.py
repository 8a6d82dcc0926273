from flatlab import jobs, store
from flatlab.tables.correlations import correlate

with jobs.job(snakemake) as job:
    job.save(correlate(store.load_dataset(job.input.table)))
