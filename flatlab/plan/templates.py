"""The records of `flatlab/papers/<paper>/figures.py`: one per paper, one per figure.

The class of a figure names the module that draws it: `Curves` is `flatlab/plotting/curves.py`, and
`Own` is the module of the paper's folder with the figure's name. Nothing is drawn here.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from flatlab.plan.schema import Strict, closest, plain

Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Look = tuple[str, str, str]
"""Colour, marker and dash of a line, in matplotlib's notation."""


class Paper(Strict, frozen=True, kw_only=True):
    """A publication: `PAPER` of its figures.py.

    targets: all its data figures and tables in order, declared or not; empty if all are declared.
    needs: what is missing for targets that cannot be built yet.
    """

    title: str
    citation: str
    targets: tuple[str, ...] = ()
    needs: dict[str, str] = {}


class Shown(Strict, frozen=True):
    """experiments: the key or keys whose tables are shown; the only positional argument."""

    experiments: str | Names


class Declaration(Shown, frozen=True, kw_only=True):
    """What all figures declare: an entry of `FIGURES`.

    caption: the sentences below the figure.  size_inches: width and height; None for the default
    of the template.
    """

    SIZE: ClassVar[tuple[float, float]]

    title: str
    caption: str | Names
    size_inches: tuple[float, float] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The experiments, as a tuple."""
        return (self.experiments,) if isinstance(self.experiments, str) else self.experiments

    @property
    def correlated(self) -> tuple[str, ...]:
        """The experiments whose correlation matrices it reads."""
        return ()

    @property
    def template(self) -> str:
        """The stem of the module that draws it."""
        return type(self).__name__.lower()

    def resolved(self) -> dict[str, Any]:
        """The declaration as plain data, with the defaults of the template filled in."""
        sentences = (self.caption,) if isinstance(self.caption, str) else self.caption
        content = {
            **plain(self),
            "template": self.template,
            "experiments": self.keys,
            "correlated": self.correlated,
            "caption": " ".join(sentences),
            "size_inches": self.size_inches or self.SIZE,
        }
        return plain(content)


class Curves(Declaration, frozen=True, kw_only=True):
    """Quantities during training, mean and spread over the seeds, in a panel per quantity.

    where: hyper-parameters that the settings shown have in common.  samples: sample sets.
    line: what each line stands for; with `quantity` all quantities share a panel, and there is one
    panel per entry of `axes`, {title: linear or logarithmic}.  marks: whether to mark the start of
    interpolation.  looks: lines that look different from those in other figures, by name.
    """

    SIZE = (11.0, 7.0)

    quantities: Names
    where: dict[str, str | int | float] = {}
    samples: Names = ("train",)
    line: Literal["setting", "samples", "quantity"] = "setting"
    axes: dict[str, Literal["linear", "logarithmic"]] = {}
    columns: Annotated[int, Meta(ge=1)] = 3
    marks: bool = True
    looks: dict[str, Look] = {}

    def contradiction(self) -> tuple[str, str] | None:
        if (self.line == "quantity") != bool(self.axes):
            return "axes", "line='quantity' needs it, as {title: 'linear'}, and nothing else does"
        return None


class Pairs(Declaration, frozen=True, kw_only=True):
    """Every quantity against every other at the end of training, for one experiment.

    seeds: the only seeds shown and correlated; all if empty.
    """

    SIZE = (13.0, 13.0)

    quantities: Names
    seeds: tuple[int, ...] = ()

    @property
    def correlated(self) -> tuple[str, ...]:
        return () if self.seeds else self.keys  # those of some seeds are computed when it is drawn


class Scatter(Declaration, frozen=True, kw_only=True):
    """One quantity against another at the end of training: a column per experiment, a row per pair.

    pairs: abscissa and ordinate.
    """

    SIZE = (11.0, 7.6)

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]

    @property
    def correlated(self) -> tuple[str, ...]:
        return self.keys


class Forest(Declaration, frozen=True, kw_only=True):
    """Correlations with their confidence intervals, in a column per experiment.

    pairs: quantities to correlate at the end of training, grouped by the first of each pair.
    names: printed names of quantities.  parts: quantities that are one entry of another,
    {"bound_d kernel": {"of": "bound_by_norm", "norm": "kernel", "bound": "d"}}.
    """

    SIZE = (11.0, 5.6)

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]
    names: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        return _nameless(self.parts)


class Heatmap(Declaration, frozen=True, kw_only=True):
    """The correlation matrix of some quantities of one experiment.

    kind: over all runs, of their deviations from the means of the settings, of these means, or
    partial, given the training loss.
    """

    SIZE = (6.5, 6.0)

    quantities: Names
    kind: Literal["pooled", "within", "between", "adjusted"] = "pooled"

    @property
    def correlated(self) -> tuple[str, ...]:
        return self.keys


class Table(Declaration, frozen=True, kw_only=True):
    """Mean and standard deviation over networks at the end of training, next to the paper's values.

    rows: quantities, each with a name and an explanation.  by: the hyper-parameter that the columns
    differ in.  columns: its values, with the titles of the columns.  printed: the paper's mean and
    standard deviation by quantity and value.  parts: as in `Forest`.
    """

    SIZE = (9.0, 3.6)

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

    rows: definitions and the numbers of their radii.  columns: ordinates with their labels, for
    each experiment: quantities, parts as in `Forest`, or hyper-parameters.  at_most: only networks
    for which these quantities are at most so large.  groups: the hyper-parameters that colour and
    marker stand for; their combinations are groups, with taus of their own.  size: the one that the
    size of a marker stands for.  shade: a number that colour stands for, in place of the first of
    `groups`.  values: printed names of their values.  logarithmic: ordinates with such an axis.
    across: panels side by side, where those of a row do not fit into one line; a divisor of these.
    """

    SIZE = (7.1, 5.2)

    rows: Annotated[tuple[tuple[str, int], ...], Meta(min_length=1)]
    columns: dict[str, str]
    parts: dict[str, dict[str, str]] = {}
    at_most: dict[str, float] = {}
    groups: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    size: str = ""
    shade: str = ""
    values: dict[str, dict[str, str]] = {}
    logarithmic: tuple[str, ...] = ()
    across: Annotated[int, Meta(ge=1)] | None = None

    def contradiction(self) -> tuple[str, str] | None:
        if self.across and len(self.columns) * len(self.keys) % self.across:
            return "across", "must divide the number of panels in a row"
        if self.shade and len(self.groups) > 1:
            return "shade", "colour stands for it, so that only one of groups has the markers"
        return _nameless(self.parts)


class Ranks(Declaration, frozen=True, kw_only=True):
    """Kendall's tau of sharpness and errors, for every definition and radius, beside the printed.

    columns, parts, at_most, groups, values: as in `Panels`; taus of groups are in the CSV alone.
    printed: what the paper prints, by experiment and definition: for each column, by radius. Where
    it prints a definition for an experiment, only such definitions are shown.
    """

    SIZE = (7.1, 8.2)

    columns: dict[str, str]
    parts: dict[str, dict[str, str]] = {}
    at_most: dict[str, float] = {}
    groups: tuple[str, ...] = ()
    values: dict[str, dict[str, str]] = {}
    printed: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        for key, definitions in self.printed.items():
            if key not in self.keys:
                return "printed", f"unknown experiment {key!r}; {closest(key, self.keys)}"
            for name, taus in definitions.items():
                if len(taus) != len(self.columns):
                    return "printed", f"{name}: {len(taus)} lists for {len(self.columns)} columns"
        return _nameless(self.parts)


class Own(Declaration, frozen=True, kw_only=True):
    """A figure that no template draws: `flatlab/papers/<paper>/<figure>.py` does."""

    SIZE = (11.0, 7.0)


def _nameless(parts: dict[str, dict[str, str]]) -> tuple[str, str] | None:
    for name, part in parts.items():
        if "of" not in part:
            return "parts", f"{name!r} must name the quantity it is an entry of, {{'of': ...}}"
    return None


TEMPLATES: tuple[type[Declaration], ...] = (
    *(Curves, Pairs, Scatter, Forest, Heatmap, Table),
    *(Panels, Ranks, Own),
)
ONE_EXPERIMENT = (Curves, Pairs, Heatmap, Table)
"""Templates that show exactly one experiment."""
