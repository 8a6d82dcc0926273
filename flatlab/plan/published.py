"""What is published: the tables, verdicts and figures in `results/published/<scale>/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
    """What is published at a scale, of the figures that this version can draw."""
    place = PUBLISHED / scale / "verdicts"
    return [f for f in figures() if (place / f.paper / f"{f.key}.json").is_file()]


def outdated(experiment_of: Callable[[str, str], Experiment]) -> Iterator[str]:
    """What was published with code that has changed since, in sentences.

    experiment_of: the experiment of a key and a scale.
    """
    for scale in published_scales():
        about = json.loads((PUBLISHED / scale / "provenance.json").read_text())
        for key, then in about.items():
            if key not in experiment_keys():
                yield f"results/published/{scale}: {key} is no experiment any more"
                continue
            now, recorded = experiment_of(key, scale).code(), then["code"]
            if changed := [name for name, codes in now.items() if recorded.get(name) != codes]:
                yield (
                    f"results/published/{scale}: {key} was made with other code of "
                    f"{', '.join(changed)}; this version may compute other numbers"
                )
