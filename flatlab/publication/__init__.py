"""Publishing: tables, figures and verdicts of real runs are copied to `results/published/<scale>/`.

These copies are under version control, and no rule makes them. `snakemake published` redraws the
figures from their tables.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from flatlab import plan, store
from flatlab.publication import records
from flatlab.publication.budget import check_budget
from flatlab.publication.choice import choose, disagreements
from flatlab.publication.showcase import rewrite


def publish(
    chosen: plan.Plan, names: Sequence[str] = (), readme: Path = Path("README.md")
) -> list[Path]:
    """Copy built results at the scale of the configuration; returns the new files.

    names: experiments, figures or papers to publish in place of their former versions; everything
    that is built if none is named. The README's scoreboard and gallery are rewritten.

    Nothing changes if an error is raised: `PlanError` for unknown names, `StoreError` if something
    is not built, if published figures would not show the published tables, or if the published
    files would exceed their budget.
    """
    choice = choose(chosen, names)
    if found := disagreements(choice):
        raise store.StoreError("\n".join(found))
    if not readme.is_file():
        raise store.StoreError(f"{readme} does not exist; run flatlab in the project's folder")
    files = {choice.published / name: choice.built / name for name in choice.files}
    check_budget(files)
    stale = [choice.published / name for name in choice.left_behind]
    _write(files, records.updated(chosen, choice), stale)
    rewrite(readme)
    return [*files, *records.paths(choice.scale)]


def _write(
    files: Mapping[Path, Path], contents: Mapping[Path, object], stale: Iterable[Path]
) -> None:
    """Copy files, write JSON files and delete stale files; a full disk leaves all as it was.

    files: source by target.  contents: JSON content by target. All are written to a temporary
    folder first.
    """
    with tempfile.TemporaryDirectory(dir=plan.PUBLISHED.parent, prefix="publish-") as folder:
        aside = {target: Path(folder, str(n)) for n, target in enumerate([*files, *contents])}
        for target, source in files.items():
            store.replace(aside[target], source.read_bytes())
        for target, content in contents.items():
            store.save_json(aside[target], content)
        for target, written in aside.items():
            store.make_folder(target.parent)
            written.replace(target)
    for path in stale:
        path.unlink()
