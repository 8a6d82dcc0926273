from flatlab import jobs, store
from flatlab.zoos.members import train_members

with jobs.job(snakemake) as job:
    raw = store.load_dataset(job.input[0])
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = jobs.Unfinished(job.unfinished, identity)
    job.save(train_members(job.params.settings, raw, left))
