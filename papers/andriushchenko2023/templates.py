"""The templates of andriushchenko2023: sharpness by definition and radius, against errors."""

from typing import Annotated

from msgspec import Meta, field

from flatlab.lab.plan.declarations import Across, Aliases, CustomFigure


class OfSharpness(CustomFigure, frozen=True, kw_only=True):
    """What figures of sharpness by definition and radius, against errors, declare.

    columns: ordinates, for each experiment: quantities or hyper-parameters.
    aliases: other names of columns.
    of_stand_ins: other labels, where networks and data stand in for the paper's.
    at_most: only networks for which these quantities are at most so large.
    groups: hyper-parameters; their combinations are groups, with taus of their own.
    values: printed names of their values.
    """

    columns: Annotated[tuple[str, ...], Meta(min_length=1)]
    aliases: Aliases = field(default_factory=dict)
    of_stand_ins: dict[str, str] = field(default_factory=dict)
    at_most: dict[str, float] = field(default_factory=dict)
    groups: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    values: dict[str, dict[str, str]] = field(default_factory=dict)


class SharpnessGrid(OfSharpness, frozen=True, kw_only=True):
    """Sharpness on a logarithmic axis against errors, a row per definition, with Kendall's tau.

    Colour and marker stand for the `groups`.

    rows: definitions of sharpness and the numbers of their radii.
    size: the hyper-parameter that the size of a marker stands for.
    shade: a number that colour stands for, in place of the first of `groups`.
    logarithmic: columns with such an axis.
    across: panels side by side; a divisor of those of a row, if None all of it.
    """

    BY_EXPERIMENT = True

    module: str = "sharpness_grid"
    size_inches: tuple[float, float] = (7.1, 5.2)
    rows: Annotated[tuple[tuple[str, int], ...], Meta(min_length=1)]
    size: str = ""
    shade: str = ""
    logarithmic: tuple[str, ...] = ()
    across: Across = None


class RankTable(OfSharpness, frozen=True, kw_only=True):
    """Kendall's tau of sharpness and errors for every definition and radius, beside the printed.

    Taus of `groups` are in the CSV alone.

    printed: what the paper prints, by experiment and definition: for each column, by radius. Where
        it prints a definition for an experiment, only such definitions are shown.
    """

    module: str = "rank_table"
    size_inches: tuple[float, float] = (7.1, 8.2)
    printed: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = field(default_factory=dict)
