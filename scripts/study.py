from flatlab import store, studies

with store.job(snakemake) as job:
    wildcards = job.wildcards
    job.save(studies.make(wildcards.study, wildcards.scale, job.params.settings))
