"""Which experiments and figures to publish, and whether figures and tables will agree then."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatlab import plan, store

NAMES = plan.Place(Path())
"""Files as they are named in `results/<scale>/` and in `results/published/<scale>/` alike."""

ENDINGS = ("pdf", "png", "csv")
"""Published files of a figure. Its SVG is large, and `snakemake published` redraws it."""


def files_of(figure: plan.Figure) -> list[Path]:
    """The verdicts of a figure and the figure itself."""
    pictures = [NAMES.figure(figure.paper, figure.key, ending) for ending in ENDINGS]
    return [NAMES.verdicts(figure.paper, figure.key), *pictures]


def shown_by(figure: plan.Figure) -> list[tuple[str, Path]]:
    """The tables and correlations that a figure is drawn from, each with its experiment."""
    tables = [(key, NAMES.table(key)) for key in figure.experiments]
    return tables + [(key, NAMES.correlations(key)) for key in figure.correlated]


def content(path: Path) -> bytes | None:
    """The bytes of a file, or None if it does not exist; equal results have equal bytes."""
    return path.read_bytes() if path.is_file() else None


@dataclass(frozen=True)
class Choice:
    """What to publish at a scale: keys of experiments, and figures."""

    scale: str
    experiments: list[str]
    figures: list[plan.Figure]

    @property
    def built(self) -> Path:
        """The folder that files are copied from."""
        return plan.built_at(self.scale).folder

    @property
    def published(self) -> Path:
        """The folder that files are copied to."""
        return plan.published_at(self.scale).folder

    @property
    def files(self) -> list[Path]:
        """The names of the files to copy."""
        tables = [
            name(key) for key in self.experiments for name in (NAMES.table, NAMES.correlations)
        ]
        existing = [name for name in tables if (self.built / name).is_file()]
        return existing + [name for figure in self.figures for name in files_of(figure)]

    @property
    def left_behind(self) -> list[Path]:
        """Published correlations to delete: their new tables come without correlations."""
        changed = [key for key in self.experiments if self._changes(NAMES.table(key))]
        names = [NAMES.correlations(key) for key in changed]
        return [
            n for n in names if (self.published / n).is_file() and not (self.built / n).is_file()
        ]

    def _changes(self, name: Path) -> bool:
        return content(self.built / name) != content(self.published / name)

    def after(self, name: Path) -> bytes | None:
        """The content of a published file after publishing this choice; None if there is none."""
        if name in self.left_behind:
            return None
        return content((self.built if name in self.files else self.published) / name)


def disagreements(choice: Choice) -> list[str]:
    """Sentences on figures that would not show the published tables, with what else to publish."""
    given = [figure.target for figure in choice.figures]
    others = [f for f in plan.published_figures(choice.scale) if f.target not in given]
    gone: dict[Path, str] = {}
    for figure in choice.figures:
        for path in (choice.built / name for _, name in shown_by(figure)):
            if not path.is_file():
                gone.setdefault(path, figure.target)
    return [
        *(
            f"{target} was drawn from {path}, which is gone; build it with: snakemake {path}"
            for path, target in gone.items()
        ),
        *(
            f"the published table of {key} is not the one of {', '.join(targets)}; "
            f"publish this as well: {key}"
            for key, targets in _differing(choice, choice.figures, choice.built).items()
        ),
        *(
            f"published figures show the former table of {key}; "
            f"publish these as well: {' '.join(targets)}"
            for key, targets in _differing(choice, others, choice.published).items()
        ),
    ]


def _differing(
    choice: Choice, figures: Iterable[plan.Figure], folder: Path
) -> dict[str, dict[str, None]]:
    """By experiment, the targets drawn from tables in `folder` that will not be published."""
    found: dict[str, dict[str, None]] = {}
    for figure in figures:
        for key, name in shown_by(figure):
            if content(folder / name) not in (None, choice.after(name)):
                found.setdefault(key, {})[figure.target] = None
    return found


def choose(chosen: plan.Plan, names: Sequence[str]) -> Choice:
    """What names of experiments, figures or papers mean; without names, everything that is built.

    A paper means those of its figures that are built. Raises `PlanError` for unknown names and
    `StoreError` if something is not built.
    """
    everything = _everything_built(chosen)
    if not names:
        if not everything.files:
            raise store.StoreError(
                f"nothing is built at scale {everything.scale}; run snakemake first"
            )
        return everything
    keys: list[str] = []
    figures: dict[str, plan.Figure] = {}
    for name in dict.fromkeys(names):
        if name in everything.experiments:
            keys.append(name)
        elif name in chosen.experiments:
            table = chosen.experiment(name).table
            raise store.StoreError(f"{table} does not exist; build it with: snakemake {table}")
        else:
            figures |= {figure.target: figure for figure in _figures_of(name, chosen, everything)}
    return Choice(everything.scale, keys, list(figures.values()))


def _everything_built(chosen: plan.Plan) -> Choice:
    place = plan.built_at(chosen.config.scale)
    tables = [key for key in chosen.experiments if place.table(key).is_file()]
    figures = [
        figure
        for figure in plan.figures()
        if all((place.folder / name).is_file() for name in files_of(figure))
    ]
    return Choice(chosen.config.scale, tables, figures)


def _figures_of(name: str, chosen: plan.Plan, everything: Choice) -> list[plan.Figure]:
    """The built figures of a paper, or the one figure with this target."""
    known = {name for figure in plan.figures() for name in (figure.paper, figure.target)}
    if name not in known:
        if name in plan.targets():
            raise plan.PlanError(plan.why_not(name))
        hint = plan.closest(name, {*chosen.experiments, *known}).partition("Known: ")[0]
        raise plan.PlanError(
            f"{name!r} is no experiment, figure or paper; {hint}`flatlab experiments` and "
            "`flatlab figures` list them"
        )
    found = [figure for figure in everything.figures if name in (figure.paper, figure.target)]
    if not found:
        raise store.StoreError(
            f"{name} is not built at scale {everything.scale}; build it with: snakemake {name}"
        )
    return found
