"""Draw a figure from a table, or from reports of `flatlab measure`, without a declaration.

flatlab plot TABLE pairs sharpness:test_error mls:test_error
flatlab plot TABLE sweep test_error sharpness --along lr --by batch_size
flatlab plot TABLE forest test_error:sharpness test_error:mls
flatlab plot TABLE matrix sharpness mls test_error
flatlab plot REPORT REPORT layers weight_norm sharpness_per_layer
flatlab plot REPORT ... spectrum, density, landscape or barriers
flatlab plot RUN run loss hessian_lambda_max
"""

import argparse
import textwrap
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.core.schema import PlanError, closest
from flatlab.lab.plan.declarations import Declaration, Intervals, Matrix, Pairs, Sweep

OF_REPORTS = ("layers", "spectrum", "density", "landscape", "barriers", "run")
"""Pictures of reports; quantities may be chosen for `run`, and must be for `layers`."""
KINDS = ("pairs", "sweep", "forest", "matrix", *OF_REPORTS)
CAPTIONS = {
    "pairs": "A point is a network at the end of training; Pearson's correlation with its 95 % "
    "interval, the jackknife over the seeds of each setting.",
    "sweep": "Mean over networks at the end of training, with its 95 % interval.",
    "forest": "Pearson's correlation with its 95 % interval, the jackknife over the seeds of each "
    "setting.",
    "matrix": "Above the diagonal: Pearson's correlation over all networks, its 95 % interval, and "
    "in grey that of the same setting, in italics where it has the other sign.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    help_ = f"files, then one of {', '.join(KINDS)}, then quantities (pairs: X:Y)"
    add("words", nargs="+", metavar="FILE... KIND QUANTITY...", help=help_)
    add("--along", nargs="+", default=[], metavar="NAME", help="sweep: the horizontal axes")
    add("--by", metavar="NAME", help="sweep: what a line stands for; a second hyper-parameter")
    help_ = "a .pdf, .svg, .png, .csv (numbers) or .txt (caption), or a name without ending for all"
    add("--out", type=Path, metavar="FILE", help=help_)


def run(options: argparse.Namespace) -> int:
    place = next((n for n, word in enumerate(options.words) if word in KINDS), None)
    if not place:
        found = closest(options.words[-1], KINDS)
        raise PlanError(f"flatlab plot needs files and then what to draw; {found}")
    files, kind = [Path(word) for word in options.words[:place]], options.words[place]
    names = options.words[place + 1 :]
    if not names and kind not in OF_REPORTS[1:]:
        raise PlanError(f"flatlab plot {kind} needs quantities, such as sharpness")
    tables = {path.name.removesuffix(".zarr.zip"): store.load_dataset(path) for path in files}
    if len(tables) < len(files):
        raise PlanError("flatlab plot needs files with different names")
    if kind in OF_REPORTS:
        from flatlab.lab.figures.reports import pictures

        contents = pictures(kind, tables, names)
    else:
        contents = _drawn(tables, kind, names, options)
    stem = options.out or Path(f"{'-'.join(tables)}-{kind}")
    ending = stem.suffix.removeprefix(".")
    if ending and ending not in contents:
        raise PlanError(f"--out {stem}: known endings are {', '.join(contents)}")
    for extension in [ending] if ending else contents:
        path = stem if ending else stem.with_name(f"{stem.name}.{extension}")
        store.replace(path, contents[extension])
        print(f"written to {path}")
    return 0


def _drawn(
    tables: dict[str, Any], kind: str, names: list[str], options: argparse.Namespace
) -> dict[str, bytes]:
    """The figure of a template."""
    from flatlab.lab.figures.render import make

    for key, table in tables.items():
        if "setting" not in table.coords:
            remedy = "for reports use `flatlab plot REPORT layers ...`; zoos have their own figures"
            raise PlanError(f"{key} has no settings; {remedy}")
    declared = _declaration(tables, kind, names, options)
    title = textwrap.shorten(", ".join(tables), 60)
    where = {"paper": "", "key": kind, "cited": title, "publication": False}
    return make({**where, **declared.resolved()}, tables)


def _declaration(
    tables: dict[str, Any], kind: str, names: list[str], options: argparse.Namespace
) -> Declaration:
    common: dict[str, Any] = {"title": kind, "caption": CAPTIONS[kind]}
    keys = tuple(tables)
    if kind in ("pairs", "forest"):
        pairs = tuple(_pair(name) for name in names)
        if kind == "forest":
            size = (7.1, 1.6 + 0.3 * len(pairs))
            return Intervals(keys, pairs=pairs, size_inches=size, **common)
        # Of one table side by side; of several a row each, with a column for each table.
        across = min(3, len(pairs)) if len(keys) == 1 else None
        rows = -(-len(pairs) // (across or 1))
        size = (max(4.6 if across else 3.4, 2.6 * (across or len(keys))), 1.2 + 2.3 * rows)
        return Pairs(keys, pairs=pairs, across=across, size_inches=size, **common)
    if len(keys) > 1:
        raise PlanError(f"flatlab plot {kind} shows one table, found {', '.join(keys)}")
    if kind == "matrix":
        side = max(4.0, 1.6 + 0.8 * len(names))
        return Matrix(keys, quantities=tuple(names), size_inches=(side, side + 0.6), **common)
    table = tables[keys[0]]
    known = [str(name) for name in table.attrs["hyperparameters"]]
    for name in [*options.along, *([options.by] if options.by else [])]:
        if name not in known:
            raise PlanError(f"{keys[0]} has no hyper-parameter {name!r}; {closest(name, known)}")
    along = options.along or [name for name in known if table[name].dtype.kind in "fiu"][:1]
    if not along:
        raise PlanError("flatlab plot sweep needs --along NAME, a hyper-parameter with numbers")
    return Sweep(
        keys,
        quantities=tuple(names),
        along={name: name.replace("_", " ") for name in along},
        line=options.by or next((name for name in known if name not in along), along[0]),
        size_inches=(7.1, 1.4 + 2.4 * (1 if len(along) == 1 else len(names))),
        **common,
    )


def _pair(text: str) -> tuple[str, str]:
    x, colon, y = text.partition(":")
    if not (colon and x and y):
        raise PlanError(f"{text!r} is not a pair; one is written X:Y, such as sharpness:test_error")
    return x, y
