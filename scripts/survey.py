from flatlab import data, jobs, store
from flatlab.zoos.survey import survey

with jobs.job(snakemake) as job:
    raw = store.load_dataset(job.input.data) if job.input.data else None
    members = store.load_weights(job.input.members) if job.input.members else None
    folder = data.folder_of(job.config.get("data_folder"))
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = jobs.Unfinished(job.unfinished, identity)
    job.save(survey(job.params.settings, folder, left, raw, members, job.device))
