"""What `flatlab/papers/<paper>/figures.py` is written in: a record per paper, a record per figure.

The class of a figure names what draws it: `Curves` is `flatlab/plotting/curves.py`, and `Own` is
a module of the paper's folder that is called as the figure is. Plain data; nothing is drawn here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from flatlab.plan.schema import Strict, closest

Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Look = tuple[str, str, str]
"""Colour, marker and dash of a line, as matplotlib writes them."""


class Paper(Strict, frozen=True, kw_only=True):
    """A publication: `PAPER` of its figures.py.

    targets: its data figures and tables, in order, whether they are declared or not; empty where
    those declared are all.  needs: of targets that cannot be built, what is missing.
    """

    title: str
    citation: str
    targets: tuple[str, ...] = ()
    needs: dict[str, str] = {}


class Shown(Strict, frozen=True):
    """experiments: one key, or several, whose tables a figure shows; the one without a name."""

    experiments: str | Names


class Declaration(Shown, frozen=True, kw_only=True):
    """What every figure says of itself: an entry of `FIGURES`.

    caption: what one reads below the figure, as sentences.  size_inches: width and height; the
    template's own where it is None.
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

    def resolved(self) -> dict[str, Any]:
        """All of it as plain data, with what the template supplies filled in."""
        sentences = (self.caption,) if isinstance(self.caption, str) else self.caption
        content = {
            **msgspec.to_builtins(self),
            "template": type(self).__name__.lower(),
            "experiments": self.keys,
            "correlated": self.correlated,
            "caption": " ".join(sentences),
            "size_inches": self.size_inches or self.SIZE,
        }
        return msgspec.json.decode(msgspec.json.encode(content))  # lists where there are tuples

    def contradiction(self) -> tuple[str, str] | None:
        """An option and what is wrong with it beside the others, or None."""
        return None


class Curves(Declaration, frozen=True, kw_only=True):
    """Quantities through training, mean and spread over the seeds: a panel per quantity.

    where: hyper-parameters that the shown settings share.  samples: sample sets.  line: what a
    line is of; with `quantity` all quantities share a panel, and there is one panel per entry of
    `axes`, {title: linear or logarithmic}.  marks: whether to mark where interpolation begins.
    looks: of lines that are not to look as in other figures, by name.
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
        """Panels are either of quantities, or of axes."""
        if (self.line == "quantity") != bool(self.axes):
            return "axes", "line='quantity' needs it, as {title: 'linear'}, and nothing else does"
        return None


class Pairs(Declaration, frozen=True, kw_only=True):
    """Every quantity against every other at the end of training, of one experiment.

    seeds: shows the runs of these alone, with correlations of their own.
    """

    SIZE = (13.0, 13.0)

    quantities: Names
    seeds: tuple[int, ...] = ()

    @property
    def correlated(self) -> tuple[str, ...]:
        """A selection of seeds has correlations of its own, computed as it is drawn."""
        return () if self.seeds else self.keys


class Scatter(Declaration, frozen=True, kw_only=True):
    """One quantity against another at the end of training: a column per experiment, a row per pair.

    pairs: abscissa and ordinate.  fit: whether to draw the line of least squares.
    """

    SIZE = (11.0, 7.6)

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]
    fit: bool = False

    @property
    def correlated(self) -> tuple[str, ...]:
        """The correlation stands in the panel."""
        return self.keys


class Forest(Declaration, frozen=True, kw_only=True):
    """Correlations with their intervals below each other: a column per experiment.

    pairs: what is correlated at the end of training, grouped by the first of the two.  names: of
    quantities, as they are printed.  parts: quantities that are a part of another,
    {"bound_d kernel": {"of": "bound_by_norm", "norm": "kernel", "bound": "d"}}.
    """

    SIZE = (11.0, 5.6)

    pairs: Annotated[tuple[tuple[str, str], ...], Meta(min_length=1)]
    names: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        """A part is a part of something."""
        return _nameless(self.parts)


class Heatmap(Declaration, frozen=True, kw_only=True):
    """The correlation matrix of some quantities, of one experiment.

    kind: over all runs, of deviations from the settings' means, or of these means.
    """

    SIZE = (6.5, 6.0)

    quantities: Names
    kind: Literal["pooled", "within", "between"] = "pooled"

    @property
    def correlated(self) -> tuple[str, ...]:
        """It shows nothing else."""
        return self.keys


class Table(Declaration, frozen=True, kw_only=True):
    """Mean and deviation over networks at the end of training, beside what the paper prints.

    rows: quantities, with a name and an explanation.  by: the hyper-parameter that tells the
    columns apart.  columns: its values, with the columns' titles.  printed: by quantity and value,
    mean and standard deviation.  parts: as in `Forest`.
    """

    SIZE = (9.0, 3.6)

    rows: dict[str, tuple[str, str]]
    by: str
    columns: dict[str, str]
    printed: dict[str, dict[str, tuple[float, float]]] = {}
    parts: dict[str, dict[str, str]] = {}

    def contradiction(self) -> tuple[str, str] | None:
        """What is printed belongs to a row and a column."""
        for row, numbers in self.printed.items():
            if row not in self.rows:
                return "printed", f"unknown row {row!r}; {closest(row, self.rows)}"
            for column in numbers:
                if column not in self.columns:
                    hint = closest(column, self.columns)
                    return "printed", f"{row}: unknown column {column!r}; {hint}"
        return _nameless(self.parts)


class Own(Declaration, frozen=True, kw_only=True):
    """A figure of its own kind: `frame` and `draw` of `flatlab/papers/<paper>/<figure>.py`."""

    SIZE = (11.0, 7.0)


def _nameless(parts: dict[str, dict[str, str]]) -> tuple[str, str] | None:
    """What is wrong with parts that do not say what they are parts of."""
    for name, part in parts.items():
        if "of" not in part:
            return "parts", f"{name!r} must name the quantity that it is a part of, {{'of': ...}}"
    return None


TEMPLATES: tuple[type[Declaration], ...] = (Curves, Pairs, Scatter, Forest, Heatmap, Table, Own)
ONE_EXPERIMENT = (Curves, Pairs, Heatmap, Table)
"""Of these the first argument is one key."""
