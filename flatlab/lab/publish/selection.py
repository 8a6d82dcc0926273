"""Which experiments and figures to publish."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from flatlab.core import store
from flatlab.lab import plan

NAMES = plan.ResultsFolder(Path())
"""Files as they are named in `results/<scale>/` and in `results/published/<scale>/` alike."""

ENDINGS = ("pdf", "png", "csv")
"""Published files of a figure. Its SVG is large, and `snakemake published` draws it."""


def files_of(figure: plan.Figure) -> list[Path]:
    """The verdicts of a figure and the figure itself."""
    pictures = [NAMES.figure(figure.paper, figure.key, ending) for ending in ENDINGS]
    return [NAMES.verdicts(figure.paper, figure.key), *pictures]


def content(path: Path) -> bytes | None:
    """The bytes of a file, or None if it does not exist; equal results have equal bytes."""
    return path.read_bytes() if path.is_file() else None


class Choice:
    """What to publish at a scale: keys of experiments, and figures.

    built, published: the folders to copy from and to.  files: the names of the files to copy.
    """

    def __init__(self, scale: str, experiments: list[str], figures: list[plan.Figure]) -> None:
        self.scale, self.experiments, self.figures = scale, experiments, figures
        self.built, self.published = plan.built_at(scale).folder, plan.published_at(scale).folder
        self.files = [NAMES.table(key) for key in experiments]
        self.files += [name for figure in figures for name in files_of(figure)]

    def after(self, key: str) -> bytes | None:
        """The content of a published table after publishing this choice; None if there is none."""
        folder = self.built if key in self.experiments else self.published
        return content(folder / NAMES.table(key))


def built_figures(scale: str) -> tuple[list[plan.Figure], list[plan.Figure]]:
    """The figures that are built at a scale: those that show something, and those that do not.

    The latter are of networks that the scale leaves out; they have the head of a CSV alone.
    """
    place = plan.built_at(scale)
    folder = place.folder
    showing: list[plan.Figure] = []
    empty: list[plan.Figure] = []
    for figure in (plan.as_published(each, place) for each in plan.figures()):
        files = [folder / name for name in files_of(figure)]
        if all(file.is_file() for file in files):
            with files[-1].open() as csv:
                has_rows = len([*itertools.islice(csv, 2)]) == 2
            (showing if has_rows else empty).append(figure)
    return showing, empty


def choose(chosen: plan.Plan, names: Sequence[str]) -> Choice:
    """What names of experiments, figures or papers mean; without names, everything that is built.

    A paper means those of its figures that are built and show something. Raises `PlanError` for
    unknown names and `StoreError` if something is not built or shows nothing.
    """
    scale = chosen.config.scale
    place = plan.built_at(scale)
    built, empty = built_figures(scale)
    for figure in empty:
        if figure.target in names:
            raise store.StoreError(
                f"{figure.target} shows nothing at scale {scale}; if it is published, remove it "
                f"from {plan.published_at(scale).folder}"
            )
    if not names:
        tables = [key for key in chosen.experiments if place.table(key).is_file()]
        if not (tables or built):
            raise store.StoreError(f"nothing is built at scale {scale}; run snakemake first")
        return Choice(scale, tables, built)
    keys = [name for name in dict.fromkeys(names) if name in chosen.experiments]
    for table in map(place.table, keys):
        if not table.is_file():
            raise store.StoreError(f"{table} does not exist; build it with: snakemake {table}")
    figures = [f for name in names if name not in keys for f in _called(name, built, chosen)]
    return Choice(scale, keys, list({figure.target: figure for figure in figures}.values()))


def _called(name: str, built: list[plan.Figure], chosen: plan.Plan) -> list[plan.Figure]:
    if named := [figure for figure in built if name in (figure.paper, figure.target)]:
        return named
    known = {name for figure in plan.figures() for name in (figure.paper, figure.target)}
    if name in known:
        raise store.StoreError(
            f"{name} is not built at scale {chosen.config.scale}; build it with: "
            f"{plan.command(chosen.config.scale, name)}"
        )
    if name in plan.targets():
        raise plan.PlanError(plan.why_not(name))
    hint = plan.closest(name, {*chosen.experiments, *known}).partition("Known: ")[0]
    raise plan.PlanError(
        f"{name!r} is no experiment, figure or paper; {hint}`flatlab experiments` and "
        "`flatlab figures` list them"
    )
