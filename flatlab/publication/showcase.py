"""The README's gallery and scoreboard, from what is published."""

from __future__ import annotations

from pathlib import Path

from flatlab import plan, scoreboard, store
from flatlab.tables.published import with_tables


def rewrite(readme: Path) -> None:
    """Write both anew between their marks."""
    boards, pictures = [], []
    for scale in plan.published_scales():
        shown = plan.published_figures(scale)
        place = plan.PUBLISHED / scale
        files = [place / "verdicts" / figure.paper / f"{figure.key}.json" for figure in shown]
        verdicts = [with_tables(store.load_json(path)) for path in files]
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
