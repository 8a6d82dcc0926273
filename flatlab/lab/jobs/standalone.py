"""Planned jobs as Snakemake would pass them to a script, for processes without Snakemake.

It needs the standard library alone: `tools/prove_equal` runs this file where `flatlab` is an older
checkout's.
"""

import json
import os
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
