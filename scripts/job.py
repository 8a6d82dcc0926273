"""The script of every rule: the body of its job, between lock, log and provenance."""

from flatlab.lab.jobs import bodies
from flatlab.lab.jobs.job import job

with job(snakemake) as running:
    bodies.of_rule(snakemake.rule)(running)
