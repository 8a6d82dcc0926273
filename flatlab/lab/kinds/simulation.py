"""A simulation: a computation without trained networks, done in one job.

`simulation` names a file of `flatlab/simulations`; `settings` are its options, of which a scale
overrides some.
"""

from typing import ClassVar

from flatlab.core.options import options_of, section
from flatlab.core.registry import check_known, keys_of, module_of
from flatlab.core.schema import PlanError, Strict, plain
from flatlab.lab.kinds.grids.fidelity import evidence, of_values
from flatlab.lab.plan.experiments import Experiment, Find, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

ALL = "all"
"""The key of the only pack."""


class Simulation(Experiment, frozen=True, kw_only=True):
    """A simulation at one scale."""

    kind: ClassVar[str] = "simulation"
    sections: ClassVar[dict[str, type[Strict]]] = {
        f"settings of {key}": options_of("simulations", key) for key in keys_of("simulations")
    }

    @classmethod
    def load(cls, source: Source, find: Find) -> "Simulation":
        """Read and check a simulation's file."""
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
        """The job that computes the simulation."""
        self.pack(pack)
        return PlannedJob(
            inputs={},
            settings={"simulation": family, **self.packs[ALL]},
            code=fingerprint("flatlab.simulations", module_of("simulations", family)),
            kind=family,
        )

    def tabulating(self, published: Experiment) -> PlannedJob:
        """The job that describes the table.  published: the simulation of the paper."""
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
