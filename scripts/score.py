from flatlab.lab.execution import bodies
from flatlab.lab.jobs.job import job

with job(snakemake) as running:
    bodies.score(running)
