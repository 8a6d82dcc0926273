"""The published tables, verdicts and figures in `results/published/<scale>/`."""

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from flatlab.core.paths import PROOFS, PUBLISHED, ResultsFolder, published_at
from flatlab.core.registry import experiment_files
from flatlab.core.schema import SCALES
from flatlab.lab.plan.experiments import Experiment
from flatlab.lab.plan.figures import Figure, figures


def published_scales() -> list[str]:
    """The scales with published results, the largest first."""
    return [scale for scale in SCALES[::-1] if (PUBLISHED / scale / "provenance.json").is_file()]


def published_figures(scale: str) -> list[Figure]:
    """The figures of this version whose verdicts and tables are published at a scale."""
    return [figure for figure in _with_verdicts(scale) if not _lacks(figure, scale)]


def as_published(figure: Figure, place: ResultsFolder) -> Figure:
    """The figure restricted to the experiments in its published verdicts, if it has any."""
    path = place.verdicts(figure.paper, figure.key)
    if not (figure.declared.BY_EXPERIMENT and path.is_file()):
        return figure
    return figure.restricted_to(json.loads(path.read_text())["tables"])


def outdated(
    experiment_of: Callable[[str, str], Experiment], scales: Container[str] = SCALES
) -> Iterator[str]:
    """Where published results differ from what this version computes, in a sentence per finding.

    Code that was proved equal to that of a table (`tools.prove_equal`) is no other code.

    experiment_of: the experiment of a key and a scale.
    scales: those to look at.
    """
    proofs = json.loads(PROOFS.read_text()) if PROOFS.is_file() else []
    for scale in (scale for scale in published_scales() if scale in scales):
        place = published_at(scale)
        folder = place.folder
        made = json.loads((folder / "provenance.json").read_text())
        published = [key for key in made if place.table(key).is_file()]
        known = [key for key in published if key in experiment_files()]
        if gone := [key for key in published if key not in known]:
            yield f"{folder} has tables of experiments that no longer exist: {', '.join(gone)}"
        changed = [
            key
            for key in known
            if _differs(experiment_of(key, scale), experiment_of, made[key]["code"], proofs)
        ]
        if changed:
            yield (
                f"{folder} was made with other code, so that this version may compute other "
                f"numbers: {', '.join(changed)}"
            )
        if lacking := [f.target for f in _with_verdicts(scale) if _lacks(f, scale)]:
            yield f"{folder} lacks tables that these figures show: {', '.join(lacking)}"


def _with_verdicts(scale: str) -> list[Figure]:
    place = published_at(scale)
    judged = (f for f in figures() if place.verdicts(f.paper, f.key).is_file())
    return [as_published(figure, place) for figure in judged]


def _lacks(figure: Figure, scale: str) -> bool:
    return not all(published_at(scale).table(key).is_file() for key in figure.experiments)


def _differs(
    experiment: Experiment,
    experiment_of: Callable[[str, str], Experiment],
    recorded: Mapping[str, list[str]],
    proofs: Sequence[Mapping[str, Any]],
) -> bool:
    """Whether the code of a stage has changed since.

    A stage without a record has, unless it is an optional family, which no network has then.
    """
    now = experiment.code()
    for other in experiment.needs():  # the training of networks from elsewhere counts as well
        trained = experiment_of(other, experiment.scale).code()
        now.setdefault("train", []).extend(trained.get("train", []))
    unknown = now.keys() - recorded - {*experiment.optional}
    return bool(unknown) or not all(
        _equal_to(code, name, proofs) & {*now[name]}
        for name in now.keys() & recorded
        for code in recorded[name]
    )


def _equal_to(code: str, stage: str, proofs: Sequence[Mapping[str, Any]]) -> set[str]:
    """A fingerprint, and all that were proved equal to it, one after the other."""
    equal, waiting = set[str](), [code]
    while waiting:
        equal.add(code := waiting.pop())
        same = (each["new"] for each in proofs if (each["stage"], each["old"]) == (stage, code))
        waiting += [each for each in same if each not in equal]
    return equal
