"""What a paper and each of its figures declare in `papers/<paper>/figures.py`."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from flatlab.core.schema import Strict, plain
from flatlab.lab.plan.labels import labels_of

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


SIZES = {
    **{"frames.training": (7.1, 4.9), "frames.along": (7.1, 3.2)},
    **{"frames.pairs": (7.1, 5.4), "frames.sharpness": (7.1, 5.2), "points": (7.1, 5.2)},
    **{"frames.correlations": (7.1, 4.2), "frames.ranks": (7.1, 8.2)},
    **{"matrix": (7.1, 7.9), "table": (7.1, 3.0)},
}
"""Width and height in inches by what selects or draws a figure, unless it declares others."""


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
    def selected_by(self) -> str:
        """The module of `flatlab.lab.figures` with `frame`; "": a module of the paper's folder."""
        return ""

    @property
    def one_experiment(self) -> bool:
        """Whether it shows exactly one experiment."""
        return self.selected_by in ("frames.training", "frames.along", "matrix", "table")

    @property
    def by_experiment(self) -> bool:
        """Whether each experiment has panels of its own, and can be shown without the others."""
        return False

    @property
    def correlated(self) -> tuple[str, ...]:
        """The experiments whose correlation matrices it reads."""
        return ()

    @property
    def columns_shown(self) -> tuple[str, ...]:
        """The columns whose labels it shows."""
        return ()

    def resolved(self) -> dict[str, Any]:
        """The declaration as plain data, with the defaults of the template filled in."""
        sentences = (self.caption,) if isinstance(self.caption, str) else self.caption
        content = {
            **plain(self),
            "selected_by": self.selected_by and f"flatlab.lab.figures.{self.selected_by}",
            "drawn_by": self.DRAWN_BY and f"flatlab.lab.figures.{self.DRAWN_BY}",
            "experiments": self.keys,
            "correlated": self.correlated,
            "caption": " ".join(sentences),
            "labels": {**labels_of(self.columns_shown), **self.labels},
            "size_inches": self.size_inches
            or SIZES.get(self.selected_by or self.DRAWN_BY, (7.1, 4.8)),
            "through_training": self.through_training or self.selected_by == "frames.training",
        }
        for name in ("details", "module"):  # not drawn, and known by the module itself
            content.pop(name)
        return plain(content)
