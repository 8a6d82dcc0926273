"""Publishing: tables, verdicts and figures of a real run go into `results/published/<scale>/`.

They are tracked, and no rule makes them. `snakemake published` draws them again from their tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flatlab import estimate, plan, scoreboard, store

BUDGET_BYTES = 25 * 10**6
ENDINGS = ("pdf", "png", "csv")


def publish(chosen: plan.Plan, readme: Path = Path("README.md")) -> list[Path]:
    """Copy what is built at the scale of the configuration; returns the new files.

    What was published at this scale before is replaced. The README's scoreboard and gallery are
    written anew. Raises `StoreError` where nothing is built, or where it is too large.
    """
    scale = chosen.config.scale
    source, place = Path("results", scale), plan.PUBLISHED / scale
    built = [f for f in chosen.figures if (source / _stem("figures", f, ".pdf")).is_file()]
    if not built:
        raise store.StoreError(f"nothing is built at scale {scale}; run snakemake first")
    names = [_stem("verdicts", figure, ".json") for figure in built]
    names += [_stem("figures", figure, f".{ending}") for figure in built for ending in ENDINGS]
    tables = list(dict.fromkeys(key for figure in built for key in figure.experiments))
    correlated = list(dict.fromkeys(key for figure in built for key in figure.correlated))
    names += [f"tables/{table}.zarr.zip" for table in tables]
    names += [f"tables/{key}.correlations.zarr.zip" for key in correlated]
    kept = [f for f in plan.PUBLISHED.rglob("*") if f.is_file() and not f.is_relative_to(place)]
    size = sum(path.stat().st_size for path in [*kept, *(source / name for name in names)])
    if size > BUDGET_BYTES:
        raise store.StoreError(f"{size / 1e6:.0f} MB in all are too much for a repository")
    shutil.rmtree(place, ignore_errors=True)
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, place / name)
    about = {table: _provenance(table, scale, chosen) for table in tables}
    store.save_json(place / "provenance.json", about)
    took = estimate.recorded(chosen, [scale])
    store.save_json(place / estimate.PUBLISHED, estimate.as_records(took))
    _rewrite(readme)
    return [place / name for name in [*names, "provenance.json", estimate.PUBLISHED]]


def _stem(kind: str, figure: plan.Figure, ending: str) -> str:
    return f"{kind}/{figure.paper}/{figure.key}{ending}"


def _provenance(key: str, scale: str, chosen: plan.Plan) -> dict[str, Any]:
    """By which code, where and how long a table's numbers were made, from the jobs' records."""
    place = Path("results", scale)
    if key in plan.keys_of("simulations"):
        made = {"study": [place / f"tables/{key}.zarr.zip"]}
    elif key in plan.zoo_keys():
        zoo = plan.load_zoo(key, scale)
        made = {"train": [zoo.members(part) for part in zoo.parts]}
        made |= {"survey": [zoo.metrics(part) for part in zoo.parts]}
    else:
        grid = chosen.grid(key, scale)
        made = {"train": [place / f"models/{key}/{pack}.safetensors" for pack in grid.packs]}
        made |= {f: [grid.metrics(pack, f) for pack in grid.packs] for f in grid.families}
    found = {name: list(_records(paths)) for name, paths in made.items()}
    records = [record for each in found.values() for record in each]
    return {
        "code": {name: sorted({r["code"] for r in each}) for name, each in found.items()},
        "jobs": len(records),
        "runtime_s": round(sum(record["runtime_s"] for record in records)),
        "machines": sorted({record["machine"] for record in records}),
        "gpu": any(record["gpu"] for record in records),
        "versions": {k: v for record in records for k, v in record["versions"].items()},
    }


def _records(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Those that lie beside some files, where these have any: files from elsewhere may not."""
    for path in paths:
        if (record := Path(f"{path}.provenance.json")).is_file():
            yield store.load_json(record)


def _rewrite(readme: Path) -> None:
    """The scoreboard and the gallery of the README, from what is published."""
    boards, pictures = [], []
    for scale in plan.published_scales():
        shown = plan.published_figures(scale)
        verdicts = [
            store.load_json(plan.PUBLISHED / scale / _stem("verdicts", figure, ".json"))
            for figure in shown
        ]
        boards.append(scoreboard.as_markdown(scoreboard.collect(verdicts)))
        row = [f"Scale {scale}:"]
        for figure in shown:
            picture = plan.PUBLISHED / scale / _stem("figures", figure, ".png")
            thumbnail = f'<img src="{picture}" width="270" alt="{figure.target}, {scale}">'
            row.append(f"[{thumbnail}]({picture})")
        pictures.append("\n".join(row))
    text = readme.read_text()
    for name, content in (("scoreboard", boards), ("gallery", pictures)):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        body = "\n\n".join(content)
        text = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
    readme.write_text(text)
