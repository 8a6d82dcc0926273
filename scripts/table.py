from flatlab import jobs, plan, store
from flatlab.tables.origin import check_data

with jobs.job(snakemake) as job:
    check_data(job.input, job.params.settings["about"])
    parts = [store.load_dataset(path) for path in job.input]
    job.save(plan.kind_of(job.params.kind).tabulate(parts, job.params.settings))
