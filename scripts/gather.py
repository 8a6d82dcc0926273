from flatlab import jobs, store
from flatlab.tables.zoo import gather

with jobs.job(snakemake) as job:
    job.save(gather(map(store.load_dataset, job.input), job.params.settings))
