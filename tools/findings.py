"""FINDINGS.md, its pages by question, and what README.md says of it: `python -m tools.findings`.

Look-ups read published tables, verdicts and the CSV files of published figures. They return
numbers, so that the text can divide and subtract. One that finds nothing says what there is. A
sentence that rests on a number or a verdict names its sign or outcome: `said` marks it if that is
no longer so.
"""

import functools
import math
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jinja2
import numpy as np
import pandas as pd

from flatlab.core import store
from flatlab.core.schema import EVIDENCE
from flatlab.lab import plan
from flatlab.lab.publish.scoreboard import OUTCOMES, Board, group_of
from flatlab.lab.tables import selection
from flatlab.lab.tables.columns import Time
from flatlab.lab.tables.eligibility import NotEligible
from flatlab.lab.tables.networks import Networks
from flatlab.lab.verdict_files import ClaimRecord, EvidenceEntry, decided_by, read_verdicts
from flatlab.stats.correlation import KINDS
from flatlab.stats.estimate import Array, Estimate
from flatlab.stats.ranks import pairs_of
from flatlab.stats.trends import difference
from flatlab.stats.verdict import LEVEL

TEMPLATE = Path("report/findings.md")
PAGE = Path("FINDINGS.md")
BY_QUESTION = Path("report/results"), Path("docs/results")
"""The folders of the templates of the pages by question, and of the pages."""
CHANGED = " **(no longer so)**"
MINUS = "\N{MINUS SIGN}"
LOOK_UPS = (
    *("table", "verdict", "claims", "said", "evidence", "cell", "cells", "estimate", "sides"),
    *("over", "median", "published", "judged", "board", "experiments", "picture"),
)
README = Path("README.md")
README_TEMPLATE = Path("report/readme.md")
MARKS = "<!-- rendered from report/readme.md -->\n", "<!-- end -->\n"


def pages() -> dict[Path, Path]:
    """The pages and their templates; of README.md only a part is rendered."""
    templates, folder = BY_QUESTION
    by_question = {folder / path.name: path for path in sorted(templates.glob("*.md"))}
    return {PAGE: TEMPLATE, README: README_TEMPLATE, **by_question}


def page(path: Path) -> str:
    """The text of a page."""
    text = render(pages()[path])
    if path != README:
        return text
    before, _, rest = path.read_text().partition(MARKS[0])
    return f"{before}{MARKS[0]}{text}{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def render(template: Path) -> str:
    """What a template says. Raises `StoreError` with the line where a look-up finds nothing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader("."),
        undefined=jinja2.StrictUndefined,
        finalize=as_text,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["decimals"] = as_text
    environment.globals.update({name: globals()[name] for name in LOOK_UPS})
    environment.globals["level"] = LEVEL
    try:
        return environment.get_template(template.as_posix()).render()
    except jinja2.TemplateNotFound:
        remedy = "run flatlab in the project's folder"
        raise store.StoreError(f"{template} does not exist; {remedy}") from None
    except jinja2.TemplateSyntaxError as error:
        raise store.StoreError(f"{template}:{error.lineno}: {error.message}") from None
    except (store.StoreError, NotEligible, jinja2.UndefinedError) as error:
        said = "; ".join(filter(None, [str(error), getattr(error, "hint", "")]))
        raise store.StoreError(f"{template}:{_line(error, template)}: {said}") from None


def as_text(value: Any, decimals: int = 2) -> Any:
    """A number as it is printed: 0.89, −0.43 [−0.72, −0.04], 60,000; text is left as it is.

    An end of an interval that rounds to zero is printed with its first digit, and thus its sign; so
    is a number that the interval tells from zero.
    """
    if isinstance(value, Interval):
        places = [next((n for n in range(decimals, 6) if round(x, n)), decimals) for x in value]
        if not value.low * value.high > 0:
            places[0] = decimals
        number, low, high = (as_text(x, n) for x, n in zip(value, places, strict=True))
        ends = f"[{low}, {high}]" if math.isfinite(value.low + value.high) else "(no interval)"
        return f"{number} {ends}" if math.isfinite(value.value) else number
    if isinstance(value, int | np.integer):
        text = f"{value:,}"
    elif not isinstance(value, float):
        return value
    elif not math.isfinite(value):
        return "undefined"
    else:
        text = f"{value:,.{decimals}f}"
        text = text if text.strip("-0.,") else text.lstrip("-")
    return text.replace("-", MINUS)


def _line(error: Exception, template: Path) -> int:
    """The line of the template that asked for what raised an error."""
    frames = traceback.walk_tb(error.__traceback__)
    return next(line for frame, line in frames if frame.f_code.co_filename.endswith(template.name))


class Interval(NamedTuple):
    """A number with its 95 % interval; NaN where one is not defined."""

    value: float
    low: float
    high: float


class PublishedNetworks:
    """The networks of a published table: numbers as they are, whether a verdict may rest on them.

    Columns and times are those of `flatlab.lab.tables`: "log mls", "weight_norm[fc1]"; at="growth".
    What the table does not have is `NotEligible`.
    """

    def __init__(self, networks: Networks) -> None:
        self.networks = networks

    def where(self, **values: Any) -> "PublishedNetworks":
        """Those with these hyper-parameters, or of this family."""
        chosen = self.networks.where(**values)
        if not chosen.chosen.any():
            raise NotEligible(f"{self.networks.key}: no network has {values}")
        return PublishedNetworks(chosen)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.networks.count

    @property
    def left_out(self) -> int:
        """How many more have diverged, or could not be measured."""
        return int(self.networks.chosen.sum()) - self.count

    @property
    def interpolates(self) -> int:
        """The first checkpoint at which the mean training loss is below 1e-2."""
        step = selection.interpolation_begins(self.networks.curves.runs["train_loss"])
        if math.isnan(step):
            raise NotEligible(f"{self.networks.key}: these networks do not interpolate")
        return int(step)

    @property
    def layers(self) -> list[str]:
        """The layers, from the first to the last."""
        return [str(layer) for layer in self.networks.table["layer"].values]

    def about(self, name: str) -> Any:
        """An attribute of the table: data, length, ..."""
        if name not in (known := self.networks.table.attrs):
            raise NotEligible(f"{self.networks.key} has no {name}", plan.closest(name, known))
        return known[name]

    def different(self, name: str) -> list[Any]:
        """The different values of a coordinate, sorted."""
        return sorted(self.networks.levels(name))

    def mean(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The mean of a quantity over the networks."""
        return float(np.nanmean(self.values(name, at, samples)))

    def least(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The least value of a quantity."""
        return float(np.nanmin(self.values(name, at, samples)))

    def most(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The largest value of a quantity."""
        return float(np.nanmax(self.values(name, at, samples)))

    def spread(self, name: str, at: Time = "end", samples: str = "train") -> float:
        """The standard deviation of a quantity between the seeds of a setting."""
        groups = pd.Series(self.values(name, at, samples)).groupby(self.networks.labels("setting"))
        seeds = groups.count()
        return float(np.sqrt((groups.var() * (seeds - 1)).sum() / (seeds[seeds > 0] - 1).sum()))

    def rho(
        self, x: str, y: str, kind: Any = "pooled", at: Time = "end", minus: str = ""
    ) -> Interval:
        """Pearson's correlation; `kind` is one of `flatlab.stats.KINDS`, or "families".

        With "families", each family of a zoo counts as one network, with the mean of its networks.
        minus: another quantity, whose correlation with x is subtracted, on Fisher's z.
        """
        if kind not in (*KINDS, "families"):
            raise NotEligible(f"no kind of correlation {kind!r}", plan.closest(kind, KINDS))
        pairs = [(x, name) for name in (y, minus) if name]
        names = dict.fromkeys(name for pair in pairs for name in pair)
        correlations = self.networks.at(at).drawn_correlations(names)
        if kind == "families":
            kind, correlations = "pooled", correlations.of_means()
        rho, *others = correlations.rhos(*pairs, kind=kind)
        return interval(rho - others[0] if others else rho)

    def tau(self, x: str, y: str, kind: Literal["pooled", "within"] = "pooled") -> Interval:
        """Kendall's tau over all pairs of networks, or over those of the seeds of each setting."""
        pairs = pairs_of(self.networks.labels("setting")) if kind == "within" else None
        return interval(self.networks.ranks(x, y, pairs=pairs).tau(x, y))

    def values(self, name: str, at: Time = "end", samples: str = "train") -> Array:
        """A column: (networks)."""
        return self.networks.at(at).on(samples).values(name)


def interval(estimate: Estimate) -> Interval:
    """An estimate with the ends of its interval."""
    return Interval(estimate.value, *estimate.interval())


class SignCounts(NamedTuple):
    """How many things are compared, and how many of them are on one side, or on opposite ones."""

    compared: int
    same: int
    opposite: int


@functools.cache
def table(scale: str, experiment: str) -> PublishedNetworks:
    """The networks of a published table."""
    path = plan.published_at(scale).table(experiment)
    known = (p.name.removesuffix("".join(path.suffixes)) for p in path.parent.glob("*-*.zarr.zip"))
    _check(path, experiment, known)
    return PublishedNetworks(Networks.of(experiment, store.load_dataset(path)))


def published(scale: str, *targets: str) -> bool:
    """Whether figures are published: "beyond_fig9". What is not yet, a text can leave out."""
    parts = [target.partition("_") for target in targets]
    return all(plan.published_at(scale).verdicts(p, f).is_file() for p, _, f in parts)


def verdict(scale: str, claim: str) -> str:
    """The verdict on a claim, "chen2026_figH7/c6"."""
    return _claim(scale, claim)["verdict"]


def claims(figures: str, keys: str) -> str:
    """Rows of a table: what claims say, and how they were judged on all the evidence there is.

    figures, keys: with spaces between them, "chen2026_figH7 chen2026_figH8" and "c1 c2". Claims of
    several figures with one key say the same of different networks.
    """
    rows = []
    for key in keys.split():
        of = {figure: _best(f"{figure}/{key}") for figure in figures.split()}
        records = [record for by_scale in of.values() for record in by_scale.values()]
        if not records:
            raise store.StoreError(f"no claim {key} of {figures} is published")
        cells = [
            f"{figure.replace('_', ' ')}: {_in_words(of[figure])}" for figure in of if of[figure]
        ]
        quote, source = records[0]["quote"], records[0]["source"]
        told = f"{quote} ({source})" if quote else source
        row = (told, f"{records[0]['text']} `{key}`", "; ".join(cells))
        rows.append(f"| {' | '.join(part.replace('|', '&#124;') for part in row)} |")
    return "\n".join(rows)


def said(value: Any, side: str) -> str:
    """A number or a verdict that a sentence rests on; marked where it is no longer as said.

    side: "+", "-", "0" for an interval with zero inside, or the verdict.
    """
    if isinstance(value, str):
        agrees = value == side
    else:
        low, high = value[1:] if isinstance(value, Interval) else (value, value)
        agrees = {"+": low > 0, "-": high < 0, "0": low <= 0 <= high}[side]
    return f"{as_text(value)}{'' if agrees else CHANGED}"


def picture(scale: str, target: str) -> str:
    """The published picture of a figure, if a demo has one, and how to draw it."""
    [figure] = (each for each in plan.figures() if each.target == target)
    path = plan.published_at(scale).figure(figure.paper, figure.key, "png")
    option = "" if scale == "demo" else f" --config scale={scale}"
    told = f"*{figure.cited}: {figure.declared.title}. `snakemake {target}{option}`*"
    if scale == "demo" and not path.is_file():
        return told
    _check(path, figure.key, (p.stem for p in path.parent.glob("*.png")))
    return f"[![{figure.declared.title}](../../{path})](../../{path})\n\n{told}"


def experiments(scale: str) -> list[dict[str, Any]]:
    """The attributes of the tables that published verdicts rest on, each once."""
    figures = plan.published_figures(scale)
    files = (plan.published_at(scale).verdicts(figure.paper, figure.key) for figure in figures)
    tables = {key: of for file in files for key, of in _verdicts(file)["tables"].items()}
    return [tables[key] for key in sorted(tables)]


def board(scale: str) -> Board:
    """The published verdicts of a scale on the claims of publications, counted."""
    papers = [key for key, paper in plan.papers().items() if paper.publication]
    folders = (plan.published_at(scale).verdicts(key, "").parent for key in papers)
    return Board(_verdicts(path) for folder in folders for path in sorted(folder.glob("*.json")))


def judged() -> list[tuple[str, dict[str, dict[str, int]]]]:
    """The publications, and how many findings of each came out how, by kind of evidence.

    A finding counts once, on the strongest evidence on which it was judged.
    """
    kinds = [*EVIDENCE, "not run"]
    papers = {key: paper for key, paper in plan.papers().items() if paper.publication}
    counts = {key: {kind: dict.fromkeys(OUTCOMES, 0) for kind in kinds} for key in papers}
    for name, records in _records().items():
        found = {group_of(record): record for record in reversed(records.values())}
        best = next((kind for kind in kinds if kind in found), "")
        if best and (key := name.partition("_")[0]) in papers:
            counts[key][best][found[best]["verdict"]] += 1
    return [(paper.citation, counts[key]) for key, paper in papers.items()]


def evidence(scale: str, claim: str, *words: str) -> Interval:
    """The number in the evidence of a claim that has this name, or all these words in its name."""
    entries = {entry["quantity"]: entry for entry in _claim(scale, claim)["evidence"]}
    names = [name for name in entries if (name,) == words]
    names = names or [name for name in entries if all(word in name for word in words)]
    if len(names) != 1:
        what = f"{len(names)} quantities contain {' and '.join(map(repr, words))}"
        known = f"it has: {'; '.join(entries) or 'none'}"
        raise store.StoreError(f"evidence of {claim} at scale {scale}: {what}; {known}")
    return _interval_of(entries[names[0]])


def _interval_of(number: EvidenceEntry) -> Interval:
    ends = (number.get(key) for key in Interval._fields)
    return Interval(*(math.nan if end is None else float(end) for end in ends))


def cell(scale: str, target: str, column: str, **row: Any) -> Any:
    """What stands in a column of a published figure's CSV, in the only row with these values."""
    values = cells(scale, target, column, **row)
    if len(values) != 1:
        raise store.StoreError(f"{target} at scale {scale}: {len(values)} rows have {row}, not one")
    return values[0]


def estimate(scale: str, target: str, column: str, **row: Any) -> Interval:
    """A number in the only row of a published figure's CSV with these values, with its interval."""
    return Interval(*(cell(scale, target, name, **row) for name in (column, "low", "high")))


def cells(scale: str, target: str, column: str, **row: Any) -> list[Any]:
    """What stands in a column of a published figure's CSV, in all rows with these values.

    row: the value of an empty cell is "".
    """
    return _rows(scale, target, [column], row)[column].tolist()


def sides(scale: str, target: str, along: str, across: str, **row: Any) -> SignCounts:
    """On which side of zero the intervals `low` to `high` of a published figure's CSV are.

    Of each value of the column `along`, all values of `across` are compared. row: of these rows.
    """
    rows = _rows(scale, target, [along, across, "low", "high"], row)
    rows = rows.assign(side=np.sign(rows["low"].clip(lower=0) + rows["high"].clip(upper=0)))
    signs = rows.pivot_table("side", along, across, fill_value=0)
    product = signs.min(axis=1) * signs.max(axis=1)
    return SignCounts(len(signs), int((product > 0).sum()), int((product < 0).sum()))


def _rows(scale: str, target: str, columns: list[str], row: dict[str, Any]) -> pd.DataFrame:
    """The rows of a published figure's CSV with these values."""
    paper, _, figure = target.partition("_")
    path = plan.published_at(scale).figure(paper, figure, "csv")
    known = {each.name.partition(".")[0]: each for each in path.parent.glob("*.csv*")}
    _check(path := known.get(figure, path), figure, known)  # long ones are compressed
    frame = _csv(path)
    for name in (*columns, *row):
        if name not in frame:
            raise store.StoreError(
                f"{path}: no column {name!r}; {plan.closest(name, map(str, frame))}"
            )
    for name, value in row.items():
        frame = frame[frame[name].isna() if value == "" else frame[name] == value]
    if frame.empty:
        raise store.StoreError(f"{path}: no row has {row}")
    return frame


def over(
    larger: PublishedNetworks, smaller: PublishedNetworks, name: str, at: Time = "end"
) -> Interval:
    """How much the mean of a quantity over some networks exceeds that over others."""
    more, less = (networks.values(name, at) for networks in (larger, smaller))
    return interval(difference(name, more, less))


def median(values: np.ndarray) -> float:
    """The median of a column of `PublishedNetworks`, or of what is made of several."""
    return float(np.nanmedian(values))


@functools.cache
def _records() -> dict[str, dict[str, ClaimRecord]]:
    """The published records of each claim by scale, the largest scale first."""
    found: dict[str, dict[str, ClaimRecord]] = {}
    for scale in plan.published_scales():
        for figure in plan.published_figures(scale):
            path = plan.published_at(scale).verdicts(figure.paper, figure.key)
            for record in _verdicts(path)["claims"]:
                found.setdefault(record["id"], {})[scale] = record
    return found


def _claim(scale: str, claim: str) -> ClaimRecord:
    """The published record of a claim."""
    known = [name for name, records in _records().items() if scale in records]
    if claim not in known:
        what = f"no claim {claim!r} is published at scale {scale}"
        raise store.StoreError(f"{what}; {plan.closest(claim, known)}")
    return _records()[claim][scale]


def _best(claim: str) -> dict[str, ClaimRecord]:
    """The records of a claim by scale, one for each kind of evidence, the largest scale.

    Stand-ins are left out where there is better evidence, and what was not run where there is any.
    """
    records = _records().get(claim, {})
    largest = {record["kind"]: scale for scale, record in reversed(records.items())}
    found = {scale: records[scale] for scale in records if scale in largest.values()}
    run = {scale: record for scale, record in found.items() if record["verdict"] != "not run"}
    real = {scale: record for scale, record in run.items() if record["kind"] != "stand-in"}
    return real or run or found


def _in_words(records: dict[str, ClaimRecord]) -> str:
    """**holds** (own; 0.9 [0.8, 1.0], n = 9), **fails** (reduced; by *another reading* holds)."""
    told = []
    for scale, main in records.items():
        readings: dict[str, list[str]] = {}
        for name, variants in _records().items():
            ending = name.removeprefix(f"{main['id']}-")
            if ending != name and scale in variants:
                readings.setdefault(variants[scale]["verdict"], []).append(ending)
        others = [
            f"by *{', '.join(endings)}* {verdict}"
            for verdict, endings in readings.items()
            if verdict not in (main["verdict"], "not run")
        ]
        number = decided_by(main)
        numbers = [f"{as_text(_interval_of(number))}, n = {number['n']}"] if number else []
        told.append(f"**{main['verdict']}** ({'; '.join([main['kind'], *numbers, *others])})")
    return ", ".join(told)


def _check(path: Path, name: str, known: Iterable[str]) -> None:
    """Raise `StoreError` if a published file does not exist."""
    if not path.is_file():
        raise store.StoreError(f"{path} does not exist; {plan.closest(name, known)}")


_verdicts = functools.cache(read_verdicts)


@functools.cache
def _csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path)


if __name__ == "__main__":
    for each in pages():
        store.replace(each, page(each).encode())
        print(each)
