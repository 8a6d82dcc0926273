"""The tables that the claims of a figure are judged by."""

from collections.abc import Mapping

import xarray as xr

from flatlab.core.schema import EVIDENCE
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import Networks


class ResultTables:
    """Tables by the keys of their experiments; `NotEligible` for whatever they do not have.

    tables: the tables.
    used: the experiments whose tables were asked for.
    """

    def __init__(self, tables: Mapping[str, xr.Dataset]) -> None:
        self.tables = tables
        self.used: set[str] = set()
        self._networks: dict[str, Networks] = {}

    def table(self, key: str) -> xr.Dataset:
        """The table of an experiment."""
        if key not in self.tables:
            raise NotEligible(f"{key} is not among the tables")
        self.used.add(key)
        return self.tables[key]

    def __getitem__(self, key: str) -> Networks:
        """The networks of an experiment, at the end of training."""
        table = self.table(key)
        if key not in self._networks:
            self._networks[key] = Networks.of(key, table)
        return self._networks[key]

    @property
    def fidelity(self) -> str:
        """The worst among the tables that were used: own, reduced, stand-in; "" if none was."""
        levels = [self.tables[key].attrs["evidence"] for key in self.used]
        return max(levels, key=EVIDENCE.index, default="")

    @property
    def differs(self) -> list[str]:
        """What differs from the paper's experiments in the tables that were used."""
        by_key = {key: self.tables[key].attrs["differs"] for key in sorted(self.used)}
        return [f"{key}: {what}" for key, differs in by_key.items() for what in differs]
