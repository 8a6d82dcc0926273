from flatlab import jobs, scoreboard, store

with jobs.job(snakemake) as job:
    verdicts = [store.load_json(path) for path in job.input]
    board = scoreboard.collect(verdicts)
    job.save(json=board, html=scoreboard.as_html(board, verdicts))
