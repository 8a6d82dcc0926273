from flatlab import jobs, store

with jobs.job(snakemake) as job:
    with jobs.quick_imports():
        from flatlab import train
    [trained] = train.train_packs(
        store.load_dataset(job.input.data),
        [job.params.settings],
        job.device,
        starts=[[store.load_weights(path) for path in job.input.get("start", [])]],
        folders=[job.unfinished],
        code=job.params.code,
        save_every_s=job.config["save_every_s"],
    )
    job.save(**vars(trained))
