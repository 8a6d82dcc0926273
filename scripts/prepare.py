from flatlab import data, store

with store.job(snakemake) as job:
    job.save(data.load(job.wildcards.dataset, job.config.get("data_folder")))
