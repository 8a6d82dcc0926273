"""What a checkout plans, and some of its jobs: run by a Python process that imports its flatlab.

    python -P tools/prove_equal/checkout.py CHECKOUT plan|run < request.json > answer.json

Of that flatlab nothing is used but what all checkouts have alike: `Plan`, `fingerprint` and
`module_of`, and scripts of rules. Results are written to the folder that the process runs in.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

# From this checkout, whichever flatlab is imported.
_standalone = runpy.run_path(str(Path(__file__).parents[2] / "flatlab/lab/jobs/standalone.py"))
described, as_passed, is_done = map(_standalone.get, ("described", "as_passed", "is_done"))


def planned(checkout: Path, request: dict[str, Any]) -> dict[str, Any]:
    """The jobs of experiments, and of those whose networks they use.

    request: `config`, and the keys of `experiments` by scale.
    Returns by scale and experiment: its kind, and by pack `train` (None if nothing is trained) and
    `measure` by family; each job with its rule, inputs, outputs and params.
    """
    from flatlab.lab.plan import Plan, fingerprint, module_of

    answer: dict[str, Any] = {}
    for scale, keys in request["experiments"].items():
        config = {**request["config"], "scale": scale}
        plan = Plan(config)
        known = [key for key in keys if key in plan.experiments]
        needed = {other for key in known for other in plan.experiments[key].needs()}
        answer[scale] = {"experiments": {}, "data": {}}
        for key in sorted({*known, *needed}):
            experiment = plan.experiments[key]
            packs: dict[str, Any] = {}
            answer[scale]["experiments"][key] = {"kind": experiment.kind, "packs": packs}
            for name in experiment.data_sets:
                answer[scale]["data"][name] = fingerprint(module_of("data", name))
            for pack in experiment.packs:
                training = experiment.training(pack)
                packs[pack] = {"train": None, "measure": {}}
                names = {"scale": scale, "experiment": key, "pack": pack}
                if training:
                    outputs = experiment.weights(pack)
                    packs[pack]["train"] = described("train", training, outputs, names)
                for family in experiment.families if key in known else []:
                    stage = experiment.measuring(pack, family)
                    outputs = {"metrics": str(experiment.metrics(pack, family))}
                    names_of_job = {**names, "family": family}
                    job = described("measure", stage, outputs, names_of_job)
                    job["params"]["kind"] = experiment.kind
                    packs[pack]["measure"][family] = job
    return answer


def run(checkout: Path, request: dict[str, Any]) -> None:
    """Run jobs one after the other, but those whose outputs are there.

    request: `config`, and `jobs` as `planned` returns them.
    """
    for job in request["jobs"]:
        if not is_done(job):
            scope = {"snakemake": as_passed(job, request["config"])}
            runpy.run_path(str(checkout / "scripts/job.py"), scope)


if __name__ == "__main__":
    checkout, request = Path(sys.argv[1]), json.load(sys.stdin)
    if sys.argv[2] == "run":
        run(checkout, request)
    else:
        json.dump(planned(checkout, request), sys.stdout)
