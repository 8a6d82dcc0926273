"""chen2026, Figures 2, 3, I.10, I.11 and J.12: sharpness and compression through training.

Before them, the networks of the paper and of its preprint chen2024, the papers' words for their
quantities, and the claims that both papers make of figures of one kind.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, permutations
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from flatlab.lab.claims import Claims
from flatlab.lab.tables.curves import Curves, Window
from flatlab.lab.tables.eligibility import NotEligible, estimates
from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.chen2026 import _curves as curves
from flatlab.papers.chen2026.readings import READINGS
from flatlab.stats.estimate import Array, Estimate
from flatlab.stats.time_weights import Weight, shares, spread
from flatlab.stats.verdict import Verdict, every, some

CLAIMS = Claims("chen2026", READINGS)

Words = Sequence[str]

QUANTITIES = {
    "sharpness": "root_sharpness",
    "MLS": "mls",
    "NMLS": "nmls",
    "log volume": "log_volume",
    "G": "g",
    "dimension": "local_dimension",
    "gap": "loss_gap",
    "kappa": "relative_flatness",
    "MLS bound": "bound_d",
    "NMLS bound": "nmls_bound",
    "bound C": "bound_c",
    "test loss": "test_loss",
    "partial sharpness": "root sharpness_per_layer[0]",
    "adaptive sharpness": "elementwise_adaptive_trace",
    "normalized MLS": "normalized_mls",
}
"""The papers' words for the columns of the tables."""

OTHERWISE = {
    "accuracies": {"loss_gap": "generalization_gap"},
    "mean": {"log_volume": "log_mean_volume"},
}
"""Choices of readings under which other columns are meant."""

COMPRESSION = ("MLS", "NMLS", "log volume")

MLP, VGG, LENET = "mlp-grid", "vgg-grid", "lenet-grid"
CENTRAL = {"lr": 0.1, "batch_size": 20}
RATES = [{**CENTRAL, "lr": lr} for lr in (0.05, 0.1, 0.2)]
BATCHES = [{**CENTRAL, "batch_size": size} for size in (8, 20, 32)]
SETTINGS = [*RATES, BATCHES[0], BATCHES[-1]]

STRONG = WELL = 0.5
"""How far from 1 a strong correlation may be, and one of what correlates well."""


def listed(words: Words) -> str:
    """As a claim lists quantities: "MLS", or "each of MLS, NMLS"."""
    return words[0] if len(words) == 1 else f"each of {', '.join(words)}"


def pairs(x: str, others: Words) -> list[tuple[str, str]]:
    """The columns of quantity x with each of others, all of them in words."""
    return [(QUANTITIES[x], QUANTITIES[word]) for word in others]


def rho_with_sharpness(line: Curves, word: str, window: Window, by: Weight) -> Estimate:
    """The correlation over time of a quantity with sharpness, of the networks of one setting."""
    return line.rhos(*pairs("sharpness", [word]), window=window, by=by)[0]


PASSED = {"window": "window", "weight": "by"}
SPANS = {"interpolation": "I"}
"""What judges of curves call readings, and their choices."""

DURING = ("window", "weight")
"""What is open where a sentence says that something happens during the training."""


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
        self, text: str, source: str, quote: str, **about: Any
    ) -> Callable[[Callable[..., Verdict]], None]:
        """The decorator that registers what holds if it holds of each line.

        Its judge is given the curves, the threshold, if there is one, and what readings say.
        about: the key, and other fields of the claim.
        """

        def register(judge: Callable[..., Verdict]) -> None:
            @self.claims(self.figure, text, source, quote, **about)
            def _(e: ResultTables, *threshold: float, **choice: str) -> Verdict:
                given = {PASSED[name]: SPANS.get(chosen, chosen) for name, chosen in choice.items()}
                return every(judge(line, *threshold, **given) for line in self.curves(e))

        return register

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
            beside = (curves.differences_at_equal_epochs(lines, name) for name in names if rising)
            verdict = every(curves.monotonic(lines, name, rising) for name in names)
            return verdict.reporting(*(step.report() for step in chain(*beside)))

    def falls(self, words: Words, source: str, quote: str) -> None:
        """The quantities decrease during interpolation."""

        text = f"trend({listed(words)}) < 0 in I, in each line"

        @self.each(text, source, quote, under=("weight",))
        def _(line: Curves, by: Weight) -> Verdict:
            return every(line.trend(QUANTITIES[word], "I", by=by) < 0 for word in words)

    def follows(self, words: Words, source: str, quote: str) -> None:
        """The quantities follow sharpness."""
        compared = pairs("sharpness", words)
        text = f"rho_t(sharpness, {listed(words)}) > 1 - {STRONG}, in each line"

        @self.each(text, source, quote, threshold=STRONG, under=DURING)
        def _(line: Curves, distance: float, window: Window, by: Weight) -> Verdict:
            return every(r > 1 - distance for r in line.rhos(*compared, window=window, by=by))


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

    def says(self, text: str, source: str, quote: str, **about: Any) -> Callable[..., Any]:
        """The decorator that registers a claim about the networks, which are of five settings."""
        return self.claims(self.figure, text, source, quote, readings={"settings": "five"}, **about)

    def rhos(self, e: ResultTables, *columns: tuple[str, str], **choice: str) -> list[Estimate]:
        """Correlations of pairs of columns over the networks that interpolate.

        choice: of readings, under which other columns may be meant.
        """
        meant: dict[str, str] = {}
        for chosen in choice.values():
            meant |= OTHERWISE.get(chosen, {})
        columns = tuple((meant.get(x, x), meant.get(y, y)) for x, y in columns)

        def of_networks() -> list[Estimate]:
            networks = e[self.grid].that_interpolate().labelled(**{"root g": "root_g"})
            if any("loss_gap" in pair for pair in columns):
                networks = networks.with_table(with_loss_gap)
            if self.seeds:
                networks = networks.among(networks.table["seed"].values < self.seeds)
            return networks.rhos(*columns)

        return estimates([f"rho({x}, {y}); {self.grid}" for x, y in columns], of_networks)

    def above(
        self, x: str, others: Words, source: str, quote: str, limit: float = 0, **about: Any
    ) -> None:
        """The correlation of quantity x with each of others is above a number."""
        distance = {"threshold": 1 - limit} if limit else {}
        text = f"rho({x}, {listed(others)}) > {limit:g}"

        @self.says(text, source, quote, under=open_in(x, *others), **distance, **about)
        def _(e: ResultTables, distance: float = 1, **choice: str) -> Verdict:
            rhos = self.rhos(e, *pairs(x, others), **choice)
            return every(rho > 1 - distance for rho in rhos)

    def closer(
        self, x: str, strong: Words, weak: Words, source: str, quote: str, **about: Any
    ) -> None:
        """Quantity x correlates more strongly with each of some than with each of others."""
        text = f"rho({x}, {listed(strong)}) > rho({x}, {listed(weak)})"

        @self.says(text, source, quote, under=open_in(x, *strong, *weak), **about)
        def _(e: ResultTables, **choice: str) -> Verdict:
            rhos = self.rhos(e, *pairs(x, [*strong, *weak]), **choice)
            return every(a > b for a in rhos[: len(strong)] for b in rhos[len(strong) :])


def open_in(*words: str) -> list[str]:
    """The readings that decide what words of a sentence mean."""
    found = {"gap": "gap", "log volume": "volume"}
    return [found[word] for word in words if word in found]


def with_loss_gap(table: xr.Dataset) -> xr.Dataset:
    """The table with the test loss less the training loss."""
    if not {"test_loss", "train_loss"} <= {*table}:
        raise NotEligible(f"{table.attrs['experiment']} has no losses")
    return table.assign(loss_gap=table["test_loss"] - table["train_loss"])


S, VOLUME, DIMENSION = "root_sharpness", "log_volume", "local_dimension"
PLATEAU, PLATEAU_BEGINS = 0.1, 50_000
MUCH_SLOWER = 0.5
"""Ours: a much slower rate is less than this share of the former one."""

HIGHER_RATES = "Higher learning rates lead to lower sharpness and hence stronger compression"
SMALLER_BATCHES = "Smaller batch sizes lead to lower sharpness and hence stronger compression"


def prefactor_is_stable(figure: TrendFigure, key: str) -> None:
    """The bound D is a prefactor (norms) times sharpness; sharpness dominates its variation."""

    @figure.each(
        "the prefactor of the MLS bound varies less than sharpness (standard deviations of the "
        "logarithms), in each line",
        "Sec. 3.2",
        "for a fixed network architecture during training [...] the prefactors remain relatively "
        "stable [...] so the sharpness term dominates the variation in the bound",
        key=key,
        under=DURING,
    )
    def _(line: Curves, window: Window, by: Weight) -> Verdict:
        def excess() -> Array:
            found = []
            for times, values in line.seen([S, "bound_d"], window, "train"):
                sharp, bound = np.log(values)
                found.append(np.diff(spread(np.stack([sharp, bound - sharp]), shares(times, by))))
            return np.concatenate(found)

        label = f"std over {window}, by {by}, of log(bound D / sharpness) - of log sharpness"
        return line.over_runs(label, excess) < 0


def flatter_but_worse(trend: TrendFigure) -> None:
    """A lower sharpness comes with a lower test accuracy."""

    @CLAIMS(
        trend.figure,
        "for some two settings the one of lower sharpness has the lower test accuracy",
        "Sec. 5",
        "lower sharpness does not always imply better test accuracy",
        "c4",
    )
    def _(e: ResultTables) -> Verdict:
        return some(
            (curves.difference_of_ends(a, b, S) < 0)
            & (curves.difference_of_ends(a, b, "test_accuracy") < 0)
            for a, b in permutations(trend.curves(e), 2)
        )


# Figure 2: learning rates -------------------------------------------------------------------------
VGG_RATES = TrendFigure(CLAIMS, "fig2", VGG, RATES)
VGG_RATES.at_the_end(("sharpness",), "caption of Fig. 2, Sec. 4.1", HIGHER_RATES)
VGG_RATES.at_the_end(COMPRESSION, "caption of Fig. 2", HIGHER_RATES)
VGG_RATES.falls(
    ("sharpness", *COMPRESSION),
    "Sec. 4.1",
    "when the network reaches the interpolation regime [...] the sharpness decreases with "
    "compression metrics, including MLS, NMLS, and volume",
)


@VGG_RATES.each(
    "rho_t(sharpness, each of MLS, NMLS) > rho_t(sharpness, log volume) in I, in each line",
    "Sec. 4.1",
    "MLS and NMLS match better with the trend of sharpness",
    under=("weight",),
)
def _(line: Curves, by: Weight) -> Verdict:
    *more, less = line.rhos(*pairs("sharpness", COMPRESSION), window="I", by=by)
    return every(rho > less for rho in more)


VGG_RATES.each(
    "dimension at the start of I < at iteration 0, in each line",
    "Sec. 4.4",
    "the local dimensionality of the representation decreases as the loss decreases to near 0",
)(lambda line: curves.until_interpolation(line, DIMENSION) < 0)


@VGG_RATES.each(
    "|rho_t(sharpness, dimension)| < rho_t(sharpness, MLS) in I, in each line",
    "Sec. 4.4",
    "the local dimensionality exhibits unpredictable behavior that cannot be explained by the "
    "sharpness once the network finds an approximate interpolation solution",
    under=("weight",),
)
def _(line: Curves, by: Weight) -> Verdict:
    weak, strong = line.rhos((S, DIMENSION), (S, "mls"), window="I", by=by)
    return (strong > weak) & (strong > -weak)


prefactor_is_stable(VGG_RATES, "c8")

# Figure 3: batch sizes ----------------------------------------------------------------------------
VGG_BATCHES = TrendFigure(CLAIMS, "fig3", VGG, BATCHES)
VGG_BATCHES.at_the_end(("sharpness",), "caption of Fig. 3", SMALLER_BATCHES)
VGG_BATCHES.at_the_end(COMPRESSION, "caption of Fig. 3", SMALLER_BATCHES)
VGG_BATCHES.falls(
    ("sharpness", *COMPRESSION),
    "Sec. 4.1",
    "The same broadly consistent trends emerged, linking a decrease in the sharpness to a "
    "compression in the neural representation",
)


@VGG_BATCHES._replace(settings=BATCHES[-1:]).each(
    f"batch size 32: from iteration {PLATEAU_BEGINS:,} to the end sharpness changes by less than "
    f"{PLATEAU:.0%} and log volume falls",
    "Sec. 4.1",
    "while sharpness stops decreasing after about 5 10^4 iterations for a batch size of 32, the "
    "volume continues to decrease",
    threshold=PLATEAU,
)
def _(line: Curves, limit: float) -> Verdict:
    if shorter := [what for what in line.table.attrs["differs"] if "iterations instead" in what]:
        told = f"iteration {PLATEAU_BEGINS:,} means nothing in {line.key}: {'; '.join(shorter)}"
        raise NotEligible(told)
    change = curves.since(line, PLATEAU_BEGINS, S, relative=True)
    return every([change.within(limit), curves.since(line, PLATEAU_BEGINS, VOLUME) < 0])


prefactor_is_stable(VGG_BATCHES, "c8")


# Figures I.10 and I.11: perceptrons ---------------------------------------------------------------
def volume_falls_slower(line: Curves, limit: float) -> Verdict:
    """After sharpness has reached a plateau; where there is none the claim says nothing."""
    plateau = curves.change_in_last_half(line, S).within(limit)
    falls = (line.trend(VOLUME, "last half of I") < 0) & (
        curves.slowing(line, VOLUME, MUCH_SLOWER) < 0
    )
    return falls.provided(plateau, f"no plateau of sharpness is seen in {line}")


PERCEPTRON_RATES = TrendFigure(CLAIMS, "figI11", MLP, RATES)
for trend in (TrendFigure(CLAIMS, "figI10", MLP, BATCHES), PERCEPTRON_RATES):
    trend.follows(
        ("MLS", "NMLS"),
        f"caption of Fig. I.{trend.figure[-2:]}",
        "MLS/NMLS closely follows the trend of sharpness during the training",
    )
    trend.each(
        "where sharpness is on a plateau in the last half of I (it changes by less than "
        f"{PLATEAU:.0%}), trend(log volume) < 0 there, with a slope below {MUCH_SLOWER:g} of that "
        "of the first half, in each line",
        "Sec. 4.1",
        "The volume continues to decrease after the sharpness plateaus, albeit at a much slower "
        "rate",
        threshold=PLATEAU,
    )(volume_falls_slower)
    flatter_but_worse(trend)
    prefactor_is_stable(trend, "c5")


# Figure J.12: test samples, and the misclassified ones among them ---------------------------------
def follows_on_test_samples(figure: TrendFigure, word: str, source: str) -> None:
    """Sensitivity goes with sharpness on test samples, too."""

    figure.each(
        f"rho_t({word}, sharpness) > 0 on test samples in I",
        source,
        f"Again we see that {word} has the same trend as the sharpness",
        under=("weight",),
    )(lambda line, by: line.rhos((QUANTITIES[word], S), window="I", samples="test", by=by)[0] > 0)


TEST_SAMPLES = TrendFigure(CLAIMS, "figJ12", VGG, [CENTRAL])


@TEST_SAMPLES.each(
    "trend(sharpness on test samples) > 0",
    "App. J",
    "this sharpness increased rather than diminished as a result of training",
    under=DURING,
)
def _(line: Curves, window: Window, by: Weight) -> Verdict:
    # on training samples, which are not judged, it rises before interpolation too
    train = line.trend(S, window, "train", by)
    return (line.trend(S, window, "test", by) > 0).reporting(train.report())


TEST_SAMPLES.each(
    "sharpness on misclassified samples > on test samples, mean over I",
    "App. J",
    "the sharpness of misclassified test data was even greater than that of all test data",
)(lambda line: curves.excess(line, S, "misclassified", over="test") > 0)
follows_on_test_samples(TEST_SAMPLES, "MLS", "App. J")
TEST_SAMPLES.each(
    "trend(log volume on test samples) < 0 in I",
    "App. J",
    "Despite this increase in sharpness, the volume followed the same pattern as the training set",
    under=("weight",),
)(lambda line, by: line.trend(VOLUME, "I", "test", by) < 0)
TEST_SAMPLES.each(
    "log volume on misclassified samples > on test samples, mean over I",
    "App. J",
    "the compression still is weaker for misclassified test samples",
)(lambda line: curves.excess(line, VOLUME, "misclassified", over="test") > 0)
