"""Networks trained by twelve recipes, of which claims are about those that fit."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.tables.eligibility import FEWEST_FOR_RANKS
from flatlab.lab.tables.networks import Networks
from flatlab.papers.andriushchenko2023._sharpness import in_words, sharpness
from flatlab.stats.estimate import Estimate, undefined
from flatlab.stats.verdict import Verdict

RESNETS, VITS = "recipes-grid", "recipes-vit-grid"
GROUPS = ("augmentation", "mixup_alpha")
LARGEST_ERROR = 1.0
"""The training error, in %, of a network that fits."""

NORMALIZED, PLAIN = SHOWN = (
    sharpness("worst-normalized-linf", 0),
    sharpness("worst-adaptive-linf", 0),
)
"""The sharpness that the figures show."""


class Kind(NamedTuple):
    """The networks that a claim is about.

    name: what claims call them.
    key: their experiment.
    augmentation: their only one, if not any.
    within: whether the claim is about the networks of each group.
    """

    name: str
    key: str
    augmentation: str = ""
    within: bool = False

    def networks(self, e: ResultTables) -> Networks:
        """All of them, those that do not fit included."""
        networks = e[self.key].called(self.key)
        if self.augmentation:
            networks = networks.where(augmentation=self.augmentation)
        return in_words(networks)


def that_fit(networks: Networks) -> Networks:
    """Those with a small training error."""
    return networks.at_most(train_error=LARGEST_ERROR)


def groups(networks: Networks) -> list[Networks]:
    """Those of each augmentation and mixup."""

    def called(group: Networks) -> Networks:
        levels = ", ".join(f"{name} {group.selection[name]}" for name in GROUPS)
        return group.called(f"{networks.name}, {levels}")

    return [called(group) for group in networks.by(*GROUPS).values()]


def tau(networks: Networks, x: str, y: str) -> Estimate:
    """Kendall's tau over the networks that fit."""
    return that_fit(networks).tau(x, y, among="pool")


def taus_within(networks: Networks, x: str, y: str) -> list[Estimate]:
    """The same within each group; one with too few networks says what it takes."""
    taus = []
    for group in groups(networks):
        inside = tau(group, x, y)
        if inside.reason:
            inside = undefined(inside.name, f"{inside.reason}; {_shortage(group)}")
        taus.append(inside)
    return taus


def excess_within(networks: Networks, x: str, y: str) -> list[Estimate]:
    """How much tau within each group exceeds that over all: z less z, stratified by group."""
    chosen, whole = that_fit(networks), tau(networks, x, y)
    finite = np.isfinite(chosen.column(x)) & np.isfinite(chosen.column(y))
    names = np.empty(len(chosen.chosen), dtype=object)
    for group in groups(networks):
        names[group.rows] = group.name
    names = names[chosen.rows][finite]
    strata = np.unique(names.astype(str), return_inverse=True)[1]
    excess = []
    for group, inside in zip(groups(networks), taus_within(networks, x, y), strict=True):
        if inside.reason or whole.reason:
            excess.append(inside - whole)
            continue
        left_out = np.full(len(names), inside.point)
        left_out[names == group.name] = inside.left_out
        excess.append(
            replace(inside, left_out=left_out, strata=strata) - replace(whole, strata=strata)
        )
    return excess


def counts(networks: Networks) -> list[dict[str, Any]]:
    """How many networks fit, of all and of each group, as entries of the evidence."""
    label = f"networks with train_error <= {LARGEST_ERROR:g}"
    return [
        {"quantity": f"{label}; {at.name}", "value": that_fit(at).count, "n": at.count}
        for at in (networks, *groups(networks))
    ]


def fact(networks: Networks, quantity: str, value: float, true: bool) -> Verdict:
    """A verdict on the networks that fit as they are: none is drawn, nothing is estimated."""
    entry = {"quantity": f"{quantity}; {networks.name}", "value": value}
    entry |= {"claim": "of these networks", "n": that_fit(networks).count}
    return Verdict("holds" if true else "fails", (), [entry])


def _shortage(group: Networks) -> str:
    """How many networks of a group fit, and what it would take."""
    fit, median = that_fit(group).count, np.nanmedian(group.column("train_error"))
    takes = ["more of them"] if group.count < FEWEST_FOR_RANKS else []
    takes += ["longer training or wider networks"] if fit < group.count else []
    limit = f"a train error of at most {LARGEST_ERROR:g} (median {median:.3g})"
    return (
        f"{fit} of its {group.count} networks have {limit}: it takes {' and '.join(takes)}, for at "
        f"least {FEWEST_FOR_RANKS}"
    )
