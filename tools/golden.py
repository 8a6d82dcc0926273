"""What the published tables say, computed anew: every verdict, CSV and caption, and FINDINGS.md.

python -m tools.golden compute FOLDER [PAPER ...]   by the code of this folder
python -m tools.golden compare OLD NEW              two such folders, or two of results
python -m tools.golden check FOLDER                 against the hashes in golden.json
python -m tools.golden keep FOLDER                  replace these hashes

A change of code that is to change no result leaves all of it as it is. A folder is one of
`compute`, or the results of a complete run (`make papers`), of which the hashes are kept too.
Hashes hold for one type of machine: on another one the last bits of a number may differ, and two
folders that were both made there are compared instead.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# Sums have other last bits with other numbers of threads; jobs of the workflow have one.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
from flatlab.lab import plan

KEPT = Path(__file__).with_suffix(".json")
ENDINGS = (".json", ".csv", ".md", ".caption", ".safetensors", ".zarr.zip")


def compute(folder: str, papers: list[str]) -> None:
    """Write every verdict, CSV and caption of the published tables, and FINDINGS.md."""
    jobs = [
        (folder, scale, figure.target)
        for scale in plan.published_scales()
        for figure in plan.published_figures(scale)
        if not papers or figure.paper in papers
    ]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_compute, *zip(*jobs, strict=True)))
    if not papers:
        from tools import findings

        Path(folder, "FINDINGS.md").write_text(findings.page(findings.PAGE))


def _compute(folder: str, scale: str, target: str) -> None:
    from flatlab.core import store
    from flatlab.lab import claims
    from flatlab.lab.figures import render as plotting

    place = plan.published_at(scale)
    figure = next(each for each in plan.figures() if each.target == target)
    figure = plan.as_published(figure, place)
    tables = {key: store.load_dataset(place.table(key)) for key in figure.experiments}
    settings = plotting.completed(figure.settings, tables)
    frame = plotting.frame_of(settings, tables)
    contents = {
        "json": json.dumps(claims.verify(target, tables), indent=1, sort_keys=True, default=float),
        "csv": frame.to_csv(index=False),
        "caption": plotting.caption(settings, tables),
    }
    for ending, content in contents.items():
        path = Path(folder, scale, f"{target}.{ending}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def hashes(folder: str) -> dict[str, str]:
    """A hash of each file, without what pictures, provenance and bars leave there."""
    root = Path(folder)
    files = (path for path in sorted(root.rglob("*")) if path.name.endswith(ENDINGS))
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in files
        if not path.name.endswith(".provenance.json")
    }


def differences(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            change = "gone" if name not in new else "new" if name not in old else "differs"
            yield f"{change}: {name}"


def main(command: str, *arguments: str) -> int:
    if command == "compute":
        compute(arguments[0], list(arguments[1:]))
        return 0
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    of_results = Path(arguments[0], "models").is_dir()
    part = "demo run" if of_results else "published"
    if command == "keep":
        kept[part] = hashes(arguments[0])
        KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
        return 0
    if command == "check":
        old, new = kept[part], hashes(arguments[0])
    else:
        old, new = hashes(arguments[0]), hashes(arguments[1])
        old = {name: value for name, value in old.items() if name in new} or old
    found = list(differences(old, new))
    print("\n".join(found) or f"{len(new)} files, all the same")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
