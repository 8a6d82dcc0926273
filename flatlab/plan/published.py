"""What is published: the tables, verdicts and figures in `results/published/<scale>/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from flatlab.plan.experiments import Experiment
from flatlab.plan.figures import Figure, figures
from flatlab.plan.registry import experiment_keys
from flatlab.plan.schema import SCALES

PUBLISHED = Path("results", "published")


def published_scales() -> list[str]:
    """The scales at which something is published, the largest first."""
    there = [scale for scale in SCALES if (PUBLISHED / scale / "provenance.json").is_file()]
    return there[::-1]


def published_figures(scale: str) -> list[Figure]:
    """What is published at a scale, with all tables it shows, of the figures of this version."""
    place = PUBLISHED / scale

    def is_there(figure: Figure) -> bool:
        shown = [*figure.experiments, *(f"{key}.correlations" for key in figure.correlated)]
        files = [f"verdicts/{figure.paper}/{figure.key}.json"]
        files += [f"tables/{name}.zarr.zip" for name in shown]
        return all((place / name).is_file() for name in files)

    return list(filter(is_there, figures()))


def outdated(experiment_of: Callable[[str, str], Experiment]) -> Iterator[str]:
    """What was published with code that has changed since, a sentence for each scale.

    experiment_of: the experiment of a key and a scale.
    """
    for scale in published_scales():
        made = json.loads((PUBLISHED / scale / "provenance.json").read_text())
        known = experiment_keys()
        if gone := [key for key in made if key not in known]:
            yield f"results/published/{scale}: no experiments any more: {', '.join(gone)}"
        changed = [
            key
            for key, about in made.items()
            if key in known and _differs(experiment_of(key, scale), experiment_of, about["code"])
        ]
        if changed:
            yield (
                f"results/published/{scale}: made with other code, so that this version may "
                f"compute other numbers: {', '.join(changed)}"
            )


def _differs(
    experiment: Experiment,
    experiment_of: Callable[[str, str], Experiment],
    recorded: Mapping[str, list[str]],
) -> bool:
    """Whether a stage was made by code that is not its code now.

    recorded: codes by stage. They may be of some packs alone, or of none where nobody recorded it.
    """
    now = experiment.code()
    for other in experiment.needs():
        trained = experiment_of(other, experiment.scale).code().get("train", [])
        now["train"] = sorted({*now.get("train", []), *trained})
    return any(
        name not in recorded or not set(recorded[name]) <= set(codes) for name, codes in now.items()
    )
