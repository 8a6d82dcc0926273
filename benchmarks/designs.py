"""The designs that `benchmarks/coverage.py` simulates: fixed settings, random seeds.

Noise is normal ("normal") or Student's t with 4 degrees of freedom ("t4"), of variance 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy.stats

from flatlab.lab.tables.eligibility import instability
from flatlab.stats import Correlations, Estimate, over_seeds
from flatlab.stats.correlation import Kind
from flatlab.stats.estimate import Array, fisher
from flatlab.stats.ranks import Ranks
from flatlab.stats.trends import contrast, difference, mean, pearson, rise, tau_in_order

Generator = np.random.Generator
TAILS = ("normal", "t4")
SIZES = ((3, 5), (5, 5), (5, 10), (5, 20))
RHOS = (0.0, 0.5, 0.9)
CHECKPOINTS = 20
REPLICATES, CHEAP, RARE = 2_000, 6_000, 12_000
"""How many are drawn: of correlations, of means and trends, and where most are in doubt."""
MANY = 200_000
"""Draws from which a truth without a closed form is computed."""


@dataclass(frozen=True)
class Design:
    """A distribution of data and an estimate from it.

    truth: what is estimated, on the scale on which its interval is computed.  draw: the estimate
    from fresh data.  of_five: whether it is a mean of five, whose interval is Student's with four
    degrees of freedom.  replicates: how many are drawn.
    """

    group: str
    case: str
    truth: Callable[[], float]
    draw: Callable[[Generator], Estimate]
    of_five: bool = False
    replicates: int = REPLICATES

    def __str__(self) -> str:
        return f"{self.group}: {self.case}"


def designs() -> Iterator[Design]:
    """All of them."""
    for (settings, seeds), tails in product(SIZES, TAILS):
        size = f"{settings} x {seeds}"
        for rho, spread in product(RHOS, (0, 1, 3)):
            yield correlation("pooled", settings, seeds, rho, spread, tails, size)
        for kind, rho in product(("within", "adjusted"), RHOS):
            yield correlation(kind, settings, seeds, rho, 1, tails, size)
        rhos = ((0, 0, 0), (0.5, 0.5, 0.5), (0.9, 0.5, 0.4), (0.9, 0.9, 0.9), (0.9, 0, 0))
        for kind, three in product(("pooled", "within"), rhos):
            yield difference_of_correlations(kind, settings, seeds, three, tails, size)
    for tails in TAILS:
        yield from means(tails)
        yield from trends(tails)
        for networks, rho in product((25, 50, 200), RHOS):
            yield tau_of_networks(networks, rho, tails)
        for (families, size), icc, rho in product(((16, 4), (13, 2)), (0.0, 0.5, 0.9), RHOS):
            yield zoo(families, size, icc, rho, tails)
        for varying, rho in product((2 / 30, 4 / 30, 8 / 30), (0.0, 0.5)):
            yield nearly_constant(varying, rho, tails)
    yield two_that_vary()


def noise(rng: Generator, tails: str, *shape: int) -> Array:
    """Independent noise of variance 1."""
    if tails == "normal":
        return rng.standard_normal(shape)
    return rng.standard_t(4, size=shape) / np.sqrt(2)


def correlation(
    kind: Kind, settings: int, seeds: int, rho: float, spread: float, tails: str, size: str
) -> Design:
    """Two quantities of correlation rho, also of the settings' means, whose spread is in units of
    the deviation within settings; given a third, if adjusted."""
    root = np.sqrt(1 - rho**2)
    mix = np.array([[1, 0], [rho, root]])
    if kind == "adjusted":
        half, rest = 0.5, np.sqrt(0.75)
        mix = np.array([[rest, 0, half], [rest * rho, rest * root, half], [0, 0, 1]])
    means = spread * mix @ _contrasts(len(mix), settings)
    labels = np.repeat(np.arange(settings), seeds).astype(str)

    def draw(rng: Generator) -> Estimate:
        x, y, *given = _columns(rng, mix, means, seeds, tails)
        adjusting = given[0] if given else None
        return Correlations({"x": x, "y": y}, labels, adjusting).rho("x", "y", kind)

    truth = _correlations(mix, means, kind)[0, 1]
    case = f"rho {rho}, spread {spread}, {tails}"
    return Design(f"{kind}, {size}", case, lambda: float(fisher(truth)), draw)


def difference_of_correlations(
    kind: Kind, settings: int, seeds: int, rhos: tuple[float, ...], tails: str, size: str
) -> Design:
    """rho(x, y) - rho(x, z) on Fisher's z.  rhos: of (x, y), (x, z) and (y, z)."""
    xy, xz, yz = rhos
    matrix = np.array([[1, xy, xz], [xy, 1, yz], [xz, yz, 1]])
    mix = np.linalg.cholesky(matrix)
    means = mix @ _contrasts(3, settings)
    labels = np.repeat(np.arange(settings), seeds).astype(str)

    def draw(rng: Generator) -> Estimate:
        columns = dict(zip("xyz", _columns(rng, mix, means, seeds, tails), strict=True))
        a, b = Correlations(columns, labels).rhos(("x", "y"), ("x", "z"), kind=kind)
        return a - b

    z = fisher(np.tril(_correlations(mix, means, kind), -1))
    case = f"rho {xy} - {xz}, {tails}"
    return Design(f"difference, {kind}, {size}", case, lambda: float(z[1, 0] - z[2, 0]), draw)


def _contrasts(quantities: int, settings: int) -> Array:
    """Orthogonal means of settings, of mean 0 and variance 1; 0 where settings are too few."""
    basis = np.linalg.qr(np.vander(np.arange(settings), increasing=True).astype(float))[0]
    found = np.zeros((quantities, settings))
    found[: settings - 1] = np.sqrt(settings) * basis[:, 1 : quantities + 1].T[: settings - 1]
    return found


def _columns(rng: Generator, mix: Array, means: Array, seeds: int, tails: str) -> Array:
    """Quantities of runs, setting after setting: (quantities, settings * seeds)."""
    own = np.tensordot(mix, noise(rng, tails, len(mix), means.shape[1], seeds), 1)
    return (own + means[:, :, None]).reshape(len(mix), -1)


def _correlations(mix: Array, means: Array, kind: Kind) -> Array:
    """The correlations that are estimated, from the covariances of the design."""
    covariance = mix @ mix.T
    if kind != "within":
        covariance = covariance + means @ means.T / means.shape[1]
    if kind == "adjusted":
        covariance = -np.linalg.inv(covariance)  # partial correlations but for the diagonal's sign
    deviation = np.sqrt(np.abs(covariance.diagonal()))
    return covariance / np.outer(deviation, deviation)


def means(tails: str) -> Iterator[Design]:
    """Means of seeds, differences of two, and the rise over several settings."""
    for seeds in (5, 10, 20):

        def one(rng: Generator, seeds: int = seeds) -> Estimate:
            return over_seeds("mean", mean, noise(rng, tails, seeds))

        yield Design(f"mean of {seeds}", tails, lambda: 0.0, one, seeds == 5, CHEAP)
    for ratio in (1, 2, 5):

        def two(rng: Generator, ratio: float = ratio) -> Estimate:
            return difference("difference", noise(rng, tails, 5), ratio * noise(rng, tails, 5))

        case = f"deviations 1 and {ratio}, {tails}"
        yield Design("difference of means of 5 and 5", case, lambda: 0.0, two, replicates=CHEAP)
    for settings, unequal in product((3, 5), (False, True)):
        deviations = np.linspace(1, 3 if unequal else 1, settings)[:, None]
        height = np.arange(settings)[:, None]

        def up(rng: Generator, height: Array = height, by: Array = deviations) -> Estimate:
            return rise("rise", list(height + by * noise(rng, tails, len(height), 5)))

        truth = contrast("", *_rising(settings)).point
        case = f"{'unequal' if unequal else 'equal'} deviations, {tails}"
        yield Design(
            f"rise over {settings} settings of 5", case, lambda t=truth: t, up, replicates=CHEAP
        )


def _rising(settings: int) -> tuple[list[Array], list[float]]:
    pairs = [(i, j) for j in range(settings) for i in range(j)]
    return [np.array([float(j - i)]) for i, j in pairs], [1 / len(pairs)] * len(pairs)


def trends(tails: str) -> Iterator[Design]:
    """Means over five runs, on Fisher's z, of trends and correlations of curves."""
    pairs = CHECKPOINTS * (CHECKPOINTS - 1) / 2
    statistics: dict[str, list[Callable[[Array], Array]]] = {
        "tau of 20 checkpoints": [lambda c: fisher(tau_in_order(c[0]), pairs)],
        "correlation of curves": [lambda c: fisher(pearson(c[0], c[1]))],
    }
    statistics["difference of taus"] = [
        *statistics["tau of 20 checkpoints"],
        lambda c: fisher(tau_in_order(c[2]), pairs),
    ]
    statistics["difference of correlations of curves"] = [
        *statistics["correlation of curves"],
        lambda c: fisher(pearson(c[0], c[2])),
    ]
    for (name, parts), slope, memory in product(statistics.items(), (0, 1, 4), (0, 0.5, 0.9)):

        def draw(rng: Generator, parts=parts, slope=slope, memory=memory) -> Estimate:
            curves = _curves(rng, 5, slope, memory, tails)
            estimates = [over_seeds("trend", mean, part(curves), on_z=True) for part in parts]
            return estimates[0] if len(estimates) == 1 else estimates[0] - estimates[1]

        def truth(parts=parts, slope=slope, memory=memory) -> float:
            curves = _curves(np.random.default_rng(1), MANY // 2, slope, memory, tails)
            first, *second = (float(part(curves).mean()) for part in parts)
            return first - sum(second)

        case = f"slope {slope}, memory {memory}, {tails}"
        yield Design(f"{name}, mean of 5 runs", case, truth, draw, True, CHEAP)


def _curves(rng: Generator, runs: int, slope: float, memory: float, tails: str) -> Array:
    """Three quantities that rise with AR(1) noise, of correlation 0.5: (3, runs, checkpoints)."""
    mix = np.linalg.cholesky(np.full((3, 3), 0.5) + 0.5 * np.eye(3))
    curves = np.tensordot(mix, noise(rng, tails, 3, runs, CHECKPOINTS), 1)
    for t in range(1, CHECKPOINTS):
        curves[:, :, t] *= np.sqrt(1 - memory**2)
        curves[:, :, t] += memory * curves[:, :, t - 1]
    slopes = slope * np.array([1, 1, 0.5])[:, None, None]
    return curves + slopes * np.linspace(-1, 1, CHECKPOINTS)


def tau_of_networks(networks: int, rho: float, tails: str) -> Design:
    """Kendall's tau-a of two quantities of correlation rho."""

    def pair(rng: Generator, count: int) -> tuple[Array, Array]:
        x, own = noise(rng, tails, 2, count)
        return x, rho * x + np.sqrt(1 - rho**2) * own

    def truth() -> float:
        many = scipy.stats.kendalltau(*pair(np.random.default_rng(1), MANY)).statistic
        return float(fisher(many)) if rho else 0.0

    def draw(rng: Generator) -> Estimate:
        x, y = pair(rng, networks)
        return Ranks({"x": x, "y": y}, settings=None).tau("x", "y")

    return Design(f"tau of {networks} networks", f"rho {rho}, {tails}", truth, draw, False, CHEAP)


def zoo(families: int, size: int, icc: float, rho: float, tails: str) -> Design:
    """Networks that share noise with their family.  icc: its part of the variance."""
    labels = np.repeat(np.arange(families), size).astype(str)

    def draw(rng: Generator) -> Estimate:
        shared, own = noise(rng, tails, 2, families, 1), noise(rng, tails, 2, families, size)
        u, v = (np.sqrt(icc) * shared + np.sqrt(1 - icc) * own).reshape(2, -1)
        columns = {"x": u, "y": rho * u + np.sqrt(1 - rho**2) * v}
        return Correlations(columns, labels, clusters=labels).rho("x", "y")

    case = f"intraclass {icc}, rho {rho}, {tails}"
    return Design(f"zoo of {families} x {size}", case, lambda: float(fisher(rho)), draw)


def nearly_constant(varying: float, rho: float, tails: str) -> Design:
    """6 settings of 5: x, and y, which is 1 with a small probability and else 0.

    y is 1 where a latent normal quantity of correlation rho with x exceeds a quantile.
    """
    labels = np.repeat(np.arange(6), 5).astype(str)
    limit = float(scipy.stats.norm.ppf(1 - varying))

    def draw(rng: Generator) -> Estimate:
        latent = rng.standard_normal(30)
        x = rho * latent + np.sqrt(1 - rho**2) * noise(rng, tails, 30)
        return _doubted(Correlations({"x": x, "y": latent > limit}, labels))

    found = rho * scipy.stats.norm.pdf(limit) / np.sqrt(varying * (1 - varying))
    case = f"{30 * varying:.0f} of 30 on average, latent rho {rho}, {tails}"
    count = RARE if varying < 0.1 else REPLICATES
    return Design("nearly constant", case, lambda: float(fisher(found)), draw, replicates=count)


def two_that_vary() -> Design:
    """6 settings of 5: y is not zero in exactly two of 30 runs."""
    labels = np.repeat(np.arange(6), 5).astype(str)

    def draw(rng: Generator) -> Estimate:
        y = np.zeros(30)
        y[rng.choice(30, 2, replace=False)] = rng.uniform(size=2)
        return _doubted(Correlations({"x": rng.standard_normal(30), "y": y}, labels))

    return Design("nearly constant", "exactly 2 of 30", lambda: 0.0, draw)


def _doubted(correlations: Correlations) -> Estimate:
    """The correlation as `claims` reports it."""
    rho = correlations.rho("x", "y")
    return replace(rho, instability=instability(correlations.constant_share("x", "y")))
