"""The networks of chen2026 and its preprint chen2024, and the claims that both make of figures."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.curves import Curves
from flatlab.lab.tables.eligibility import estimates
from flatlab.lab.tables.sweeps import differences_at_equal_epochs, monotonic
from flatlab.stats.estimate import Estimate
from flatlab.stats.verdict import Verdict, every

Words = Sequence[str]

QUANTITIES = {
    "sharpness": "root_sharpness",
    "MLS": "mls",
    "NMLS": "nmls",
    "log volume": "log_volume",
    "G": "g",
    "dimension": "local_dimension",
    "gap": "generalization_gap",
    "kappa": "relative_flatness",
    "MLS bound": "bound_d",
    "NMLS bound": "nmls_bound",
    "bound C": "bound_c",
    "test loss": "test_loss",
}
"""The papers' words for the columns of the tables."""

COMPRESSION = ("MLS", "NMLS", "log volume")

MLP, VGG, LENET = "mlp-grid", "vgg-grid", "lenet-grid"
CENTRAL = {"lr": 0.1, "batch_size": 20}
RATES = [{**CENTRAL, "lr": lr} for lr in (0.05, 0.1, 0.2)]
BATCHES = [{**CENTRAL, "batch_size": size} for size in (8, 20, 32)]
SETTINGS = [*RATES, BATCHES[0], BATCHES[-1]]

STRONG = 0.5
"""How far from 1 a strong correlation may be."""


def listed(words: Words) -> str:
    """As a claim lists quantities: "MLS", or "each of MLS, NMLS"."""
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"


def pairs(x: str, others: Words) -> list[tuple[str, str]]:
    """The columns of quantity x with each of others, all of them in words."""
    return [(QUANTITIES[x], QUANTITIES[word]) for word in others]


class TrendFigure(NamedTuple):
    """A figure of training curves; its methods register claims about it.

    claims: of the paper.
    figure: its key.
    grid: the experiment.
    settings: of its lines, in the order of the one hyper-parameter in which they differ.

    I is interpolation: from the first checkpoint with a training loss below 1e-2 to the end.
    """

    claims: Claims
    figure: str
    grid: str
    settings: Sequence[Mapping[str, float]]

    def curves(self, e: ResultTables) -> list[Curves]:
        """The training curves of each line."""
        return [e[self.grid].where(**setting).curves for setting in self.settings]

    def each(
        self, text: str, source: str, quote: str, judge: Callable[..., Verdict], **about: Any
    ) -> None:
        """What holds if it holds of each line.

        judge: of its curves and, if there is one, of the claim's threshold.
        about: the key, and other fields of the claim.
        """

        @self.claims(self.figure, text, source, quote, **about)
        def _(e: ResultTables, *threshold: float) -> Verdict:
            return every(judge(line, *threshold) for line in self.curves(e))

    def at_the_end(self, words: Words, source: str, quote: str) -> None:
        """Higher learning rates lower each of the quantities, larger batches raise it.

        Batch sizes are compared after equally many iterations, as in the paper; the differences
        after equally many epochs, as small batches have seen fewer samples, are reported beside it.
        """
        rising = self.settings is BATCHES
        what = "rises with the batch size" if rising else "falls with lr"
        names = [QUANTITIES[word] for word in words]

        @self.claims(self.figure, f"{listed(words)} at the end {what}, at each step", source, quote)
        def _(e: ResultTables) -> Verdict:
            lines = self.curves(e)
            beside = (differences_at_equal_epochs(lines, name) for name in names if rising)
            verdict = every(monotonic(lines, name, rising) for name in names)
            return verdict.reporting(*(step.report() for step in chain(*beside)))

    def falls(self, words: Words, source: str, quote: str) -> None:
        """The quantities decrease during interpolation."""
        self.each(
            f"trend({listed(words)}) < 0 in I, in each line",
            source,
            quote,
            lambda line: every(line.trend(QUANTITIES[word], "I") < 0 for word in words),
        )

    def follows(self, words: Words, source: str, quote: str) -> None:
        """The quantities follow sharpness in interpolation.

        Over all of training everything rises from initialization together, the more so as the
        checkpoints are dense there: those correlations are reported and not judged.
        """
        compared = pairs("sharpness", words)

        def judge(line: Curves, distance: float) -> Verdict:
            inside = every(rho > 1 - distance for rho in line.rhos(*compared, window="I"))
            in_all = line.rhos(*compared, window="training")
            return inside.reporting(*(rho.report() for rho in in_all))

        text = f"rho_t(sharpness, {listed(words)}) > 1 - {STRONG} in I, in each line"
        self.each(text, source, quote, judge, threshold=STRONG)


class PairPlot(NamedTuple):
    """A figure of correlations between networks; its methods register claims about it.

    claims: of the paper.
    figure: its key.
    grid: the experiment.
    seeds: how many of each setting it shows; None for all.
    """

    claims: Claims
    figure: str
    grid: str
    seeds: int | None = None

    def rhos(self, e: ResultTables, *columns: tuple[str, str]) -> list[Estimate]:
        """Correlations of pairs of columns over the networks that interpolate."""

        def of_networks() -> list[Estimate]:
            networks = e[self.grid].that_interpolate().called(**{"root g": "root_g"})
            return (networks.of_seeds(self.seeds) if self.seeds else networks).rhos(*columns)

        return estimates([f"rho({x}, {y}); {self.grid}" for x, y in columns], of_networks)

    def rise_together(self, x: str, others: Words, source: str, quote: str, **about: Any) -> None:
        """Quantity x correlates positively with each of others."""
        text = f"rho({x}, {listed(others)}) > 0"

        @self.claims(self.figure, text, source, quote, **about)
        def _(e: ResultTables) -> Verdict:
            return every(rho > 0 for rho in self.rhos(e, *pairs(x, others)))

    def closer(
        self, x: str, strong: Words, weak: Words, source: str, quote: str, **about: Any
    ) -> None:
        """Quantity x correlates more strongly with each of some than with each of others."""
        text = f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})"

        @self.claims(self.figure, text, source, quote, **about)
        def _(e: ResultTables) -> Verdict:
            rhos = self.rhos(e, *pairs(x, [*strong, *weak]))
            return every(a > b for a in rhos[: len(strong)] for b in rhos[len(strong) :])
