from flatlab import jobs, store
from flatlab.tables.table import collect

with jobs.job(snakemake) as job:
    job.save(collect(map(store.load_dataset, job.input), job.params.settings))
