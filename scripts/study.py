from flatlab import jobs, simulations

with jobs.job(snakemake) as job:
    wildcards = job.wildcards
    job.save(simulations.make(wildcards.study, wildcards.scale, job.params.settings))
