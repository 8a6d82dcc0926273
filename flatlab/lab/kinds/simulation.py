"""A simulation: a computation without trained networks, done in one job.

`simulation` names a file of `flatlab/simulations`; `settings` are its options, of which a scale
overrides some.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flatlab.core.options import options_of, section
from flatlab.core.registry import check_known, imported, keys_of, module_of
from flatlab.core.schema import PlanError, Strict, plain
from flatlab.lab.jobs.memory import quick_imports
from flatlab.lab.kinds import Dataset, RunningJob
from flatlab.lab.kinds._evidence import evidence, of_values
from flatlab.lab.plan.experiments import Experiment, LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

ALL = "all"
"""The key of the only pack."""


class Simulation(Experiment, frozen=True, kw_only=True):
    """A simulation at one scale."""

    kind: ClassVar[str] = "simulation"

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        return {f"settings of {k}": options_of("simulations", k) for k in keys_of("simulations")}

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "Simulation":
        source.check_keys(["title", "simulation", "settings"], fixed=("title", "simulation"))
        for key in ("title", "simulation"):
            if not isinstance(source.content.get(key), str):
                raise PlanError(f"{source.name}: {key} is missing, or is not text")
        name = source.content["simulation"]
        check_known("simulations", name, f"{source.name}: simulation")
        settings = plain(section(source.parts("settings"), options_of("simulations", name))[0])
        return cls(
            key=source.key,
            scale=source.scale,
            title=source.content["title"],
            packs={ALL: settings},
            families=[name],
        )

    def measuring(self, pack: str, family: str) -> PlannedJob:
        self.pack(pack)
        return PlannedJob(
            inputs={},
            settings={"simulation": family, **self.packs[ALL]},
            code=fingerprint("flatlab.simulations", module_of("simulations", family)),
            kind=family,
        )

    def tabulating(self, published: Experiment) -> PlannedJob:
        about = {
            **self.identity,
            "data": "synthetic data",
            "stands_in_for": "",
            **evidence(*of_values(self.packs[ALL], published.packs[ALL])),
        }
        return PlannedJob(inputs={}, settings={"about": about}, code="")

    @property
    def about(self) -> list[str]:
        return [f"{key}: {value}" for key, value in self.packs[ALL].items()]


EXPERIMENT = Simulation


def measure(job: RunningJob) -> Dataset:
    """Run the simulation."""
    settings = dict(job.params.settings)
    with quick_imports():
        module = imported("simulations", settings.pop("simulation"))
    table: Dataset = module.table(module.Options(**settings))
    return table


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table: what was simulated, described."""
    (whole,) = parts
    return whole.assign_attrs(settings["about"])
