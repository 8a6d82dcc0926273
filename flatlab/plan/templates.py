"""The templates of figures: the records of `FIGURES` in `flatlab/papers/<paper>/figures.py`.

The class of a figure names the modules of `flatlab/plotting` that select what is shown and draw it.
`Lines` and `Points` draw what a module of the paper's folder selects; `Own` is drawn there, too.
"""

from typing import Annotated, Literal

from msgspec import Meta

from flatlab.plan.declarations import Declaration, Names
from flatlab.plan.schema import Strict, closest

Look = tuple[str, str, str]
"""Colour, marker and dash of a line, in matplotlib's notation."""


Along = dict[str, tuple[str, Literal["linear", "logarithmic", "symmetric"]]]
"""Hyper-parameters on a horizontal axis, each with the title and the kind of the axis."""


class Curves(Declaration, frozen=True, kw_only=True):
    """Quantities during training, mean and spread over the seeds, in a panel per quantity.

    quantities: a panel each.
    where: hyper-parameters that the settings shown have in common.
    samples: sample sets.
    line: what each line stands for; with `quantity` all quantities share a panel.
    axes: the panels that they share then, {title: linear or logarithmic}.
    columns: panels side by side.
    marks: whether to mark the start of interpolation.
    looks: lines that look different from those in other figures, by name.
    named: hyper-parameters that name a line; all if empty.
    logarithmic: quantities with a logarithmic vertical axis.
    until: {"label_smoothing": 0}: each run is shown as long as the one with this value, and
        otherwise the same, was trained.
    share: of the iterations, the first ones that are shown.
    """

    SIZE = (7.1, 4.9)
    SELECTED_BY, DRAWN_BY = "curves", "curves"
    ONE_EXPERIMENT = True

    quantities: Names
    where: dict[str, str | int | float] = {}
    samples: Names = ("train",)
    line: Literal["setting", "samples", "quantity"] = "setting"
    axes: dict[str, Literal["linear", "logarithmic"]] = {}
    columns: Annotated[int, Meta(ge=1)] = 3
    marks: bool = True
    looks: dict[str, Look] = {}
    named: tuple[str, ...] = ()
    logarithmic: tuple[str, ...] = ()
    until: dict[str, str | int | float] = {}
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    through_training: bool = True

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.quantities

    def contradiction(self) -> tuple[str, str] | None:
        if (self.line == "quantity") != bool(self.axes):
            return "axes", "line='quantity' needs it, as {title: 'linear'}, and nothing else does"
        return None


class Sweep(Declaration, frozen=True, kw_only=True):
    """Quantities at the end of training along hyper-parameters, a line per value of another one.

    quantities: a row each; a column each where `along` has one entry.
    along: a column per hyper-parameter; where there are several, a column has the runs for which
        all the others are zero.
    line: the hyper-parameter of the lines.
    where: hyper-parameters that all runs have in common.
    logarithmic: quantities with a logarithmic vertical axis.
    """

    SIZE = (7.1, 3.2)
    SELECTED_BY, DRAWN_BY = "sweep", "sweep"
    ONE_EXPERIMENT = True

    quantities: Names
    along: Annotated[Along, Meta(min_length=1)]
    line: str
    where: dict[str, str | int | float] = {}
    logarithmic: tuple[str, ...] = ()

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.quantities


class Pairs(Declaration, frozen=True, kw_only=True):
    """Every quantity against every other at the end of training, for one experiment.

    quantities: in order.
    seeds: the only seeds shown and correlated; all if empty.
    """

    SIZE = (7.1, 7.9)
    SELECTED_BY, DRAWN_BY = "pairs", "pairs"
    ONE_EXPERIMENT = True

    quantities: Names
    seeds: tuple[int, ...] = ()

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.quantities

    @property
    def correlated(self) -> tuple[str, ...]:
        return () if self.seeds else self.keys  # those of some seeds are computed when it is drawn


class Scatter(Declaration, frozen=True, kw_only=True):
    """One quantity against another at the end of training: a column per experiment, a row per pair.

    pairs: abscissa and ordinate.
    """

    SIZE = (7.1, 5.4)
    SELECTED_BY, DRAWN_BY = "scatter", "scatter"

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return tuple(name for pair in self.pairs for name in pair)

    @property
    def correlated(self) -> tuple[str, ...]:
        return self.keys


class Forest(Declaration, frozen=True, kw_only=True):
    """Correlations with their confidence intervals, in a column per experiment.

    pairs: quantities to correlate at the end of training, grouped by the first of each pair.
    parts: quantities that are one entry of another,
        {"bound_d kernel": {"of": "bound_by_norm", "norm": "kernel", "bound": "d"}}.
    """

    SIZE = (7.1, 4.2)
    SELECTED_BY, DRAWN_BY = "forest", "forest"

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]
    parts: dict[str, dict[str, str]] = {}

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return tuple(name for pair in self.pairs for name in pair)

    def contradiction(self) -> tuple[str, str] | None:
        return _nameless(self.parts)


class Table(Declaration, frozen=True, kw_only=True):
    """Mean and standard deviation over networks at the end of training, next to the paper's values.

    rows: quantities, each with a name and an explanation.
    by: the hyper-parameter that the columns differ in.
    columns: its values, with the titles of the columns.
    printed: the paper's mean and standard deviation by quantity and value.
    parts: as in `Forest`.
    """

    SIZE = (7.1, 3.0)
    SELECTED_BY, DRAWN_BY = "table", "table"
    ONE_EXPERIMENT = True

    rows: dict[str, tuple[str, str]]
    by: str
    columns: dict[str, str]
    printed: dict[str, dict[str, tuple[float, float]]] = {}
    parts: dict[str, dict[str, str]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        for row, numbers in self.printed.items():
            if row not in self.rows:
                return "printed", f"unknown row {row!r}; {closest(row, self.rows)}"
            for column in numbers:
                if column not in self.columns:
                    hint = closest(column, self.columns)
                    return "printed", f"{row}: unknown column {column!r}; {hint}"
        return _nameless(self.parts)


class Panels(Declaration, frozen=True, kw_only=True):
    """Sharpness, on a logarithmic axis, against errors: a row per definition, with Kendall's tau.

    rows: definitions and the numbers of their radii.
    columns: ordinates, for each experiment: quantities, parts as in `Forest`, or hyper-parameters.
    of_stand_ins: other labels, where networks and data stand in for the paper's.
    parts: as in `Forest`.
    at_most: only networks for which these quantities are at most so large.
    groups: the hyper-parameters that colour and marker stand for; their combinations are groups,
        with taus of their own.
    size: the one that the size of a marker stands for.
    shade: a number that colour stands for, in place of the first of `groups`.
    values: printed names of their values.
    logarithmic: ordinates with such an axis.
    across: panels side by side, where those of a row do not fit into one line; a divisor of these.
    """

    SIZE = (7.1, 5.2)
    SELECTED_BY, DRAWN_BY = "panels", "panels"

    rows: Annotated[tuple[tuple[str, int], ...], Meta(min_length=1)]
    columns: Names
    of_stand_ins: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}
    at_most: dict[str, float] = {}
    groups: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    size: str = ""
    shade: str = ""
    values: dict[str, dict[str, str]] = {}
    logarithmic: tuple[str, ...] = ()
    across: Annotated[int, Meta(ge=1)] | None = None

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.columns

    def contradiction(self) -> tuple[str, str] | None:
        if self.across and len(self.columns) * len(self.keys) % self.across:
            return "across", "must divide the number of panels in a row"
        if self.shade and len(self.groups) > 1:
            return "shade", "colour stands for it, so that only one of groups has the markers"
        return _nameless(self.parts)


class Ranks(Declaration, frozen=True, kw_only=True):
    """Kendall's tau of sharpness and errors, for every definition and radius, beside the printed.

    columns, of_stand_ins, parts, at_most, groups, values: as in `Panels`; taus of groups are in the
        CSV alone.
    printed: what the paper prints, by experiment and definition: for each column, by radius. Where
        it prints a definition for an experiment, only such definitions are shown.
    """

    SIZE = (7.1, 8.2)
    SELECTED_BY, DRAWN_BY = "ranks", "ranks"

    columns: Names
    of_stand_ins: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}
    at_most: dict[str, float] = {}
    groups: tuple[str, ...] = ()
    values: dict[str, dict[str, str]] = {}
    printed: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {}

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.columns

    def contradiction(self) -> tuple[str, str] | None:
        for key, definitions in self.printed.items():
            if key not in self.keys:
                return "printed", f"unknown experiment {key!r}; {closest(key, self.keys)}"
            for name, taus in definitions.items():
                if len(taus) != len(self.columns):
                    return "printed", f"{name}: {len(taus)} lists for {len(self.columns)} columns"
        return _nameless(self.parts)


class Panel(Strict, frozen=True, kw_only=True):
    """The axes of a panel of `Lines`.

    title: above the panel.
    x: the title of the horizontal axis.
    y: the title of the vertical axis.
    x_scale: logarithmic, with ticks at all values or at powers; or as spaced as iterations are.
    y_scale: of the vertical axis.
    at: where a vertical line marks a value.
    """

    title: str = ""
    x: str = ""
    y: str = ""
    x_scale: Literal["values", "powers of two", "logarithmic", "iterations"] = "logarithmic"
    y_scale: Literal["linear", "logarithmic"] = "linear"
    at: float | None = None


class Lines(Declaration, frozen=True, kw_only=True):
    """Numbers along an axis, which the function `frame` of the paper's module selects.

    panel: the columns of its table whose values, joined by spaces, are keys of `panels`.
    panels: the panels in order, with their axes.
    row: a column; for each of its values there is a row with all panels.
    line: the column whose values are keys of `looks`, or their labels.
    looks: of the lines, in the order of the legend.
    x, y: the columns that are drawn.
    ends: the columns of the ends of what y is uncertain by; or
    deviation: the column of half its length.
    bars: whether it is drawn as bars, with lines side by side, and not as a band.
    level: where a horizontal line marks a value.
    limits: of a vertical axis that all panels share; None if each has its own.
    across: panels side by side; all if None.
    """

    SIZE = (7.1, 4.8)
    DRAWN_BY = "lines"

    panel: Names
    panels: dict[str, Panel]
    row: str = ""
    line: str
    looks: dict[str, Look]
    x: str
    y: str
    ends: tuple[str, str] | None = None
    deviation: str = ""
    bars: bool = False
    level: float | None = None
    limits: tuple[float, float] | None = None
    across: Annotated[int, Meta(ge=1)] | None = None

    def contradiction(self) -> tuple[str, str] | None:
        if bool(self.ends) == bool(self.deviation):
            return "ends", "what y is uncertain by has two ends or a deviation"
        return None


class Points(Declaration, frozen=True, kw_only=True):
    """Networks by pairs of numbers, which the function `frame` of the paper's module selects.

    panel: the column of its rows whose values are keys of `panels`.
    panels: the panels in order, with the titles of their axes. The horizontal number is `x`.
    y: the column of the vertical one.
    correlation: the rows with that of a panel and its interval, and other numbers of a panel:
        `within` settings, `slope` and `intercept` of a line, `networks`.
    groups, size, shade, values: as in `Panels`.
    equal: panels in which a line marks equal numbers.
    counted: columns of numbers of networks that are not shown, with words for them.
    logarithmic: "x", "y" or both, if their axes are logarithmic.
    shared: whether all panels share one vertical axis.
    across: panels side by side; all if None.
    """

    SIZE = (7.1, 5.2)
    DRAWN_BY = "points"

    panel: str
    panels: dict[str, tuple[str, str]]
    y: str
    correlation: Literal["rho", "tau"]
    groups: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    size: str = ""
    shade: str = ""
    values: dict[str, dict[str, str]] = {}
    equal: tuple[str, ...] = ()
    counted: dict[str, str] = {}
    logarithmic: tuple[Literal["x", "y"], ...] = ()
    shared: bool = False
    across: Annotated[int, Meta(ge=1)] | None = None

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return tuple(filter(None, (*self.groups, self.size, self.shade)))


class Own(Declaration, frozen=True, kw_only=True):
    """A figure that no template draws: `flatlab/papers/<paper>/<figure>.py` does, and says why.

    columns: those whose labels it shows.
    """

    SIZE = (7.1, 4.8)

    columns: tuple[str, ...] = ()

    @property
    def columns_shown(self) -> tuple[str, ...]:
        return self.columns


def _nameless(parts: dict[str, dict[str, str]]) -> tuple[str, str] | None:
    for name, part in parts.items():
        if "of" not in part:
            return "parts", f"{name!r} must name the quantity it is an entry of, {{'of': ...}}"
    return None


TEMPLATES: tuple[type[Declaration], ...] = (
    *(Curves, Sweep, Pairs, Scatter, Forest, Table),
    *(Panels, Ranks, Lines, Points, Own),
)
