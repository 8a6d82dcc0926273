from flatlab import jobs, plan, store

with jobs.job(snakemake) as job:
    parts = [store.load_dataset(path) for path in job.input]
    job.save(plan.kind_of(job.params.kind).tabulate(parts, job.params.settings))
