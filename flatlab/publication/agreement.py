"""Whether published figures will be those of the published tables, once a choice is published."""

from __future__ import annotations

from collections.abc import Iterator

from flatlab import plan
from flatlab.publication.choice import Choice
from flatlab.publication.files import content, shown_by


def disagreements(choice: Choice) -> list[str]:
    """What would not fit, each once, in sentences that say what to publish as well."""
    return list(dict.fromkeys([*_of_chosen_figures(choice), *_of_other_figures(choice)]))


def _of_chosen_figures(choice: Choice) -> Iterator[str]:
    """Those drawn from other tables than the published ones."""
    for figure in choice.figures:
        for key, name in shown_by(figure):
            drawn_from, there = content(choice.built / name), choice.after(name)
            if drawn_from is None:
                path = choice.built / name
                yield f"{figure.target} shows {path}, which is not there; snakemake {path}"
            elif there != drawn_from:
                state = "is not published" if there is None else "is published otherwise"
                yield f"{figure.target} shows {key}, which {state}; publish {key} with it"


def _of_other_figures(choice: Choice) -> Iterator[str]:
    """Those published before, which show tables that are about to be replaced."""
    given = {figure.target for figure in choice.figures}
    for figure in plan.published_figures(choice.scale):
        for key, name in shown_by(figure):
            if figure.target not in given and choice.after(name) != content(
                choice.published / name
            ):
                yield (
                    f"{figure.target} is published and shows {key}, which will be another one; "
                    f"publish {figure.target} with it"
                )
