"""Code, params and inputs of every job that makes data or weights, as kept.

They were kept before the house was moved: `python tests/lab/plan/test_job_codes.py` keeps them
anew, which is right only where weights are meant to change.
"""

import hashlib
import json
import sys
from pathlib import Path

from flatlab.core.schema import plain
from flatlab.lab import plan

KEPT = Path(__file__).with_suffix(".json")


def digest(jobs):
    text = json.dumps(jobs, sort_keys=True, default=lambda value: plain(value))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def training_of(the_plan, key, scale):
    """The training jobs of one experiment."""
    experiment = the_plan.experiment(key, scale)
    jobs = [experiment.training(pack) for pack in experiment.packs]
    return digest([[job.inputs, job.settings, job.code] for job in jobs if job])


def codes():
    the_plan = plan.Plan({})
    found = {
        f"{key} {scale}": training_of(the_plan, key, scale)
        for key in sorted(plan.experiment_files())
        for scale in plan.SCALES
    }
    found["data"] = {
        key: plan.fingerprint(plan.module_of("data", key)) for key in plan.keys_of("data")
    }
    return found


def test_every_job_is_the_one_that_was_kept():
    kept, now = json.loads(KEPT.read_text()), codes()
    assert {key: now.get(key) for key in kept} == kept


if __name__ == "__main__":
    sys.exit(KEPT.write_text(json.dumps(codes(), indent=0, sort_keys=True) + "\n") < 0)
