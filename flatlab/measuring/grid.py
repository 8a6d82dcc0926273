"""The metric file of one pack: families of quantities on every checkpoint of every run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn
from tqdm import tqdm

from flatlab.core.registry import imported, joined
from flatlab.core.store import TrainedPack, as_strings
from flatlab.data._tensors import Split, Splits, prepare
from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.losses._base import loss_of
from flatlab.measuring.preflight import measured, notes_of_many
from flatlab.measuring.quantity import (
    Measured,
    Samples,
    Settings,
    attributes,
    quantities_of,
    settings_of,
)
from flatlab.measuring.stacked import stacked
from flatlab.networks._build import build

State = Mapping[str, torch.Tensor]


def measure_pack(
    packs: Sequence[TrainedPack | tuple[Any, Any]],
    raw: xr.Dataset,
    settings: Mapping[str, Any],
    device: str = "cpu",
    folder: Path = Path("data"),
) -> xr.Dataset:
    """Evaluate a family, or several, on every checkpoint of every run of a pack.

    packs: the files of one pack, at the end and at other steps: arrays and description each.
    raw: a data file.
    settings: `family` (several are joined by +), `data`, `network`, `outputs`, `precision`,
        `samples`, `options` by family, `loss`, `setting`, `hyperparameters`, `seeds`; `test_sets`
        where there are any; and `untrained: False` if step 0 is not measured.
    device: where to measure.
    folder: holds the published files of test sets.

    Returns a dataset with dimensions run, checkpoint, `samples` (the sample sets of the grid) and
    those of the quantities; quantities of single samples are left out. A network with weights
    that are not finite has NaN everywhere.
    """
    files = [TrainedPack(*pack) for pack in packs]
    measurement = Measurement.prepare(raw, settings, device, folder)
    states = [states_of(files, run) for run in files[0].runs]
    about = {**files[0].about, **files[-1].about}
    measured = measurement.on(states, joined(settings["family"]))
    return measured.assign_coords(_run_coordinates(about, settings))


def states_of(files: Sequence[TrainedPack], run: str) -> dict[int, State]:
    """The state dictionary of a run at each step at which it was kept."""
    states = {step: pack.state(run, step) for pack in files for step in pack.steps(run)}
    return {
        step: {name: torch.as_tensor(array) for name, array in state.items()}
        for step, state in states.items()
    }


@dataclass(frozen=True)
class Measurement:
    """How the networks of a pack are measured.

    model: one that takes the weights of each of them.
    splits: the data, whose subsets are the sample sets.
    settings: those of `measure_pack`.
    """

    model: nn.Module
    splits: Splits
    settings: Mapping[str, Any]

    @classmethod
    def prepare(
        cls, raw: xr.Dataset, settings: Mapping[str, Any], device: str, folder: Path
    ) -> "Measurement":
        """Load the data and build the network.  The arguments are those of `measure_pack`."""
        precision = getattr(torch, settings["precision"])
        further = {
            name: imported("data", "corruptions").test_set(
                raw, chosen, settings["data"]["classes"], folder
            )
            for name, chosen in settings.get("test_sets", {}).items()
        }
        splits = prepare(raw, settings["data"], settings["outputs"], precision, device, further)
        shape = tuple(splits.train.inputs.shape[1:])
        model = build(settings["network"], shape, splits.outputs).to(device, precision).eval()
        return cls(model, splits, settings)

    def on(
        self, states: Sequence[Mapping[int, State]], families: Sequence[str], last: bool = False
    ) -> xr.Dataset:
        """The families on networks, with dimensions run and checkpoint.

        states: the weights of each run by step; those of step 0 are its initial ones.
        last: measure the last step alone.
        """
        steps = {step for of_run in states for step in of_run}
        if not self.settings.get("untrained", True):
            steps.discard(0)
        checkpoints = sorted(steps)[-1:] if last else sorted(steps)
        quantities: set[str] = set()
        parts = []
        for name in families:
            part = self._family(name, states, checkpoints)
            parts.append(part.drop_vars(quantities & {*map(str, part.data_vars)}))
            quantities |= {*map(str, part.data_vars)}
        return xr.merge(parts, join="exact", compat="equals", combine_attrs="no_conflicts")

    def _family(
        self, name: str, states: Sequence[Mapping[int, State]], checkpoints: Sequence[int]
    ) -> xr.Dataset:
        family, settings = imported("metrics", name), self.settings
        quantities = quantities_of(family)
        how = settings_of(name, settings["options"][name], loss_of(settings["loss"]))
        results: dict[tuple[int, ...], Measured] = {}
        size = len(states), len(checkpoints)
        for run, checkpoint in tqdm(list(np.ndindex(*size)), mininterval=5):
            if checkpoint == 0:  # of another run, nothing that a family remembers holds
                how = replace(how, memory={}, initial=states[run].get(0))
            if (state := states[run].get(checkpoints[checkpoint])) is None:
                continue
            self.model.load_state_dict(state)
            with preserving_state(self.model):
                results[run, checkpoint] = self._network(name, how)
        per_set = () if hasattr(family, "measure_splits") else ("samples",)
        networks = dict(zip(("run", "checkpoint"), size, strict=True))
        variables, coordinates = stacked(results, networks, quantities, per_set)
        precision = self.splits.train.inputs.dtype
        described = {
            name: (*variable, attributes(quantities[name], precision))
            for name, variable in variables.items()
        }
        where = {**coordinates, "checkpoint": list(checkpoints)}
        return xr.Dataset(described, where, notes_of_many(name, results.values()))

    def _network(self, name: str, how: Settings) -> Measured:
        """A family on the network as it is."""
        family = imported("metrics", name)
        if hasattr(family, "measure_splits"):
            return family.measure_splits(self.model, self.splits, how)
        return self._on_sample_sets(name, replace(how, norms={}))

    def _on_sample_sets(self, name: str, how: Settings) -> Measured:
        """A family on each sample set of the grid, one after the other along the first axis.

        how: its `norms` are those of one network, and shared by its sample sets.

        A set without samples, where a network gets nothing wrong, has NaN. Quantities of single
        samples are left out.
        """
        family = imported("metrics", name)
        sets: list[Measured | None] = []
        for key, chosen in self.settings["samples"].items():
            training = chosen["split"] == "train"
            split = self.splits.train if training else self.splits.test
            draw, wrong = (chosen["size"], chosen["seed"]), chosen["only"] == "misclassified"
            subset = split.misclassified(self.model, *draw) if wrong else split.subset(*draw)
            of_set = replace(
                how,
                memory=how.memory.setdefault(key, {}),
                split=_samples(split),
                held_out=_samples(self.splits.test) if training else None,
            )
            result = measured(name, self.model, _samples(subset), of_set) if len(subset) else None
            sets.append(result)
        some = next(filter(None, sets), Measured({}))
        values = {
            name: np.stack(
                [m.values[name] if m else np.full_like(some.values[name], np.nan) for m in sets]
            )
            for name, quantity in quantities_of(family).items()
            if name in some.values and "sample" not in quantity.dims
        }
        notes = {key: text for part in sets if part for key, text in part.notes.items()}
        coordinates = some.coordinates | {"samples": list(self.settings["samples"])}
        return Measured(values, coordinates, notes)


def _samples(split: Split) -> Samples:
    return Samples(split.inputs, split.targets, split.labels)


def _run_coordinates(about: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of each run.  about: the description of its pack."""
    runs = len(about["runs"])
    by_run = {
        "run": about["runs"],
        "setting": [settings["setting"]] * runs,
        "seed": settings["seeds"],
        **{key: about[key] for key in ("steps", "ended", "lr") if key in about},  # lr: if drawn
        **({"fitted": np.array(about["fitted"], float).tolist()} if "fitted" in about else {}),
        **{key: [value] * runs for key, value in settings["hyperparameters"].items()},
    }
    coordinates: dict[str, Any] = {}
    for key, values in by_run.items():
        text = isinstance(values[0], str)
        coordinates[key] = ("run", as_strings(values) if text else list(values))
    return coordinates
