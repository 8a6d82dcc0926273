"""The metric file of one pack: families of quantities on every checkpoint of every run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from flatlab.core.progress import Progress
from flatlab.core.registry import imported, joined
from flatlab.core.store import TrainedPack, as_strings
from flatlab.data._tensors import Splits, prepare
from flatlab.derivatives.checks.isolation import is_finite, preserving_state
from flatlab.derivatives.jacobians.norms import Norms
from flatlab.derivatives.per_sample.probe import Findings
from flatlab.derivatives.per_sample.stack import State
from flatlab.losses._base import loss_of
from flatlab.measuring.dataset import stacked
from flatlab.measuring.preflight import Known, measure_family, notes_of_many
from flatlab.measuring.quantity import (
    Measured,
    SampleSet,
    Settings,
    attributes,
    quantities_of,
    settings_of,
)
from flatlab.networks._build import build

AT_ONCE = 100
"""Networks that a family may measure at once."""


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
    measurer = GridMeasurer.prepare(raw, settings, device, folder)
    states = [states_of(files, run) for run in files[0].runs]
    about = {**files[0].about, **files[-1].about}
    found = measurer.on(states, joined(settings["family"]))
    return found.assign_coords(_run_coordinates(about, settings))


def states_of(files: Sequence[TrainedPack], run: str) -> dict[int, State]:
    """The state dictionary of a run at each step at which it was kept."""
    states = {step: pack.state(run, step) for pack in files for step in pack.steps(run)}
    return {
        step: {name: torch.as_tensor(array) for name, array in state.items()}
        for step, state in states.items()
    }


@dataclass(frozen=True)
class GridMeasurer:
    """Measures the networks of a pack on the sample sets of its grid.

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
    ) -> "GridMeasurer":
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
        size = {"run": len(states), "checkpoint": len(checkpoints)}
        networks: dict[tuple[int, ...], State] = {
            (run, number): of_run[step]
            for run, of_run in enumerate(states)
            for number, step in enumerate(checkpoints)
            if step in of_run
        }
        results: dict[str, dict[tuple[int, ...], Measured]] = {name: {} for name in families}
        # An architecture, and its derivatives, are checked once: other weights and sample sets go
        # through the same operations.
        known: Known = {}
        covered: dict[str, Findings] = {}
        how: dict[str, Settings] = {}
        before = -1
        progress = Progress(len(networks), "networks", lambda: "")
        with preserving_state(self.model) as begin_anew:
            for done, (network, state) in enumerate(networks.items()):
                if network[0] != before:
                    before = network[0]
                    how = self._settings(families, states[before].get(0), covered)
                for name, found in results.items():
                    if done % AT_ONCE == 1:  # of the first one it was asked what rules cover
                        begin_anew(state)
                        some = dict([*networks.items()][done : done + AT_ONCE])
                        found |= self._together(name, some, how[name])
                    if (*network, 0) not in found:
                        begin_anew(state)
                        found |= self._alone(name, network, how[name], known)
                progress.advance(lambda: done + 1)  # noqa: B023 - it is called before the next one
        progress.close(len(networks))
        parts = [self._dataset(name, found, size) for name, found in results.items()]
        # of a quantity of several families the first one counts
        merged = xr.merge(parts, join="exact", compat="override", combine_attrs="no_conflicts")
        return merged.assign_coords(checkpoint=checkpoints)

    def _settings(
        self, families: Sequence[str], initial: State | None, covered: dict[str, Findings]
    ) -> dict[str, Settings]:
        """How each family measures a run: of another one, nothing that it remembers holds."""
        loss, options = loss_of(self.settings["loss"]), self.settings["options"]
        how = {"initial": initial, "found": covered}
        return {name: settings_of(name, options[name], loss, **how) for name in families}

    def _alone(
        self, name: str, network: tuple[int, ...], how: Settings, known: Known
    ) -> dict[tuple[int, ...], Measured]:
        """A family on the network that the model is, by place."""
        if of_splits := getattr(imported("families", name), "measure_splits", None):
            return {network: of_splits(self.model, self.splits, how)}
        return {
            (*network, number): measure_family(name, self.model, samples, of_set, known)
            for number, samples, of_set in self._sample_sets(how)
        }

    def _together(
        self, name: str, networks: Mapping[tuple[int, ...], State], how: Settings
    ) -> dict[tuple[int, ...], Measured]:
        """A family on the finite ones of several networks; empty where it measures each alone."""
        measure = getattr(imported("families", name), "measure_several", None)
        chosen = self.settings.get("samples", {}).values()
        finite = {n: state for n, state in networks.items() if is_finite(*state.values())}
        if not (measure and finite) or any(samples["only"] != "all" for samples in chosen):
            return {}
        states: list[State] = [*finite.values()]
        norms: list[Norms] = [{} for _ in states]
        found: dict[tuple[int, ...], Measured] = {}
        for number, samples, of_set in self._sample_sets(how):
            each = measure(self.model, states, samples, of_set, norms)
            if not each:
                return {}
            found |= {(*n, number): one for n, one in zip(finite, each, strict=True)}
        return found

    def _sample_sets(self, how: Settings) -> Iterator[tuple[int, SampleSet, Settings]]:
        """The place, samples and settings of each that has samples.

        Where a network gets nothing wrong, that of what it gets wrong has none.
        """
        norms: Norms = {}
        for number, (key, chosen) in enumerate(self.settings["samples"].items()):
            training = chosen["split"] == "train"
            split = self.splits.train if training else self.splits.test
            draw, wrong = (chosen["size"], chosen["seed"]), chosen["only"] == "misclassified"
            subset = split.misclassified(self.model, *draw) if wrong else split.subset(*draw)
            if len(subset):
                of_set = replace(
                    how,
                    norms=norms,
                    memory=how.memory.setdefault(key, {}),
                    split=SampleSet.of(split),
                    held_out=SampleSet.of(self.splits.test) if training else None,
                )
                yield number, SampleSet.of(subset), of_set

    def _dataset(
        self, name: str, found: Mapping[tuple[int, ...], Measured], size: Mapping[str, int]
    ) -> xr.Dataset:
        """A family on all networks."""
        family, coordinates = imported("families", name), {}
        every = quantities_of(family).items()
        quantities = {name: q for name, q in every if "sample" not in q.dims}  # too many values
        if not hasattr(family, "measure_splits"):
            size = {**size, "samples": len(self.settings["samples"])}
            coordinates["samples"] = as_strings([*self.settings["samples"]])
        variables, labels = stacked(
            [*found.items()], size, {n: q.dims for n, q in quantities.items()}
        )
        precision = self.splits.train.inputs.dtype
        described = {
            name: (*variable, attributes(quantities[name], precision))
            for name, variable in variables.items()
        }
        of_network: dict[tuple[int, ...], Measured] = {}
        for place, result in found.items():
            of_network.setdefault(place[:2], Measured({})).notes.update(result.notes)
        return xr.Dataset(
            described, {**labels, **coordinates}, notes_of_many(name, of_network.values())
        )


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
