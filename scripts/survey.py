from flatlab import data, store
from flatlab.zoos.survey import survey

with store.job(snakemake) as job:
    raw = store.load_dataset(job.input[0]) if job.input else None
    folder = data.folder_of(job.config.get("data_folder"))
    identity = {"settings": job.params.settings, "code": job.params.code}
    left = store.Unfinished(job.unfinished, identity)
    job.save(survey(job.params.settings, raw, folder, left))
