"""What surrounds the computation of a job: lock, log, provenance, resume state, choice of GPU."""

from flatlab.core.resume_state import Content, ResumeState
from flatlab.lab.jobs.imports import quick_imports
from flatlab.lab.jobs.job import RunningJob, job, running
from flatlab.lab.jobs.lock import Guard

__all__ = ["Content", "Guard", "ResumeState", "RunningJob", "job", "quick_imports", "running"]
