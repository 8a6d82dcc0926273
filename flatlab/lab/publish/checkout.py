"""What a checkout plans, and some of its jobs: run by a Python process that imports its flatlab.

    python -P flatlab/lab/publish/checkout.py CHECKOUT plan|run < request.json > answer.json

Nothing of this project is imported but what all checkouts have alike: `flatlab.lab.plan.Plan` and
`scripts/<rule>.py`. Results are written to the folder that the process runs in.
"""

import json
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Named(dict[str, Any]):
    """Values by name, as Snakemake passes them to scripts; iterating lists single values."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __iter__(self) -> Iterator[Any]:
        for value in self.values():
            yield from value if isinstance(value, list) else [value]


def planned(checkout: Path, request: dict[str, Any]) -> dict[str, Any]:
    """The jobs of experiments, and of those whose networks they use.

    request: `config`, and the keys of `experiments` by scale.
    Returns by scale and experiment: its kind, and by pack `train` (None if nothing is trained) and
    `measure` by family; each job with its rule, inputs, outputs and params.
    """
    from flatlab.lab.plan import Plan, fingerprint, module_of  # of the checkout

    answer: dict[str, Any] = {}
    for scale, keys in request["experiments"].items():
        plan = Plan({**request["config"], "scale": scale}, checkout / "experiments")
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


def described(
    rule: str, planned: Any, outputs: dict[str, str], wildcards: dict[str, str]
) -> dict[str, Any]:
    """A planned job as data."""
    return {
        "rule": rule,
        "input": planned.inputs,
        "output": outputs,
        "params": {"settings": planned.settings, "code": planned.code},
        "wildcards": wildcards,
        "gpu": planned.gpu,
        "time": [planned.kind, planned.network, planned.work],
    }


def as_passed(job: dict[str, Any], config: dict[str, Any]) -> Named:
    """What Snakemake would pass to the script of a job that is `described`."""
    return Named(
        {key: Named(job[key]) for key in ("input", "output", "params", "wildcards")},
        rule=job["rule"],
        config=Named(config),
        resources=Named(gpu=int(job["gpu"] and config["device"] == "cuda")),
        log=["log"],
    )


def run(checkout: Path, request: dict[str, Any]) -> None:
    """Run jobs one after the other, but those whose outputs are there.

    request: `config`, and `jobs` as `planned` returns them.
    """
    for job in request["jobs"]:
        if not is_done(job):
            script = checkout / "scripts/job.py"
            if not script.is_file():  # of a checkout with a script for each rule
                script = script.with_name(f"{job['rule']}.py")
            runpy.run_path(str(script), {"snakemake": as_passed(job, request["config"])})


def is_done(job: dict[str, Any]) -> bool:
    """Whether the outputs are there, made by this code with these settings after the inputs.

    Inputs that are gone, as weights that are needed only once, do not count.
    """
    inputs = [path for path in Named(job["input"]) if os.path.exists(path)]
    newest = max(map(os.path.getmtime, inputs), default=0)
    wanted = json.loads(json.dumps(job["params"]))
    for path in job["output"].values():
        try:
            about = json.loads(Path(f"{path}.provenance.json").read_text())
            old = os.path.getmtime(path) < newest
        except (OSError, ValueError):
            return False
        if old or any(about.get(key) != wanted.get(key) for key in ("code", "settings")):
            return False
    return True


if __name__ == "__main__":
    checkout, request = Path(sys.argv[1]), json.load(sys.stdin)
    if sys.argv[2] == "run":
        run(checkout, request)
    else:
        json.dump(planned(checkout, request), sys.stdout)
