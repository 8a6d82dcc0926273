from flatlab.execution import bodies
from flatlab.jobs.job import job

with job(snakemake) as running:
    bodies.verify(running)
