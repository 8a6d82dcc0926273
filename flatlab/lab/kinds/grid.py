"""A grid: networks that are trained here, one setting and one block of seeds at a time.

`settings` is a list, or factors whose product is taken, less what `exclude` names; a setting and a
block of `seeds` are a pack. A scale overrides keys of the sections, `settings`, `exclude`, `seeds`.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from flatlab.core.options import documented, options_of, section
from flatlab.core.paths import built_at
from flatlab.core.registry import check_known, joined, measures_samples, module_of
from flatlab.core.schema import PlanError, Strict, closest, plain
from flatlab.lab.jobs.memory import quick_imports
from flatlab.lab.kinds import Dataset, RunningJob, _sections
from flatlab.lab.kinds._evidence import evidence, of_packs, of_samples, of_starts, of_test_sets
from flatlab.lab.kinds._packs import VARYING, Pack, check_shared, packs_of, varied_in
from flatlab.lab.kinds._sections import Checkpoints, Measure, reads_of
from flatlab.lab.plan.experiments import Experiment, LoadExperiment, PlannedJob, Source
from flatlab.lab.plan.fingerprint import fingerprint

BUDGET_BYTES = 20 * 10**9
"""Dense checkpoints of a grid that need more space are deleted after the measurement."""

WHOLE_SET, DIGITS = 50_000, 1_433
"""Samples of a data set in forecasts of epochs: planning does not know how many it has, unless they
are one batch or the digits."""

SECTIONS: dict[str, type[Strict]] = {**VARYING, "checkpoints": Checkpoints, "measure": Measure}


class Grid(Experiment, frozen=True, kw_only=True):
    """A set of networks to train, at one scale.

    options: those of each family, by its key.
    sources: the grids that networks start from.
    """

    measure_section: Measure
    options: dict[str, dict[str, Any]]
    sources: dict[str, "Grid"]

    kind: ClassVar[str] = "grid"

    @classmethod
    def sections(cls) -> dict[str, type[Strict]]:
        return {
            **dict(each for name in SECTIONS for each in documented(name, SECTIONS[name])),
            "training.lr": _sections.LogUniform,
            "training.stop": _sections.Stop,
            "training.start": _sections.Start,
            "checkpoints.dense": _sections.Dense,
            "measure.samples.<name>": _sections.Samples,
            "measure.test_sets.<name>": _sections.Corrupted,
            "measure.transformations": _sections.Transformations,
        }

    @classmethod
    def load(cls, source: Source, find: LoadExperiment) -> "Grid":
        source.check_keys(["title", "settings", "exclude", "seeds", *SECTIONS])
        if not isinstance(source.content.get("title"), str):
            raise PlanError(f"{source.name}: title is missing, or no text")
        measure, options = section(source.parts("measure"), Measure)
        packs = packs_of(source)
        return cls(
            key=source.key,
            scale=source.scale,
            title=source.content["title"],
            packs=packs,
            families=measure.families,
            optional=measure.optional,
            measure_section=measure,
            options={family: plain(chosen) for (_, family), chosen in options.items()},
            sources=sources_of(packs.values(), source, find),
        )

    def with_stand_ins(self, stand_ins: Mapping[str, str]) -> "Grid":
        """The same grid with some data sets replaced."""

        def changed(pack: Pack) -> Pack:
            name = stand_ins.get(pack.data.set, pack.data.set)
            return replace(pack, data=replace(pack.data, set=name))

        return replace(self, packs={key: changed(pack) for key, pack in self.packs.items()})

    @property
    def runs(self) -> list[str]:
        """The key of each run, pack by pack."""
        return [run for pack in self.packs.values() for run in pack.runs]

    @property
    def networks(self) -> list[str]:
        """The labels of the networks of its packs, each once."""
        return list(dict.fromkeys(pack.network.label for pack in self.packs.values()))

    @property
    def data_sets(self) -> list[str]:
        return list(dict.fromkeys(pack.data.set for pack in self.packs.values()))

    @property
    def samples(self) -> str:
        """The number of training samples where a data set is cut, in words; otherwise empty."""
        numbers = dict.fromkeys(pack.data.samples for pack in self.packs.values())
        words = [f"{n:,}" if isinstance(n, int) else n for n in numbers]
        return " or ".join(words) if [*numbers] != ["all"] else ""

    def needs(self) -> list[str]:
        sources = ([*grid.needs(), key] for key, grid in self.sources.items())
        return list(dict.fromkeys(itertools.chain(*sources)))

    @property
    def length(self) -> str:
        """The length of the training, in words."""
        lengths = dict.fromkeys(pack.training.length for pack in self.packs.values())
        return " or ".join(each for each in lengths if f"at most {each}" not in lengths)

    def size(self, pack: str) -> int:
        return len(self.packs[pack].seeds)

    def data_file(self, pack: Pack) -> str:
        """The data file of a pack."""
        return str(built_at(self.scale).data(pack.data.set))

    def training(self, pack: str) -> PlannedJob:
        chosen: Pack = self.pack(pack)
        training = chosen.training
        full = training.minibatches == "full"
        whole = DIGITS if chosen.data.set == "digits" else WHOLE_SET
        whole = training.batch_size if full else whole
        count = chosen.data.samples if isinstance(chosen.data.samples, int) else whole
        step = count if full else training.batch_size
        seen = (training.iterations or 0) * step + (training.epochs or 0) * count
        files, start = start_of(chosen, self.sources)
        return PlannedJob(
            inputs={"data": self.data_file(chosen), **({"start": files} if files else {})},
            settings={**train_settings(chosen), **start},
            code=fingerprint(*train_roots(chosen)),
            gpu=True,
            kind="train",
            network=chosen.network.label,
            work=float(chosen.bytes * seen),
        )

    def measuring(self, pack: str, family: str) -> PlannedJob:
        chosen: Pack = self.pack(pack)
        trained = self.weights(pack)
        weights, checkpoints = ["weights", "dense"], 1 + chosen.dense_checkpoints
        # Where there are no dense checkpoints their file is empty, and stays an input.
        if family in self.measure_section.at_the_end and checkpoints > 1:
            weights, checkpoints = ["weights"], 1
        samples = sum(each.size for each in self.measure_section.samples.values())
        loss = chosen.training.loss
        of_loss = options_of("losses", loss).__struct_fields__
        settings = {
            "family": family,
            "data": plain(chosen.data),
            "network": plain(chosen.network),
            "outputs": chosen.outputs,
            "precision": self.measure_section.precision,
            "options": {name: self.options[name] for name in joined(family)},
            "loss": {"loss": loss, **{key: chosen.training.options[key] for key in of_loss}},
            "setting": chosen.setting,
            "hyperparameters": chosen.hyperparameters,
            "seeds": list(chosen.seeds),
        }
        if any(map(measures_samples, joined(family))):
            settings["samples"] = plain(self.measure_section.samples)
        if self.measure_section.untrained is False:
            settings["untrained"] = False
        roots = measure_roots(chosen, family, self.options)
        reads: tuple[str, ...] = ()
        if (test_sets := self.measure_section.test_sets) and "accuracy" in joined(family):
            settings["test_sets"], reads = plain(test_sets), reads_of(test_sets.values())
            roots.append("flatlab.data.corruptions.test_sets")
        if again := self.measure_section.transformations:
            families = [name for name in joined(family) if name in again.families]
            if families:
                first = again.families[0] in families  # the job that stores the change of outputs
                again = replace(again, families=families)
                settings["transformations"] = {**plain(again), "outputs": first}
                roots.append("flatlab.measuring.transformed")
        return PlannedJob(
            inputs={**{name: trained[name] for name in weights}, "data": self.data_file(chosen)},
            settings=settings,
            code=fingerprint(*roots),
            reads=reads,
            gpu=True,
            kind=family,
            network=chosen.network.label,
            work=float(chosen.bytes * samples * checkpoints),
        )

    def check_table(self) -> None:
        check_shared(self.key, self.packs)

    def tabulating(self, published: Experiment) -> PlannedJob:
        assert isinstance(published, Grid)
        ours, theirs = (
            [" and ".join(grid.networks), " and ".join(grid.data_sets)]
            for grid in (self, published)
        )
        replaced = [wanted for used, wanted in zip(ours, theirs, strict=True) if used != wanted]
        about = {
            **self.identity,
            "network": ours[0],
            "data": ours[1],
            "samples": self.samples,
            "length": self.length,
            "stands_in_for": " on ".join(replaced),
            "left_out": self.missing_networks,
            "hyperparameters": varied_in(self.packs),
            **evidence(
                *of_packs(self.packs, published.packs),
                *of_starts(self.sources, published.sources),
                *of_samples(self.measure_section.samples, published.measure_section.samples),
                *of_test_sets(self.measure_section.test_sets, published.measure_section.test_sets),
            ),
        }
        settings = {"runs": self.runs, "diverged_below": self.measure_section.diverged_below}
        if self.measure_section.converged_only:
            settings["converged_only"] = True
        code = fingerprint("flatlab.lab.tables.runs")
        return PlannedJob(inputs={}, settings={**settings, "about": about}, code=code)

    @property
    def about(self) -> list[str]:
        networks, data = " and ".join(self.networks), " and ".join(self.data_sets)
        width = max(map(len, self.packs), default=0) + 2
        lines = [
            f"  {pack.key:<{width}}{pack.training.length} each, mode {pack.training.mode}"
            for pack in self.packs.values()
        ]
        return [f"{len(self.runs)} {networks} networks on {data}, in packs:", *lines]

    @property
    def bytes_at_the_end(self) -> int:
        """The approximate size of the final weights."""
        return sum(pack.bytes for pack in self.packs.values())

    @property
    def bytes_of_dense_checkpoints(self) -> int:
        """The approximate size of the dense checkpoints."""
        return sum(pack.bytes * pack.dense_checkpoints for pack in self.packs.values())

    @property
    def keeps_dense_checkpoints(self) -> bool:
        """Whether they are within the budget; if not, they are deleted after the measurement."""
        return self.bytes_of_dense_checkpoints <= BUDGET_BYTES

    @property
    def disk_use(self) -> str:
        line = f"{_size(self.bytes_at_the_end)} at the end of training"
        if self.missing_networks:
            line += f", {self.missing_networks} networks left out"
        if dense := self.bytes_of_dense_checkpoints:
            fate = "kept" if self.keeps_dense_checkpoints else "deleted when measured"
            line += f", {_size(dense)} of dense checkpoints, {fate}"
        return line


def _size(count: int) -> str:
    power = min(len(f"{count:,}".split(",")) - 1, 3)
    return f"{count / 1000**power:,.3g} {('B', 'kB', 'MB', 'GB')[power]}"


def train_settings(pack: Pack) -> dict[str, Any]:
    """The settings of a training job; besides its code and data, it depends on nothing else."""
    training = plain(pack.training)
    options = training.pop("options")
    training.pop("start", None)  # `start_of` says from which files
    if training["regularizer"] == "none":
        del training["regularizer"]
    return {
        **{key: plain(getattr(pack, key)) for key in ("data", "network", "curves", "seeds")},
        "training": {**training, **options},
        "checkpoints": plain(pack.dense),
        **({} if pack.fitted is UNSET else {"fitted": pack.fitted}),
        "outputs": pack.outputs,
        "runs": pack.runs,
    }


def train_roots(pack: Pack) -> list[str]:
    """The modules that train a pack: the engine, and what the pack names of each registry.

    The mode `loop` trains by torch's own modules, without stacked layers.
    """
    network, training = pack.network, pack.training
    layers = network.options.layers() if training.mode != "loop" else []
    for key in layers:
        check_known("train/layers", key, f"networks/{network.name}: layers")
    return [
        "flatlab.lab.train.run",
        module_of("networks", network.name),
        module_of("losses", training.loss),
        module_of("train/optimizers", training.optimizer),
        module_of("train/initializations", network.initialization),
        *(module_of("train/regularizers", key) for key in joined(training.regularizer)),
        *(module_of("train/augmentations", key) for key in joined(pack.data.augmentation)),
        *(module_of("train/layers", key) for key in layers),
    ]


def measure_roots(pack: Pack, family: str, options: Mapping[str, Any]) -> list[str]:
    """The modules that measure a pack: the families, the architecture and the losses.

    options: those of each family, by its key.
    """
    roots = [module_of("networks", pack.network.name), module_of("losses", pack.training.loss)]
    for name in joined(family):
        roots.append(module_of("families", name))
        for option, folder in options_of("families", name).FOLDERS.items():
            if key := options[name][option]:
                roots.append(module_of(folder, key))
    return ["flatlab.measuring.grid", *roots]


def grid_of(key: str, find: LoadExperiment, location: str) -> Grid:
    """A grid by its key; raises `PlanError` if it is none.  location: of what names it."""
    found = find(key, f"{location}: ")
    if not isinstance(found, Grid):
        raise PlanError(f"{location}: {key} is not a grid, so it has no trained networks")
    return found


def part_of(grid: Grid, settings: Collection[str], location: str) -> Grid:
    """Some settings of a grid alone; raises `PlanError` for one that it does not have."""
    known = {pack.setting for pack in grid.packs.values()}
    for name in settings:
        if name not in known:
            hint = closest(name, known)
            raise PlanError(f"{location}: {grid.key} has no setting {name!r}; {hint}")
    chosen = {key: pack for key, pack in grid.packs.items() if pack.setting in settings}
    return replace(grid, packs=chosen)


def sources_of(packs: Iterable[Pack], source: Source, find: LoadExperiment) -> dict[str, Grid]:
    """The grids that packs of a file start from, by key; raises `PlanError` for what is not there.

    find: returns a grid by its key.
    """
    sources: dict[str, Grid] = {}
    location = source.location("training", "start")
    for pack in packs:
        if (start := pack.training.start) is UNSET:
            continue
        if start.grid == source.key:
            raise PlanError(f"{location}.grid: {start.grid} cannot start from itself")
        if start.grid not in sources:
            sources[start.grid] = grid_of(start.grid, find, f"{location}.grid")
        _starts(pack, sources[start.grid], f"{location}.")
    return sources


def start_of(pack: Pack, sources: Mapping[str, Grid]) -> tuple[list[str], dict[str, Any]]:
    """The files of weights that a pack starts from, and the settings of its training job.

    These say of each run the number of its file and the run in it, and what is drawn anew.
    """
    if (start := pack.training.start) is UNSET:
        return [], {}
    grid = sources[start.grid]
    starts = _starts(pack, grid)
    keys = list(dict.fromkeys(key for key, _ in starts))
    runs = [[keys.index(key), run] for key, run in starts]
    files = [grid.weights(key)["weights"] for key in keys]
    return files, {"start": {"grid": grid.key, "runs": runs, "anew": start.anew}}


def _starts(pack: Pack, grid: Grid, context: str = "") -> list[tuple[str, str]]:
    """Of each run of a pack, the pack and the run of a grid that it starts from."""
    start = pack.training.start
    assert start is not UNSET
    settings = list(dict.fromkeys(each.setting for each in grid.packs.values()))
    if start.setting is None and len(settings) > 1:
        known = ", ".join(settings)
        raise PlanError(f"{context}setting is missing; {grid.key} has several: {known}")
    setting = start.setting or settings[0]
    of_seed = {
        seed: (each.key, run)
        for each in part_of(grid, [setting], f"{context}setting").packs.values()
        for seed, run in zip(each.seeds, each.runs, strict=True)
    }
    seeds = pack.seeds if start.seed == "same" else [start.seed] * len(pack.seeds)
    if lacking := [seed for seed in seeds if seed not in of_seed]:
        raise PlanError(f"{context}seed: {grid.key} has no run {setting}-s{lacking[0]}")
    return [of_seed[seed] for seed in seeds]


EXPERIMENT = Grid


def measure(job: RunningJob) -> Dataset:
    """Measure a family of quantities on the checkpoints of a pack."""
    from flatlab.core.store import TrainedPack, load_dataset

    with quick_imports():
        from flatlab.data._dataset import folder_of

        if "transformations" in job.params.settings:
            from flatlab.measuring.transformed import measure_transformed as measure_pack
        else:
            from flatlab.measuring.grid import measure_pack
    files = job.input.weights, job.input.get("dense")  # of families at the end alone there is none
    weights = [TrainedPack.load(path) for path in files if path]
    raw = load_dataset(job.input.data)
    folder = folder_of(job.config.get("data_folder"))
    return measure_pack(weights, raw, job.params.settings, job.device, folder)


def tabulate(parts: Sequence[Dataset], settings: Mapping[str, Any]) -> Dataset:
    """The table of the datasets of all metric files."""
    from flatlab.lab.tables.runs import of_grid

    return of_grid(parts, settings)
