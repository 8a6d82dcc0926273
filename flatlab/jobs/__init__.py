"""What surrounds the computation of a job: lock, log, provenance, resume state, choice of GPU."""

from flatlab.jobs.imports import quick_imports
from flatlab.jobs.job import RunningJob, job, running
from flatlab.jobs.lock import Guard
from flatlab.jobs.resume_state import Content, ResumeState

__all__ = ["Content", "Guard", "ResumeState", "RunningJob", "job", "quick_imports", "running"]
