"""A grid of networks that a function of the study trains, a run per setting and seed.

The function is given the hyper-parameters of the setting and the seed by name, and returns a state
dictionary, or that and a mapping of outcomes. One job trains one run, another one measures it.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import field

from flatlab.core.paths import built_at
from flatlab.core.schema import PlanError, Strict, means, refuse_unknown
from flatlab.lab.kinds.grids.packs import seed_blocks
from flatlab.lab.kinds.grids.settings import key_of
from flatlab.lab.kinds.own.networks import Declared, Network, Networks, check_values
from flatlab.lab.plan.experiments import Find, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint
from flatlab.lab.plan.own_functions import Function, module_of_function

SEED = "seed"


class DeclaredLoop(Declared, frozen=True, kw_only=True):
    """The content of the file at one scale, but for its section `measure`."""

    train: Annotated[
        Function, means("trains one run: hyper-parameters and seed in, state dictionary out")
    ]
    settings: Annotated[
        dict[str, Any] | list[dict[str, Any]],
        means("factors whose product is taken, lr: [0.1, 0.2], or a list of settings"),
    ]
    exclude: Annotated[list[dict[str, Any]], means("combinations of factors to leave out")] = field(
        default_factory=list
    )
    seeds: Annotated[list[int | str], means("of each setting: [0-4], or [0, 7]", min_length=1)]


class Loop(Networks, frozen=True, kw_only=True):
    """Networks that a function of the study trains, at one scale."""

    kind: ClassVar[str] = "loop"
    schema: ClassVar[type[Declared]] = DeclaredLoop
    trained: ClassVar[str] = "by a function of the study"
    sections: ClassVar[dict[str, type[Strict]]] = {}

    @classmethod
    def load(cls, source: Source, find: Find) -> "Loop":
        """Read and check the file; each run is a pack."""
        fields = cls.load_own(source)
        file = fields["file"]
        module_of_function(file.train, fields["study"], source.place("train"))
        blocks = seed_blocks(file.seeds, source.place("seeds"))
        packs: dict[str, Network] = {}
        for values in _settings(source, file):
            for seed in itertools.chain(*blocks):
                run = f"{key_of(values, source.place('settings'))}-s{seed}"
                if run in packs:
                    raise PlanError(f"{source.place('settings')}: {run} is declared twice")
                packs[run] = Network(hyperparameters=values, seed=seed)
        return cls(**{**fields, "packs": packs})

    def training(self, pack: str) -> PlannedJob:
        """The job that trains a run."""
        network: Network = self.pack(pack)
        settings = {
            "study": self.study,
            "function": self.file.train,
            "arguments": {**network.hyperparameters, SEED: network.seed},
        }
        module = module_of_function(self.file.train, self.study, self.key)
        return PlannedJob(
            inputs={},
            settings=settings,
            code=fingerprint(module),
            gpu=True,
            kind="train",
            network=self.file.train,
        )

    def weights(self, pack: str) -> dict[str, str]:
        return {"weights": built_at(self.scale).models(self.key, pack)["weights"]}

    def weights_of(self, pack: str) -> str:
        return self.weights(pack)["weights"]


def _settings(source: Source, file: DeclaredLoop) -> Iterator[dict[str, Any]]:
    """Each setting: those of a list, or the product of factors less what is excluded."""
    where, place = source.place("settings"), source.place("exclude")
    if not file.settings:
        raise PlanError(f"{where}: expected factors such as lr: [0.1, 0.2], or a list of settings")
    names = {*(file.settings if isinstance(file.settings, dict) else file.settings[0])}
    if SEED in names:
        raise PlanError(f"{where}.{SEED}: seeds stand under `seeds`")
    if isinstance(file.settings, list):
        if file.exclude:
            raise PlanError(f"{place}: only a product of factors has combinations to exclude")
        combinations = file.settings
        for number, values in enumerate(combinations):
            if {*values} != names:
                raise PlanError(f"{where}[{number}]: it must name {', '.join(sorted(names))}")
    else:
        for name, factor in file.settings.items():
            if not isinstance(factor, list) or not factor:
                raise PlanError(f"{where}.{name}: expected a list of values, found {factor!r}")
        products = itertools.product(*file.settings.values())
        combinations = [dict(zip(file.settings, each, strict=True)) for each in products]
    for number, entry in enumerate(file.exclude):
        refuse_unknown(entry, names, f"{place}[{number}]")
        if not any(_has(values, entry) for values in combinations):
            raise PlanError(f"{place}[{number}]: no combination has {entry}")
    for values in combinations:
        check_values(values, where)
        if not any(_has(values, entry) for entry in file.exclude):
            yield values


def _has(values: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    return entry.items() <= values.items()


Loop.sections = Loop.documented("loop")
