"""The README's gallery and scoreboard, from what is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatlab import plan, scoreboard, store


def rewrite(readme: Path) -> None:
    """Write both anew between their marks."""
    boards, pictures = [], []
    for scale in plan.published_scales():
        shown = plan.published_figures(scale)
        place = plan.PUBLISHED / scale
        verdicts = [
            _verdicts(place / "verdicts" / figure.paper / f"{figure.key}.json") for figure in shown
        ]
        boards.append(scoreboard.as_markdown(scoreboard.collect(verdicts)))
        row = [f"Scale {scale}:"]
        for figure in shown:
            picture = place / "figures" / figure.paper / f"{figure.key}.png"
            thumbnail = f'<img src="{picture}" width="270" alt="{figure.target}, {scale}">'
            row.append(f"[{thumbnail}]({picture})")
        pictures.append("\n".join(row))
    text = readme.read_text()
    for name, content in (("scoreboard", boards), ("gallery", pictures)):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        body = "\n\n".join(content)
        text = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
    store.replace(readme, text.encode())


def _verdicts(path: Path) -> Any:
    """The verdicts on a figure. Before they had `tables` these were `grids` and `studies`."""
    content = store.load_json(path)
    content.setdefault("tables", content.get("grids", {}) | content.get("studies", {}))
    return content
