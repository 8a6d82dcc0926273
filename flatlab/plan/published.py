"""What is published: the tables, verdicts and figures in `results/published/<scale>/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from flatlab.plan.figures import Figure, figures
from flatlab.plan.grids import Grid
from flatlab.plan.jobs import measure_code, study_code, train_code
from flatlab.plan.registry import keys_of
from flatlab.plan.schema import SCALES
from flatlab.plan.zoos import load_zoo, members_code, survey_code, zoo_keys

PUBLISHED = Path("results", "published")


def published_scales() -> list[str]:
    """The scales at which something is published, the largest first."""
    there = [scale for scale in SCALES if (PUBLISHED / scale / "provenance.json").is_file()]
    return there[::-1]


def published_figures(scale: str) -> list[Figure]:
    """What is published at a scale, of the figures that this version can draw."""
    place = PUBLISHED / scale / "verdicts"
    return [f for f in figures() if (place / f.paper / f"{f.key}.json").is_file()]


def computing_code(key: str, scale: str, grid_of: Callable[[str, str], Grid]) -> dict[str, str]:
    """The fingerprints of what computes the numbers of a study or a grid.

    Those of a grid: of training, and of each family.  grid_of: the grid of a key and a scale.
    """
    if key in keys_of("simulations"):
        return {"study": study_code(key)}
    if key in zoo_keys():
        trained = {"train": members_code()} if load_zoo(key, scale).trained else {}
        return {**trained, "survey": survey_code()}
    grid = grid_of(key, scale)
    measured = {family: measure_code(family, *grid.networks) for family in grid.families}
    return {"train": train_code(*grid.networks), **measured}


def outdated(grid_of: Callable[[str, str], Grid]) -> Iterator[str]:
    """What was published with code that has changed since, in sentences.

    grid_of: the grid of a key and a scale.
    """
    for scale in published_scales():
        about = json.loads((PUBLISHED / scale / "provenance.json").read_text())
        for key, then in about.items():
            now = computing_code(key, scale, grid_of)
            recorded = then["code"]
            if changed := [name for name, code in now.items() if recorded.get(name) != [code]]:
                yield (
                    f"results/published/{scale}: {key} was made with other code of "
                    f"{', '.join(changed)}; this version may compute other numbers"
                )
