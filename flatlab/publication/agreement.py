"""Whether published figures will be those of the published tables, once a choice is published."""

from __future__ import annotations

from collections.abc import Iterator

from flatlab import plan
from flatlab.publication.choice import Choice
from flatlab.publication.files import content, shown_by


def disagreements(choice: Choice) -> list[str]:
    """What would not fit, in sentences that say what to build or to publish as well."""
    return [*_of_chosen_figures(choice), *_of_other_figures(choice)]


def _of_chosen_figures(choice: Choice) -> Iterator[str]:
    """Figures drawn from other tables than will be published, a sentence for each experiment."""
    gone: dict[str, str] = {}
    figures: dict[str, dict[str, None]] = {}
    for figure in choice.figures:
        for key, name in shown_by(figure):
            drawn_from = content(choice.built / name)
            if drawn_from is None:
                gone.setdefault(str(choice.built / name), figure.target)
            elif choice.after(name) != drawn_from:
                figures.setdefault(key, {})[figure.target] = None
    for path, target in gone.items():
        yield f"{target} was drawn from {path}, which is gone; build it with: snakemake {path}"
    for key, targets in figures.items():
        yield (
            f"the published table of {key} is not the one of {', '.join(targets)}; "
            f"publish this as well: {key}"
        )


def _of_other_figures(choice: Choice) -> Iterator[str]:
    """Figures published before, of tables that are replaced: a sentence for each experiment."""
    given = {figure.target for figure in choice.figures}
    figures: dict[str, dict[str, None]] = {}
    for figure in plan.published_figures(choice.scale):
        for key, name in shown_by(figure):
            changes = choice.after(name) != content(choice.published / name)
            if changes and figure.target not in given:
                figures.setdefault(key, {})[figure.target] = None
    for key, targets in figures.items():
        yield (
            f"published figures show the former table of {key}; "
            f"publish these as well: {' '.join(targets)}"
        )
