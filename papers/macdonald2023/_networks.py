"""The networks of macdonald2023, by the paper's words for their quantities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flatlab.core.schema import EVIDENCE, OWN, REDUCED
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import estimates, require
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.times import Time
from flatlab.stats.estimate import Estimate
from flatlab.stats.trends import difference

LOGIT_JACOBIAN, SOFTMAX_JACOBIAN = "jacobian_norm", "softmax_jacobian_norm"
"""At the end of training the paper's Jacobian is taken to be that of the logits."""

SHARPNESS, GAP = "hessian_lambda_max", "absolute_loss_gap"
STRATEGIES = ("label_smoothing", "mixup_alpha", "augmentation_probability", "sam_radius")
"""The strengths of the regularizers; without one it is zero."""

WORDS = {
    **{LOGIT_JACOBIAN: "J", SHARPNESS: "lambda_max", GAP: "gap"},
    **{name: name.replace("_", " ") for name in ("batch_size", *STRATEGIES)},
}

WEAK = 0.3
"""tau > -WEAK counts as not negative: without a margin, absence of correlation could never be
established, as for forty networks an interval reaches 0.2 to either side."""


def networks(e: ResultTables, grid: str, **where: Any) -> Networks:
    """The networks of a grid with these hyper-parameters, at the end of training."""
    return e[grid].where(**where).called(**WORDS)


def admitted(grid: str) -> Sequence[str]:
    """The fidelities that can decide a claim: of CIFAR-100, which repeat others, not stand-ins."""
    return (OWN, REDUCED) if "many-classes" in grid else EVIDENCE


AT: dict[Time, str] = {"most": "max", "growth": "growth of", "increase": "increase of"}


@dataclass(frozen=True)
class Sweep:
    """Networks along the values of a hyper-parameter.

    networks: all of them.
    key, word: the hyper-parameter, and what it is called.
    values: its values in order.
    context: what the networks are called.
    words: what quantities are called.
    """

    networks: Networks
    key: str
    word: str
    values: tuple[float, ...]
    context: str
    words: Mapping[str, str]

    def at(self, value: float) -> Networks:
        """Those at one value, as many as a mean needs."""
        networks = self.networks.where(**{self.key: value})
        what = f"networks of {self.context} at {self.word} {value:g}"
        require(networks.count, networks.key, what)
        return networks

    def steps(self, name: str, time: Time = "most") -> list[Estimate]:
        """From each value to the next: how much larger a quantity is at some time."""
        at = [f"{AT[time]} {self.words[name]}({self.word} {value:g})" for value in self.values]
        labels = [f"{larger} - {smaller}; {self.context}" for smaller, larger in pairwise(at)]

        def differences() -> list[Estimate]:
            columns = [self.at(value).at(time).column(name) for value in self.values]
            pairs = zip(labels, pairwise(columns), strict=True)
            return [difference(label, larger, smaller) for label, (smaller, larger) in pairs]

        return estimates(labels, differences)
