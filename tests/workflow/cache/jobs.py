"""Every job of the project as it is planned: its params, and what tells which use what."""

from dataclasses import dataclass, field
from typing import Any

from flatlab.lab import plan


@dataclass
class Job:
    """One job: its params, and what tells which use what.

    kind: prepare, train, measure, table, draw or verify.  scale: which the job is planned at.
    facts: settings of the pack that is trained or measured, or those of the figure.
    """

    kind: str
    scale: str
    settings: Any
    code: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def network(self):
        return self.facts.get("network", {"name": "", "initialization": "", "options": {}})

    @property
    def training(self):
        return self.facts.get("training", {})


def jobs_of(scales=plan.SCALES):
    """Every job of the project by its name: "demo: train mlp-grid lr0.1-b20-s0-4"."""
    return {
        f"{scale}: {kind} {name}": Job(kind, scale, *about)
        for scale in scales
        for kind, name, *about in _jobs(plan.Plan({"papers": "all", "scale": scale}))
    }


def _jobs(chosen):
    for key, experiment in chosen.experiments.items():
        for data_set in experiment.data_sets:
            yield "prepare", data_set, {}, plan.fingerprint(plan.module_of("data", data_set))
        for pack in experiment.packs:
            facts = {}
            if stage := experiment.training(pack):
                facts = {name: stage.settings[name] for name in ("network", "training", "data")}
                yield "train", f"{key} {pack}", stage.settings, stage.code, facts
            for family in experiment.families:
                stage = experiment.measuring(pack, family)
                yield "measure", f"{key} {family} {pack}", stage.settings, stage.code, facts
        stage = experiment.tabulating(chosen.as_published[key])
        yield "table", key, stage.settings, stage.code
    for figure in chosen.figures:
        yield "draw", figure.target, figure.settings, figure.code, figure.settings
        claims = plan.claims_code(figure.paper)
        yield "verify", figure.target, list(figure.experiments), claims
