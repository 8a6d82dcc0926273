"""What a paper declares in `papers/<paper>/figures.py`: `PAPER`, and each of its `FIGURES`.

Each figure is a record of a template. There are seven, each drawn by the module of
`flatlab/lab/figures` of its name. That module also selects what is shown; for `Lines` and `Points`,
`frame` of a module of the paper's folder does. A `CustomFigure` is drawn there, too.
"""

import ast
import difflib
import functools
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from flatlab.core.registry import PACKAGE, quantities
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
    size_inches: width and height.
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

    title: str
    caption: str | Names
    details: str | Names = ""
    labels: dict[str, str] = {}
    size_inches: tuple[float, float] = (7.1, 5.2)
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

    @property
    def correlated(self) -> tuple[str, ...]:
        """The experiments whose correlation matrices it reads."""
        return ()

    def resolved(self) -> dict[str, Any]:
        """The declaration as plain data, with the defaults of the template filled in."""
        sentences = (self.caption,) if isinstance(self.caption, str) else self.caption
        module = self.DRAWN_BY and f"flatlab.lab.figures.{self.DRAWN_BY}"
        content = {
            **plain(self),
            "selected_by": module if self.SELECTS else "",
            "drawn_by": module,
            "experiments": self.keys,
            "correlated": self.correlated,
            "caption": " ".join(sentences),
            "labels": {**labels_of(self.columns_shown), **self.labels},
        }
        for name in ("details", "module"):  # not drawn, and known by the module itself
            content.pop(name)
        return plain(content)


def labels_of(columns: Iterable[str]) -> dict[str, str]:
    """What figures call quantities: the `label` of their definitions; others are left out.

    It is read from the syntax of the families' files, which planning does not import, and enters
    the settings of the figures that show the quantity. So it holds for tables of any age.
    """
    known = _quantities(*studies().values())
    labels = {column: known.get(column.partition("[")[0]) for column in columns}
    return {column: label for column, label in labels.items() if label}


def misspelt(columns: Iterable[str]) -> dict[str, str]:
    """Columns that no family defines, but one that is spelt almost so: that one."""
    known = _quantities(*studies().values())
    found = {}
    for column in columns:
        name = re.sub(r"^(log|root) |\[.*", "", column)
        if name not in known and (alike := difflib.get_close_matches(name, known, 1, 0.85)):
            found[column] = alike[0]
    return found


@functools.cache
def _quantities(*_of_studies: Path) -> dict[str, str]:
    """All quantities in the families' dictionaries, with their keywords `label` or ""."""
    labels: dict[str, str] = {}
    folders = (PACKAGE / "families", *study_folders("families"))
    for path in [path for folder in folders for path in sorted(folder.rglob("*.py"))]:
        for name, call in quantities(path):
            given = {each.arg: each.value for each in getattr(call, "keywords", ())}
            label = ast.literal_eval(given["label"]) if "label" in given else ""
            labels[name] = label or labels.get(name, "")
    return labels


Look = tuple[str, str, str]
"""Colour, marker and dash of a line, in matplotlib's notation."""

Along = dict[str, str]
"""Hyper-parameters on a horizontal axis, where values have equal distances; titles of the axis."""

PairsOfQuantities = tuple[tuple[str, str], ...]
Aliases = dict[str, str]
"""What the figure and its CSV call a column: {"corrupted_error": "test_set_error[corrupted]"}."""

Across = Annotated[int, Meta(ge=1)] | None


class Panel(Strict, frozen=True, kw_only=True):
    """The axes of a panel of `Lines`.

    title: above the panel.
    x: the title of the horizontal axis.
    y: the title of the vertical axis.
    x_scale: logarithmic, with ticks at all values or at powers; or as spaced as iterations are.
    y_scale: of the vertical axis; of shares it is from 0 to 1.
    at: where a vertical line marks a value.
    """

    title: str = ""
    x: str = ""
    y: str = ""
    x_scale: Literal["values", "powers of two", "logarithmic", "iterations"] = "logarithmic"
    y_scale: Literal["linear", "logarithmic", "shares"] = "linear"
    at: float | None = None


class Curves(Declaration, frozen=True, kw_only=True):
    """Quantities through training, of each network and over those of each setting.

    quantities: a panel each.
    where: hyper-parameters that the networks shown have in common.
    logarithmic: quantities with a logarithmic vertical axis.
    line: what a line stands for: setting, samples, layer or quantity, which then share a panel.
    across: panels side by side; 3 if None.
    samples: sample sets.
    axes: the panels that all quantities share, {title: linear or logarithmic}.
    marks: whether to mark the start of interpolation.
    looks: lines that look different from those in other figures, by name.
    named: hyper-parameters that name a line; all if empty.
    """

    DRAWN_BY = "curves"
    ONE_EXPERIMENT = True

    size_inches: tuple[float, float] = (7.1, 4.9)
    through_training: bool = True
    quantities: Names
    where: dict[str, str | int | float] = {}
    logarithmic: tuple[str, ...] = ()
    line: Literal["setting", "samples", "quantity", "layer"] = "setting"
    across: Across = None
    samples: tuple[str, ...] = ("train",)
    axes: dict[str, Literal["linear", "logarithmic"]] = {}
    marks: bool = True
    looks: dict[str, Look] = {}
    named: tuple[str, ...] = ()


class Sweep(Declaration, frozen=True, kw_only=True):
    """Quantities at the end of training along hyper-parameters, a line per value of another.

    quantities: a row each; with one hyper-parameter in `along`, a panel each.
    along: a column per hyper-parameter; where there are several, a column has the runs for which
        all the others are zero.
    line: the hyper-parameter that a line stands for.
    where: hyper-parameters that the networks shown have in common.
    logarithmic: quantities with a logarithmic vertical axis.
    """

    DRAWN_BY = "sweep"
    ONE_EXPERIMENT = True

    size_inches: tuple[float, float] = (7.1, 3.2)
    quantities: Names
    along: Annotated[Along, Meta(min_length=1)]
    line: str
    where: dict[str, str | int | float] = {}
    logarithmic: tuple[str, ...] = ()


class Lines(Declaration, frozen=True, kw_only=True):
    """Numbers that the paper's module selects, along an axis, with what they are uncertain by.

    panel: the columns of the table whose values, joined by spaces, are keys of `panels`.
    panels: the panels in order, with their axes.
    row: a column; for each of its values there is a row with all panels.
    line: the column of what a line stands for, with keys of `lines` or their labels.
    lines: the lines in the order of the legend, each with its label and its look.
    x, y: the columns that are drawn.
    ends: the columns of the ends of what y is uncertain by, or the one of half its length.
    bars: whether it is drawn as bars, with lines side by side, and not as a band.
    across: panels side by side; all if None.
    level: where a horizontal line marks a value.
    limits: of a vertical axis that all panels share; None if each has its own.
    """

    DRAWN_BY = "lines"
    SELECTS = False

    panel: tuple[str, ...]
    panels: dict[str, Panel]
    line: str
    lines: dict[str, tuple[str, str, str, str]]
    x: str
    y: str
    ends: Annotated[tuple[str, ...], Meta(min_length=1, max_length=2)]
    row: str = ""
    bars: bool = False
    across: Across = None
    level: float | None = None
    limits: tuple[float, float] | None = None


class Pairs(Declaration, frozen=True, kw_only=True):
    """Networks at the end of training by pairs of quantities, with Pearson's correlation.

    pairs: abscissa and ordinate: a row each, a column per experiment.
    across: panels side by side; a divisor of those of a row, if None all of it.
    equality: whether a line marks equal numbers, on logarithmic axes.
    """

    DRAWN_BY = "pairs"
    BY_EXPERIMENT = True

    size_inches: tuple[float, float] = (7.1, 5.4)
    pairs: Annotated[PairsOfQuantities, Meta(min_length=1)]
    across: Across = None
    equality: bool = False

    @property
    def correlated(self) -> tuple[str, ...]:
        return self.keys


class Points(Declaration, frozen=True, kw_only=True):
    """Networks by pairs of numbers that the paper's module selects, with their correlation.

    panel: the column of the table whose values are keys of `panels`.
    panels: the panels in order, with the titles of their axes. The horizontal number is `x`.
    y: the column of the vertical one. Rows with the correlation may have that `within` settings,
        `slope` and `intercept` of a line, and `networks`.
    correlation: whose column has that of a panel.
    groups: hyper-parameters that colour and marker stand for.
    shade: a number that colour stands for, in place of the first of `groups`.
    values: printed names of their values.
    logarithmic: "x", "y" or both.
    equal: panels in which a line marks equal numbers.
    counted: columns of numbers of networks that are not shown, with words for them.
    across: panels side by side; all if None.
    lines: whether each level of the first of `groups` has its line of least squares.
    subset: a name and the columns with the correlation of a part of the networks and its interval,
        which the place after the last panel compares, or else is printed above each panel.
    """

    DRAWN_BY = "points"
    SELECTS = False

    panel: str
    panels: dict[str, tuple[str, str]]
    y: str
    correlation: Literal["rho", "tau"] = "rho"
    groups: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    shade: str = ""
    values: dict[str, dict[str, str]] = {}
    logarithmic: tuple[Literal["x", "y"], ...] = ()
    equal: tuple[str, ...] = ()
    counted: dict[str, str] = {}
    across: Across = None
    lines: bool = False
    subset: tuple[str, ...] = ()


class Intervals(Declaration, frozen=True, kw_only=True):
    """Pearson's correlations at the end of training, with intervals, a column per experiment.

    pairs: quantities to correlate, grouped by the first of each pair.
    aliases: other names of columns.
    """

    DRAWN_BY = "intervals"

    size_inches: tuple[float, float] = (7.1, 4.2)
    pairs: Annotated[PairsOfQuantities, Meta(min_length=1)]
    aliases: Aliases = {}


class Matrix(Declaration, frozen=True, kw_only=True):
    """Every quantity against every other at the end of training, for one experiment.

    quantities: in order.
    seeds: the only seeds shown and correlated; all if empty.
    pairs: three or so that are shown above all correlations; the matrix is then a second page.
    framed: pairs that decide a claim.
    """

    DRAWN_BY = "matrix"
    ONE_EXPERIMENT = True

    size_inches: tuple[float, float] = (7.1, 7.1)
    quantities: Names
    seeds: tuple[int, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    framed: tuple[tuple[str, str], ...] = ()

    @property
    def correlated(self) -> tuple[str, ...]:
        return () if self.seeds else self.keys  # those of some seeds are computed when it is drawn


class CustomFigure(Declaration, frozen=True, kw_only=True):
    """A figure that no template draws: `papers/<paper>/<figure>.py` does, and says why.

    A study may have templates of its own, subclasses with a `module` and more fields.

    columns: those whose labels it shows.
    """

    SELECTS = False

    size_inches: tuple[float, float] = (7.1, 4.8)
    columns: tuple[str, ...] = ()


TEMPLATES: tuple[type[Declaration], ...] = (
    *(Curves, Sweep, Lines, Pairs, Points, Intervals, Matrix, CustomFigure),
)
"""What a paper and each of its figures declare in `papers/<paper>/figures.py`."""
