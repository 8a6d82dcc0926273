"""What surrounds the computation of a job: lock, log, provenance, resume state, choice of GPU."""

from flatlab.jobs.imports import quick_imports
from flatlab.jobs.job import job, task
from flatlab.jobs.lock import Guard
from flatlab.jobs.unfinished import Content, Unfinished
