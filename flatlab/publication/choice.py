"""Which experiments and figures are published: what the names of a command mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatlab import plan, store
from flatlab.publication.files import content, correlations_of, files_of, table_of


@dataclass(frozen=True)
class Choice:
    """What is to be published at a scale: keys of experiments, and figures."""

    scale: str
    experiments: list[str]
    figures: list[plan.Figure]

    @property
    def built(self) -> Path:
        """Where results lie, and the names of files begin."""
        return Path("results", self.scale)

    @property
    def published(self) -> Path:
        """Where they go."""
        return plan.PUBLISHED / self.scale

    @property
    def files(self) -> list[str]:
        """The files that are copied."""
        tables = [name(key) for key in self.experiments for name in (table_of, correlations_of)]
        there = [name for name in tables if (self.built / name).is_file()]
        return there + [name for figure in self.figures for name in files_of(figure)]

    @property
    def left_behind(self) -> list[str]:
        """Published correlations of tables that are replaced by tables without correlations."""
        return [
            correlations_of(key)
            for key in self.experiments
            if not (self.built / correlations_of(key)).is_file()
            and (self.published / correlations_of(key)).is_file()
            and content(self.built / table_of(key)) != content(self.published / table_of(key))
        ]

    def after(self, name: str) -> bytes | None:
        """What a published file will hold; None where there will be none."""
        if name in self.left_behind:
            return None
        return content((self.built if name in self.files else self.published) / name)


def choose(chosen: plan.Plan, names: Sequence[str]) -> Choice:
    """What some names mean: experiments, figures or papers; all that is built if none is given.

    Of a paper it is those figures that are built. Raises `PlanError` for unknown names and
    `StoreError` where something is not built.
    """
    everything = Choice(
        chosen.config.scale, [key for key in chosen.experiments if _has_table(chosen, key)], []
    )
    everything.figures.extend(f for f in plan.figures() if _is_drawn(everything, f))
    if not names:
        if not everything.files:
            raise store.StoreError(
                f"nothing is built at scale {everything.scale}; run snakemake first"
            )
        return everything
    keys: list[str] = []
    figures: dict[str, plan.Figure] = {}
    for name in dict.fromkeys(names):
        if name in chosen.experiments:
            if name not in everything.experiments:
                table = everything.built / table_of(name)
                raise store.StoreError(f"{table} does not exist; build it with: snakemake {table}")
            keys.append(name)
        else:
            figures |= {f.target: f for f in _meant(name, chosen, everything)}
    return Choice(everything.scale, keys, list(figures.values()))


def _has_table(chosen: plan.Plan, key: str) -> bool:
    return chosen.experiment(key).table.is_file()


def _is_drawn(choice: Choice, figure: plan.Figure) -> bool:
    return all((choice.built / name).is_file() for name in files_of(figure))


def _meant(name: str, chosen: plan.Plan, everything: Choice) -> list[plan.Figure]:
    """The figures that are built of a paper, or one by its target."""
    known = {figure.target: figure for figure in plan.figures()}
    papers = {figure.paper for figure in known.values()}
    if name not in papers | known.keys():
        if name in plan.targets():
            raise plan.PlanError(plan.why_not(name))
        hint = plan.closest(name, {*chosen.experiments, *papers, *known}).partition("Known: ")[0]
        raise plan.PlanError(
            f"{name!r} is no experiment, figure or paper; {hint}`flatlab experiments` and "
            "`flatlab figures` list them"
        )
    found = [figure for figure in everything.figures if name in (figure.paper, figure.target)]
    if not found:
        raise store.StoreError(
            f"{name} is not built at scale {everything.scale}; build it with: snakemake {name}"
        )
    return found
