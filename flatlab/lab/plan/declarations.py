"""What a paper declares in `papers/<paper>/figures.py`: `PAPER`, and each of its `FIGURES`.

What the templates of figures add to `Declaration` is in `templates`.
"""

import ast
import functools
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from flatlab.core.registry import PACKAGE, assignments
from flatlab.core.schema import Strict, plain
from flatlab.core.studies import studies, study_folders

Names = Annotated[tuple[str, ...], Meta(min_length=1)]


class Paper(Strict, frozen=True, kw_only=True):
    """A publication: `PAPER` of its figures.py.

    cited: how it is cited in the title of a figure: Chen et al. (2026).
    publication: whether its experiments are those of a publication; of a study they are its own.
    targets: all its data figures and tables in order, declared or not; empty if all are declared.
    needs: what is missing for targets that cannot be built yet.
    """

    title: str
    citation: str
    cited: str
    publication: bool = False
    targets: tuple[str, ...] = ()
    needs: dict[str, str] = {}


class Shown(Strict, frozen=True):
    """experiments: the key or keys whose tables are shown; the only positional argument."""

    experiments: str | Names


class Declaration(Shown, frozen=True, kw_only=True):
    """What all figures declare: an entry of `FIGURES`.

    title: what it shows, for its headline.
    caption: the sentences below the figure, to which what the tables hold is added.
    details: more sentences, for its page on the site alone.
    labels: of columns whose label here is not that of their quantity's definition.
    size_inches: width and height; None for the default of the template.
    module: of the paper's folder, with what no template has; that of the figure's key if empty.
    through_training: whether it leaves out networks that were measured at the end alone.
    """

    DRAWN_BY: ClassVar[str] = ""
    """The module of `flatlab.lab.figures` with `draw`; "": a module of the paper's folder."""
    SELECTS: ClassVar[bool] = True
    """Whether that module has `frame`, too, and not a module of the paper's folder."""
    ONE_EXPERIMENT: ClassVar[bool] = False
    """Whether it shows exactly one experiment."""
    BY_EXPERIMENT: ClassVar[bool] = False
    """Whether each experiment has panels of its own, and can be shown without the others."""
    THROUGH_TRAINING: ClassVar[bool] = False
    """Whether it leaves out networks that were measured at the end alone."""
    SIZE: ClassVar[tuple[float, float]] = (7.1, 5.2)
    """Width and height in inches, unless a declaration says otherwise."""

    title: str
    caption: str | Names
    details: str | Names = ""
    labels: dict[str, str] = {}
    size_inches: tuple[float, float] | None = None
    module: str = ""
    through_training: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The experiments, as a tuple."""
        return (self.experiments,) if isinstance(self.experiments, str) else self.experiments

    @property
    def columns_shown(self) -> tuple[str, ...]:
        """The columns whose labels it shows: those in these of its fields."""
        fields = ("quantities", "pairs", "columns", "groups", "size", "shade")
        found = [getattr(self, name, ()) for name in fields]
        while any(nested := [each for each in found if not isinstance(each, str)]):
            found = [each for each in found if isinstance(each, str)] + [*chain(*nested)]
        return tuple(filter(None, found))

    def resolved(self) -> dict[str, Any]:
        """The declaration as plain data, with the defaults of the template filled in."""
        sentences = (self.caption,) if isinstance(self.caption, str) else self.caption
        module = self.DRAWN_BY and f"flatlab.lab.figures.{self.DRAWN_BY}"
        content = {
            **plain(self),
            "selected_by": module if self.SELECTS else "",
            "drawn_by": module,
            "experiments": self.keys,
            "caption": " ".join(sentences),
            "labels": {**labels_of(self.columns_shown), **self.labels},
            "size_inches": self.size_inches or self.SIZE,
            "through_training": self.through_training or self.THROUGH_TRAINING,
        }
        for name in ("details", "module"):  # not drawn, and known by the module itself
            content.pop(name)
        return plain(content)


def labels_of(columns: Iterable[str]) -> dict[str, str]:
    """What figures call quantities: the `label` of their definitions; others are left out.

    It is read from the syntax of the families' files, which planning does not import, and enters
    the settings of the figures that show the quantity. So it holds for tables of any age.
    """
    known = _labels(*studies().values())
    labels = {column: known.get(column.partition("[")[0]) for column in columns}
    return {column: label for column, label in labels.items() if label}


@functools.cache
def _labels(*_of_studies: Path) -> dict[str, str]:
    """All labels by quantity: the keywords `label` in the families' dictionaries of quantities."""
    labels = {}
    folders = (PACKAGE / "families", *study_folders("metrics"))
    for path in [path for folder in folders for path in sorted(folder.rglob("*.py"))]:
        for table in assignments(path).values():
            entries = (
                zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
            )
            for key, call in entries:
                for each in getattr(call, "keywords", ()):
                    if each.arg == "label" and isinstance(key, ast.Constant):
                        labels[str(key.value)] = ast.literal_eval(each.value)
    return labels
