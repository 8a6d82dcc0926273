from flatlab import claims, jobs, store

with jobs.job(snakemake) as job:
    tables = dict(zip(job.params.tables, map(store.load_dataset, job.input.tables), strict=True))
    target = f"{job.wildcards.paper}_{job.wildcards.figure}"
    job.save(claims.verify(target, tables))
