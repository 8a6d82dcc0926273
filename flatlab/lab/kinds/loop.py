"""A grid of networks that a function of the study trains, a run per setting and seed.

The function is given the hyper-parameters of the setting and the seed by name, and returns a state
dictionary, or that and a mapping of outcomes. One job trains one run, another one measures it.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import field

from flatlab.core.paths import built_at
from flatlab.core.schema import PlanError, means
from flatlab.lab.kinds import Dataset, RunningJob, files
from flatlab.lab.kinds._packs import combinations, key_of, seed_blocks, settings
from flatlab.lab.kinds.user_networks.experiment import (
    Declared,
    Function,
    Network,
    NetworksExperiment,
    Value,
    module_of_function,
)
from flatlab.lab.plan.experiments import LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

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


class Loop(NetworksExperiment, frozen=True, kw_only=True):
    """Networks that a function of the study trains, at one scale."""

    kind: ClassVar[str] = "loop"
    schema: ClassVar[type[Declared]] = DeclaredLoop
    trained: ClassVar[str] = "by a function of the study"

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "Loop":
        """Read and check the file; each run is a pack."""
        fields = cls.load_own(source)
        file = fields["file"]
        module_of_function(file.train, fields["study"], source.location("train"))
        blocks = seed_blocks(file.seeds, source.location("seeds"))
        packs: dict[str, Network] = {}
        for values in _settings(source, file):
            for seed in itertools.chain(*blocks):
                run = f"{key_of(values, source.location('settings'))}-s{seed}"
                if run in packs:
                    raise PlanError(f"{source.location('settings')}: {run} is declared twice")
                packs[run] = Network(hyperparameters=values, seed=seed)
        return cls(**{**fields, "packs": packs})

    def training(self, pack: str) -> PlannedJob:
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
    stated = file.settings if isinstance(file.settings, list) else [file.settings]
    if any(SEED in each for each in stated):
        raise PlanError(f"{source.location('settings')}.{SEED}: seeds stand under `seeds`")
    for place, values in settings(source, combinations):
        if {*values} != {*stated[0]}:
            raise PlanError(f"{place}: it must name {', '.join(sorted(stated[0]))}")
        for name, value in values.items():
            if not isinstance(value, Value):
                raise PlanError(f"{place}.{name}: expected a number or a word, found {value!r}")
        yield values


def train(job: RunningJob) -> None:
    """Train one run; `MeasureError` if the function returns no state dictionary of it."""
    from flatlab.lab.jobs.memory import quick_imports

    with quick_imports():
        import torch

        from flatlab.core.errors import MeasureError
        from flatlab.lab.kinds.user_networks.code import called, function_of

    settings = job.params.settings
    name, study = settings["function"], settings["study"]
    function = function_of(name, "train", study)
    result = called(function, "train", name, study, settings["arguments"])
    state, outcomes = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    tensors = state.values() if isinstance(state, Mapping) else ()
    if not tensors or not all(isinstance(each, torch.Tensor) for each in tensors):
        what = type(state).__name__
        raise MeasureError(f"train {name} returned {what}; it must return model.state_dict()")
    try:
        numbers = {str(key): float(value) for key, value in dict(outcomes).items()}
    except (TypeError, ValueError):
        raise MeasureError(
            f"train {name} returned outcomes {outcomes!r}; they must be numbers by name"
        ) from None
    narrow = torch.bfloat16  # which numpy lacks
    arrays = {
        str(key): (each.float() if each.dtype == narrow else each).numpy(force=True).copy()
        for key, each in state.items()
    }
    job.save(weights=(arrays, {"outcomes": numbers}))


def measure(job: RunningJob) -> Dataset:
    """Measure some families on one run, and note the outcomes that its training has told."""
    from flatlab.core.store import load_weights
    from flatlab.lab.tables.own_networks import Row

    _, about = load_weights(job.input.weights)
    row = Row.of(files.measure(job))
    return Row(row.values, {**row.about, "outcomes": about["outcomes"]}).dataset


tabulate = files.tabulate
