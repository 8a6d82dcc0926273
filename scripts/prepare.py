from flatlab import data, jobs

with jobs.job(snakemake) as job:
    job.save(data.load(job.wildcards.dataset, job.config.get("data_folder")))
