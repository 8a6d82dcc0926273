"""What surrounds the computation of a job: lock, GPU, memory, log and provenance."""
