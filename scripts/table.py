from flatlab import store
from flatlab.tables.table import collect

with store.job(snakemake) as job:
    job.save(collect(map(store.load_dataset, job.input), job.params.settings))
