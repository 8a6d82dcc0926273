"""What a job of the workflow is: its lock, log, provenance, resume state and the GPU it takes."""

from flatlab.jobs.job import job, task
from flatlab.jobs.lock import Guard
from flatlab.jobs.unfinished import Content, Unfinished

__all__ = ["Content", "Guard", "Unfinished", "job", "task"]
