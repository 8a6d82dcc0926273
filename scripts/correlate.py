from flatlab import store
from flatlab.tables.correlations import correlate

with store.job(snakemake) as job:
    job.save(correlate(store.load_dataset(job.input.table)))
