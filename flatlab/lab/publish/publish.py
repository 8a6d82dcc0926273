"""Copying results to `results/published/<scale>/`, all of them or none.

Tables, figures and verdicts of real runs are under version control there, and no rule makes them.
`snakemake published` computes the figures and verdicts anew from their tables. Metric files can be
kept there as well, so that hours of computing never exist only once, each with the record of the
job that made it; they are compressed, since most of a small one is metadata.
"""

import gzip
import itertools
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.jobs import forecast

BUDGET_BYTES = 45 * 10**6
"""The size limit of published files, which every clone of the repository downloads."""

NAMES = plan.ResultsFolder(Path())
"""Files as they are named in `results/<scale>/` and in `results/published/<scale>/` alike."""

ENDINGS = ("png", "csv", "txt")
"""Published files of a figure. PDF and SVG are large, and `snakemake published` draws them."""

LONGEST_CSV = 500_000
"""Bytes from which on a CSV is compressed, since hosts of repositories do not show it."""


def publish(chosen: plan.Plan, names: Sequence[str] = ()) -> list[Path]:
    """Copy built results at the scale of the configuration; returns the new files.

    names: experiments, figures or papers to publish in place of their former versions; everything
    that is built if none is named.

    Nothing changes if an error is raised: `PlanError` for unknown names, `StoreError` if something
    is not built, if published figures would not show the published tables, or if the published
    files would exceed their budget.
    """
    choice = choose(chosen, names)
    if errors := disagreements(choice):
        raise store.StoreError("\n".join(errors))
    files = {choice.published / name: choice.built / name for name in choice.files}
    return copy(files, records(chosen, choice.published, choice.experiments))


def publish_redrawn(scale: str | None = None) -> list[Path]:
    """Replace published figures and verdicts by those computed anew; returns the new files.

    scale: all scales if none is given.

    Nothing changes if an error is raised: `StoreError` if nothing is published, or if a file is
    missing or was not made by the code of today from the published tables as they are.
    """
    scales = [scale] if scale else plan.published_scales()
    figures = [(each, figure) for each in scales for figure in plan.published_figures(each)]
    if not figures:
        where = f" at scale {scale}" if scale else ""
        raise store.StoreError(f"no figure is published{where}; publish first: flatlab publish")
    if stale := list(dict.fromkeys(path for each in figures for path in stale_files(*each))):
        raise store.StoreError(
            f"{len(stale)} files, the first of them {stale[0]}, are missing or were not made from "
            "the published tables by today's code; make them with: snakemake published "
            "(if it finds nothing to do: snakemake --forceall published)"
        )
    files = {
        plan.published_at(each).folder / name: plan.redrawn_at(each).folder / name
        for each, figure in figures
        for name in published_files_of(figure, each)
    }
    return copy(files)


def copy(files: Mapping[Path, Path], records: Mapping[Path, Any] = {}) -> list[Path]:
    """Copy files to the published results; returns the new files.

    files: source by target.  records: content by target, to be written as JSON.
    """
    files = dict(files)
    with tempfile.TemporaryDirectory(dir=plan.PUBLISHED.parent, prefix="publish-") as folder:
        for number, (target, source) in enumerate([*files.items()]):
            long = target.suffix == ".csv" and source.stat().st_size > LONGEST_CSV
            if long or target.match("metrics/*/*/*.zip"):
                del files[target]
                compressed = files[Path(f"{target}.gz")] = Path(folder, f"{number}.gz")
                compressed.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
        check_budget(files)
        # All is written here first, so that a full disk leaves what is published as it was.
        for target, content in records.items():
            store.save_json(files.setdefault(target, Path(folder, target.name)), content)
        aside = {target: Path(folder, str(number)) for number, target in enumerate(files)}
        for target, source in files.items():
            store.replace(aside[target], source.read_bytes())
        for target, written in aside.items():
            store.make_folder(target.parent)
            written.replace(target)
            former = target.with_suffix("") if target.suffix == ".gz" else Path(f"{target}.gz")
            former.unlink(missing_ok=True)  # a CSV that was longer, or shorter
    return list(files)


def check_budget(files: Mapping[Path, Path]) -> None:
    """Raise `StoreError` if copying files would make `results/published` too large.

    files: source by target.
    """
    kept = {path: path for path in plan.PUBLISHED.rglob("*") if path.is_file()}
    sizes: Counter[str] = Counter()
    for target, source in {**kept, **files}.items():
        part = "/".join(target.relative_to(plan.PUBLISHED).parts[:3])
        sizes[part] += source.stat().st_size
    if (total := sizes.total()) > BUDGET_BYTES:
        largest = ", ".join(f"{part} {size / 1e6:.1f} MB" for part, size in sizes.most_common(5))
        raise store.StoreError(
            f"{plan.PUBLISHED} would have {total / 1e6:.1f} MB, more than the "
            f"{BUDGET_BYTES / 1e6:.0f} MB that a repository should carry; largest are {largest}"
        )


def files_of(figure: plan.Figure) -> list[Path]:
    """The verdicts of a figure and the figure itself."""
    pictures = [NAMES.figure(figure.paper, figure.key, ending) for ending in ENDINGS]
    return [NAMES.verdicts(figure.paper, figure.key), *pictures]


def published_files_of(figure: plan.Figure, scale: str) -> list[Path]:
    """Of a demo whose figure a larger scale has, the verdicts alone: its picture says less."""
    verdicts, *pictures = files_of(figure)
    larger = (plan.published_at(each).folder / verdicts for each in ("short", "paper"))
    shown = scale != "demo" or not any(path.is_file() for path in larger)
    return [verdicts, *(pictures if shown else [])]


def content(path: Path) -> bytes | None:
    """The bytes of a file, or None if it does not exist; equal results have equal bytes."""
    return path.read_bytes() if path.is_file() else None


class Choice:
    """What to publish at a scale: keys of experiments, and figures.

    built, published: the folders to copy from and to.  files: the names of the files to copy.
    """

    def __init__(self, scale: str, experiments: list[str], figures: list[plan.Figure]) -> None:
        self.scale, self.experiments, self.figures = scale, experiments, figures
        self.built, self.published = plan.built_at(scale).folder, plan.published_at(scale).folder
        self.files = [NAMES.table(key) for key in experiments]
        self.files += [name for figure in figures for name in published_files_of(figure, scale)]

    def after(self, key: str) -> bytes | None:
        """The content of a published table after publishing this choice; None if there is none."""
        folder = self.built if key in self.experiments else self.published
        return content(folder / NAMES.table(key))


def built_figures(scale: str) -> tuple[list[plan.Figure], list[plan.Figure]]:
    """The figures that are built at a scale: those that show something, and those that do not.

    The latter are of networks that the scale leaves out; they have the head of a CSV alone.
    """
    place = plan.built_at(scale)
    folder = place.folder
    showing: list[plan.Figure] = []
    empty: list[plan.Figure] = []
    for figure in (plan.as_published(each, place) for each in plan.figures()):
        files = [folder / name for name in files_of(figure)]
        if all(file.is_file() for file in files):
            with place.figure(figure.paper, figure.key, "csv").open() as csv:
                has_rows = len([*itertools.islice(csv, 2)]) == 2
            (showing if has_rows else empty).append(figure)
    return showing, empty


def choose(chosen: plan.Plan, names: Sequence[str]) -> Choice:
    """What names of experiments, figures or papers mean; without names, everything that is built.

    A paper means those of its figures that are built and show something. Raises `PlanError` for
    unknown names and `StoreError` if something is not built or shows nothing.
    """
    scale = chosen.config.scale
    place = plan.built_at(scale)
    built, empty = built_figures(scale)
    for figure in empty:
        if figure.target in names:
            raise store.StoreError(
                f"{figure.target} shows nothing at scale {scale}; if it is published, remove it "
                f"from {plan.published_at(scale).folder}"
            )
    if not names:
        tables = [key for key in chosen.experiments if place.table(key).is_file()]
        if not (tables or built):
            raise store.StoreError(f"nothing is built at scale {scale}; run snakemake first")
        return Choice(scale, tables, built)
    keys = [name for name in dict.fromkeys(names) if name in chosen.experiments]
    for table in map(place.table, keys):
        if not table.is_file():
            raise store.StoreError(f"{table} does not exist; build it with: snakemake {table}")
    known = {*keys, *plan.papers(), *plan.targets()}
    figures: dict[str, plan.Figure] = {}
    for name in (name for name in names if name not in keys):
        if name not in known:
            hint = plan.closest(name, {*chosen.experiments, *known}).partition("Known: ")[0]
            raise plan.PlanError(
                f"{name!r} is not an experiment, figure or paper; {hint}`flatlab experiments` and "
                "`flatlab figures` list them"
            )
        figures |= {figure.target: figure for figure in figures_named(name, built, chosen)}
    return Choice(scale, keys, list(figures.values()))


def figures_named(name: str, built: Sequence[plan.Figure], chosen: plan.Plan) -> list[plan.Figure]:
    """The built figures of a target or a paper; raises if there are none."""
    if named := [figure for figure in built if name in (figure.paper, figure.target)]:
        return named
    if reason := chosen.why_not(name):
        raise plan.PlanError(reason)
    scale = chosen.config.scale
    build = plan.command(scale, name)
    raise store.StoreError(f"{name} is not built at scale {scale}; build it with: {build}")


def disagreements(choice: Choice) -> list[str]:
    """Sentences on figures that would not show the published tables, with what else to publish."""
    gone, unlike, former = (defaultdict[str, list[str]](list) for _ in range(3))
    for figure in choice.figures:
        for key in figure.experiments:
            if not (table := choice.built / NAMES.table(key)).is_file():
                gone[str(table)].append(figure.target)
            elif content(table) != choice.after(key):
                unlike[key].append(figure.target)
    for figure in plan.published_figures(choice.scale):
        for key in figure.experiments if figure not in choice.figures else []:
            if content(choice.published / NAMES.table(key)) != choice.after(key):
                former[key].append(figure.target)
    said = []
    for path, drawn in gone.items():
        said.append(
            f"{drawn[0]} was drawn from {path}, which is gone; build it with: snakemake {path}"
        )
    for key, other in unlike.items():
        told = f"the published table of {key} is not the one of {', '.join(other)}"
        said.append(f"{told}; publish this as well: {key}")
    for key, showing in former.items():
        told = f"published figures show the former table of {key}"
        said.append(f"{told}; publish these as well: {' '.join(showing)}")
    return said


def stale_files(scale: str, figure: plan.Figure) -> Iterator[Path]:
    """The files of a figure, and correlations that it shows, which are to be made anew."""
    published, redrawn = plan.published_at(scale), plan.redrawn_at(scale)
    correlations = {redrawn.correlations(k): [published.table(k)] for k in figure.correlated}
    for path, table in correlations.items():
        if not _is_made(path, table, plan.correlations_code()):
            yield path
    tables = [published.table(key) for key in figure.experiments]
    judged, *drawn = (redrawn.folder / name for name in files_of(figure))
    if not _is_made(judged, tables, plan.claims_code(figure.paper)):
        yield judged
    for path in drawn:
        if not _is_made(path, [*tables, *correlations], figure.code, figure.settings):
            yield path


def _is_made(path: Path, inputs: list[Path], code: str, settings: Any = None) -> bool:
    """Whether a file is there, and by its record made from these inputs as they are now."""
    if not (path.is_file() and (record := plan.record_of(path)).is_file()):
        return False
    expected = {"code": code, "settings": settings}
    expected["inputs"] = {str(each): store.hash_of(each) for each in inputs}
    return expected.items() <= store.load_json(record).items()


def records(chosen: plan.Plan, folder: Path, keys: Sequence[str]) -> dict[Path, Any]:
    """The JSON files on the origins of tables and the run times of jobs, brought up to date."""
    origins, times = folder / "provenance.json", folder / forecast.PUBLISHED
    made = store.load_json(origins) if origins.is_file() else {}
    built = plan.built_at(chosen.config.scale).folder
    made |= {key: origin(chosen, key, built) for key in keys}
    took = forecast.from_records(store.load_json(times) if times.is_file() else [])
    anew = forecast.recorded(chosen, [chosen.config.scale], keys)
    sizes = {job.work for job in forecast.jobs_of(chosen, chosen.config.scale, chosen.experiments)}
    networks = {key[:3] for key in anew}  # of these, records of a size that no job has go
    took = {k: time for k, time in took.items() if k[:3] not in networks or k[3] in sizes}
    return {origins: made, times: forecast.as_records(took | anew)}


def origin(chosen: plan.Plan, key: str, folder: Path) -> dict[str, Any]:
    """Which code computed a table, where and how long, including the training of its networks.

    folder: the built results at the scale of the configuration, here or in another copy.
    """
    built = plan.built_at(chosen.config.scale).folder
    records_of: dict[str, list[dict[str, Any]]] = {}
    for task in forecast.jobs_of(chosen, chosen.config.scale, [key]):
        done = records_of.setdefault(task.stage, [])
        record = plan.record_of(folder / task.file.relative_to(built))
        if record.is_file():  # files from elsewhere may have none
            done.append(store.load_json(record))
    records = [record for done in records_of.values() for record in done]
    return {
        "code": {stage: sorted({r["code"] for r in done}) for stage, done in records_of.items()},
        "commits": sorted({record.get("commit", "") for record in records} - {""}),
        "jobs": len(records),
        "runtime_s": round(sum(record["runtime_s"] for record in records)),
        "machines": sorted({record["machine"] for record in records}),
        "gpu": any(record["gpu"] for record in records),
        "versions": {k: v for record in records for k, v in record["versions"].items()},
    }


# ---- metric files that are kept


def keep(experiment: plan.Experiment) -> str:
    """Copy the metric files of measured packs to the published results; returns what was done.

    Raises `StoreError` if nothing is measured, if a file is damaged, or if the copies would exceed
    the budget.
    """
    measured = experiment.only_measured_packs()
    if not (files := measured.metric_files):
        raise store.StoreError(f"no pack of {experiment.key} is measured at {experiment.scale}")
    for path in files:
        store.load_dataset(path)  # raises if the file is damaged
    # Files that were computed elsewhere may have no record.
    records = [path for path in map(plan.record_of, files) if path.is_file()]
    size = sum(path.stat().st_size for path in copy({_kept(p): p for p in [*files, *records]}))
    place = plan.published_at(experiment.scale).folder / "metrics" / experiment.key
    return f"{len(measured.packs)} packs kept, {size / 1e6:.1f} MB; git add {place}"


def restore(experiment: plan.Experiment) -> str:
    """Copy kept metric files back to where they are missing; returns what was done, in words.

    Existing files are not overwritten. Raises `StoreError` if nothing is kept or a kept file is
    damaged.
    """
    paths = {path: Path(f"{_kept(path)}.gz") for path in experiment.metric_files}
    if not (kept := [path for path in paths if paths[path].is_file()]):
        raise store.StoreError(f"nothing of {experiment.key} is kept at scale {experiment.scale}")
    missing = [path for path in kept if not path.exists()]
    with tempfile.TemporaryDirectory() as folder:  # nothing is restored if one is damaged
        content = {path: _checked(paths[path], Path(folder, "copy")) for path in missing}
    for path in missing:
        store.replace(path, content[path])
        if (record := _kept(plan.record_of(path))).is_file():
            store.replace(plan.record_of(path), record.read_bytes())
    return f"{len(missing)} files restored, {len(kept) - len(missing)} were already there"


def _kept(path: Path) -> Path:
    """Where a file is kept: results/demo/... -> results/published/demo/..."""
    return plan.PUBLISHED / path.relative_to(plan.RESULTS)


def _checked(path: Path, copy: Path) -> bytes:
    """The content of a kept metric file; `StoreError` if it is damaged.  copy: a file to use."""
    try:
        copy.write_bytes(content := gzip.decompress(path.read_bytes()))
        store.load_dataset(copy)
    except (OSError, EOFError, zlib.error, store.StoreError):
        remedy = f"get it back with: git checkout -- {path}"
        raise store.StoreError(f"{path} is damaged; {remedy}") from None
    return content
