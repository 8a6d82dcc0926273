"""Whether figures and published tables agree, and whether figures are of today's code."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish.selection import NAMES, Choice, content, files_of


def disagreements(choice: Choice) -> list[str]:
    """Sentences on figures that would not show the published tables, with what else to publish."""
    gone, unlike, former = (defaultdict[object, list[str]](list) for _ in range(3))
    for figure in choice.figures:
        for key in figure.experiments:
            if not (path := choice.built / NAMES.table(key)).is_file():
                gone[path].append(figure.target)
            elif content(path) != choice.after(key):
                unlike[key].append(figure.target)
    for figure in plan.published_figures(choice.scale):
        for key in figure.experiments if figure not in choice.figures else []:
            if content(choice.published / NAMES.table(key)) != choice.after(key):
                former[key].append(figure.target)
    return [
        *(
            f"{targets[0]} was drawn from {path}, which is gone; build it with: snakemake {path}"
            for path, targets in gone.items()
        ),
        *(
            f"the published table of {key} is not the one of {', '.join(targets)}; "
            f"publish this as well: {key}"
            for key, targets in unlike.items()
        ),
        *(
            f"published figures show the former table of {key}; "
            f"publish these as well: {' '.join(targets)}"
            for key, targets in former.items()
        ),
    ]


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
