"""Every measure of a table against an outcome: which correlation it has with what varies.

Kendall's tau-a over all pairs of networks, over those of one setting (what seeds alone do), and
over those that differ in one factor, as in Jiang et al. (2020), Eq. 7. Intervals of all
measures hold together with 95 % in each of these: they are Sidak's, of as many as there are.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from flatlab.core.run_records import setting_of
from flatlab.core.schema import PlanError, closest
from flatlab.lab.tables.columns import Column
from flatlab.lab.tables.eligibility import FEWEST_FOR_CORRELATION, FEWEST_RANKED, NotEligible
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.selection import one_per_run
from flatlab.stats.estimate import limits
from flatlab.stats.ranks import Pairs, Ranks, pairs_of, simultaneous

ALL, WITHIN = "all networks", "within settings"
COLUMNS = ["measure", "outcome", "varies", "tau", "low", "high", "networks", "left_out"]


def against(table: xr.Dataset, outcome: str, within: Sequence[str] | None) -> pd.DataFrame:
    """A row per measure and what varies: tau, the ends of its interval, and numbers of networks.

    Measures are all quantities that a paper defines and that vary.

    table: of a grid, of a zoo or of networks from elsewhere, at the end of training.
    outcome: a column, see `flatlab.lab.tables.columns`.
    within: the hyper-parameters whose combinations are the settings; None: all of the table.

    networks: those that have both, and a partner among the pairs. left_out: those that have both
    but no partner, such as the only network of its setting. Fewer than ten networks have no
    interval. Raises `PlanError` for what the table does not have.
    """
    networks = Networks.of(str(table.attrs.get("experiment", "the table")), table)
    data = networks.data
    factors = _factors(table, within)
    if Column.of(outcome).quantity not in data.variables:
        known = [*one_per_run(data), *table.attrs.get("hyperparameters", [])]
        raise PlanError(f"the table has no {outcome!r}; {closest(outcome, known)}")
    # Standard errors, residuals and the like, which no paper defines, are no measures.
    defined = (name for name in one_per_run(data) if data[name].attrs.get("source"))
    names = [name for name in defined if name != outcome]
    values = {outcome: networks.values(outcome)}
    reasons: list[str] = []
    for name in names:
        try:
            values[name] = networks.column(name)
        except NotEligible as why:  # an eigenvalue that has not converged
            reasons.append(str(why))
            values[name] = np.full(len(values[outcome]), np.nan)
    names = [name for name in names if _varies(values[name], values[outcome])]
    if not names:
        raise PlanError(f"no measure varies among networks that have {outcome}")
    levels = pd.DataFrame({name: data[name].values for name in factors})
    settings = [
        setting_of(dict(zip(factors, row, strict=True))) for row in levels.to_numpy().tolist()
    ] or ["all"] * len(data["run"])
    rows = []
    tail = simultaneous(len(names))
    for varies, pairs in _estimands(levels, settings).items():
        for name in names:
            numbers = _row(values[name], values[outcome], settings, pairs, tail)
            rows.append({"measure": name, "outcome": outcome, "varies": varies, **numbers})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame.attrs["not_eligible"] = reasons
    return frame


def _row(
    x: np.ndarray, y: np.ndarray, settings: list[str], pairs: Pairs, tail: float
) -> dict[str, object]:
    """Tau of a measure and an outcome, the ends of its interval, and numbers of networks."""
    both = np.isfinite(x) & np.isfinite(y)
    inside = pairs[np.ix_(both, both)]
    partners = inside.any(axis=1)
    there = np.flatnonzero(both)[partners]
    row: dict[str, object] = {"networks": len(there), "left_out": int((~partners).sum())}
    if len(there) < FEWEST_RANKED:
        return row
    of_these = [settings[place] for place in there]
    alone = len({*of_these}) == len(of_these)
    columns = {"x": x[there], "y": y[there]}
    ranks = Ranks(columns, None if alone else of_these, pairs[np.ix_(there, there)])
    tau = ranks.tau("x", "y")
    row["tau"] = tau.value
    if len(there) >= FEWEST_FOR_CORRELATION:
        ends = limits(
            np.array(tau.point), tau.jackknife_values, tau.strata, tau.unit_variance_factor, tail
        )
        low, high = map(float, np.tanh(ends))
        if high > low:  # perfect order, in which leaving one out changes nothing, has no interval
            row |= {"low": low, "high": high}
    return row


def _factors(table: xr.Dataset, within: Sequence[str] | None) -> list[str]:
    known = table.attrs.get("hyperparameters", [])
    for name in within or ():
        if name not in known:
            raise PlanError(f"the table has no hyper-parameter {name!r}; {closest(name, known)}")
    return [*known] if within is None else [*within]


def _estimands(levels: pd.DataFrame, settings: list[str]) -> dict[str, Pairs]:
    """The pairs that are compared, by what varies between the two."""
    found = {ALL: pairs_of(np.zeros(len(settings))), WITHIN: pairs_of(settings)}
    for factor in (name for name in levels.columns if len({*levels[name]}) > 1):
        others = levels.drop(columns=factor).astype(str)
        labels = [" ".join(row) for row in others.to_numpy()]
        found[f"{factor} alone"] = pairs_of(labels, levels[factor].to_numpy())
    return found


def _varies(x: np.ndarray, y: np.ndarray) -> bool:
    values = x[np.isfinite(x) & np.isfinite(y)]
    return len(values) > 1 and bool(np.ptp(values) > 0)
