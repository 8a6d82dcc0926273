"""Fine-tuning: which trained networks of other grids the networks of a grid start from."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from flatlab.core.schema import PlanError, closest
from flatlab.lab.kinds.grids.packs import Pack
from flatlab.lab.plan.experiments import Find, Source

if TYPE_CHECKING:
    from flatlab.lab.kinds.grid import Grid


def sources_of(packs: Iterable[Pack], source: Source, find: Find) -> dict[str, "Grid"]:
    """The grids that packs of a file start from, by key; raises `PlanError` for what is not there.

    find: returns a grid by its key.
    """
    sources: dict[str, Any] = {}
    place = source.place("training", "start")
    for pack in packs:
        if (start := pack.training.start) is UNSET:
            continue
        if start.grid == source.key:
            raise PlanError(f"{place}.grid: {start.grid} cannot start from itself")
        if start.grid not in sources:
            sources[start.grid] = find(start.grid, f"{place}.grid: ")
        if sources[start.grid].kind != "grid":
            raise PlanError(f"{place}.grid: {start.grid} is no grid, it trains nothing")
        _starts(pack, sources[start.grid], f"{place}.")
    return sources


def start_of(pack: Pack, sources: Mapping[str, "Grid"]) -> tuple[list[str], dict[str, Any]]:
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


def _starts(pack: Pack, grid: "Grid", where: str = "") -> list[tuple[str, str]]:
    """Of each run of a pack, the pack and the run of a grid that it starts from."""
    start = pack.training.start
    assert start is not UNSET
    settings = list(dict.fromkeys(each.setting for each in grid.packs.values()))
    if start.setting is None and len(settings) > 1:
        known = ", ".join(settings)
        raise PlanError(f"{where}setting is missing; {grid.key} has several: {known}")
    setting = start.setting or settings[0]
    if setting not in settings:
        raise PlanError(
            f"{where}setting: {grid.key} has no setting {setting!r}; {closest(setting, settings)}"
        )
    of_seed = {
        seed: (each.key, run)
        for each in grid.packs.values()
        if each.setting == setting
        for seed, run in zip(each.seeds, each.runs, strict=True)
    }
    seeds = pack.seeds if start.seed == "same" else [start.seed] * len(pack.seeds)
    if lacking := [seed for seed in seeds if seed not in of_seed]:
        raise PlanError(f"{where}seed: {grid.key} has no run {setting}-s{lacking[0]}")
    return [of_seed[seed] for seed in seeds]
