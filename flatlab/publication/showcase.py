"""The README's gallery and scoreboard of published figures and verdicts."""

from pathlib import Path

from flatlab import plan, scoreboard, store
from flatlab.tables.published import with_tables


def rewrite(readme: Path) -> None:
    """Replace both between their marks in the README."""
    boards, pictures = [], []
    for scale in plan.published_scales():
        place = plan.published_at(scale)
        verdicts, row = [], [f"Scale {scale}:"]
        for figure in plan.published_figures(scale):
            content = store.load_json(place.verdicts(figure.paper, figure.key))
            verdicts.append(with_tables(content))
            picture = place.figure(figure.paper, figure.key, "png")
            thumbnail = f'<img src="{picture}" width="270" alt="{figure.target}, {scale}">'
            row.append(f"[{thumbnail}]({picture})")
        boards.append(scoreboard.as_markdown(scoreboard.collect(verdicts)))
        pictures.append("\n".join(row))
    text = readme.read_text()
    for name, content in (("scoreboard", boards), ("gallery", pictures)):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        body = "\n\n".join(content)
        text = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
    store.replace(readme, text.encode())
