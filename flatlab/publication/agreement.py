"""Whether every published figure will show the published tables once a choice is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flatlab import plan
from flatlab.publication.choice import Choice, content, shown_by


def disagreements(choice: Choice) -> list[str]:
    """A sentence for each table that would not match a figure, with what else to publish."""
    return [*_of_chosen_figures(choice), *_of_other_figures(choice)]


def _of_chosen_figures(choice: Choice) -> Iterator[str]:
    """Figures of the choice drawn from other tables than the ones that will be published."""
    gone: dict[Path, str] = {}
    targets: dict[str, dict[str, None]] = {}  # by experiment, each once and in order
    for figure in choice.figures:
        for key, name in shown_by(figure):
            drawn_from = content(choice.built / name)
            if drawn_from is None:
                gone.setdefault(choice.built / name, figure.target)
            elif choice.after(name) != drawn_from:
                targets.setdefault(key, {})[figure.target] = None
    for path, target in gone.items():
        yield f"{target} was drawn from {path}, which is gone; build it with: snakemake {path}"
    for key, shown in targets.items():
        yield (
            f"the published table of {key} is not the one of {', '.join(shown)}; "
            f"publish this as well: {key}"
        )


def _of_other_figures(choice: Choice) -> Iterator[str]:
    """Figures published earlier whose tables the choice would replace."""
    given = {figure.target for figure in choice.figures}
    targets: dict[str, dict[str, None]] = {}
    for figure in plan.published_figures(choice.scale):
        for key, name in shown_by(figure):
            changes = choice.after(name) != content(choice.published / name)
            if changes and figure.target not in given:
                targets.setdefault(key, {})[figure.target] = None
    for key, shown in targets.items():
        yield (
            f"published figures show the former table of {key}; "
            f"publish these as well: {' '.join(shown)}"
        )
