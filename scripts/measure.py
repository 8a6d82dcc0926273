from flatlab import jobs, plan

with jobs.job(snakemake) as job:
    job.save(plan.kind_of(job.params.kind).measure(job))
