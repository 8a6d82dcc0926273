from flatlab import jobs, scoreboard, store
from flatlab.scoreboard import page

with jobs.job(snakemake) as job:
    verdicts = [store.load_json(path) for path in job.input]
    board = scoreboard.collect(verdicts)
    job.save(json=board, html=page.as_html(board, verdicts))
