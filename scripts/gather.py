from flatlab import store
from flatlab.tables.zoo import gather

with store.job(snakemake) as job:
    job.save(gather(map(store.load_dataset, job.input), job.params.settings))
