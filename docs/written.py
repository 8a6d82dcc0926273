"""A Sphinx extension: what the code knows is written into pages, at marks such as `<!-- keys -->`.

quantities: KEY  the measures of a family with an example; measures: all of them, to be searched
commands         the help of every command; keys: that of the keys of experiments

Links to the scripts of tutorials, which a clone has, become links to their pages.
"""

import html
import os
import re
from collections.abc import Iterator
from types import ModuleType

from sphinx.application import Sphinx

from flatlab.cli import _main
from flatlab.core.registry import imported, keys_of
from flatlab.lab import plan

SIGNS = {
    **{"||": "‖", "sqrt(": "√(", "dtheta": "dθ", "theta": "θ", "sigma": "σ", "Gamma": "Γ"},
    **{
        "kappa": "κ",
        "lambda": "λ",
        "^-2": "⁻²",
        "^2N": "^(2N)",
        "^2": "²",
        "^T": "ᵀ",
        "<=": "≤",
        ">=": "≥",
    },
}
MARK = re.compile(r"<!-- (quantities|measures|commands|keys)(?:: (\S+))? -->")
TUTORIAL = re.compile(r"\]\((tutorials/plot_\w+)\.py\)")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", lambda _, __, text: text.__setitem__(0, written(text[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def written(page: str) -> str:
    """A page with what its marks stand for."""
    page = TUTORIAL.sub(r"](generated/\1.rst)", page)
    return MARK.sub(lambda mark: globals()[mark[1]](*([mark[2]] if mark[2] else [])), page)


def quantities(key: str) -> str:
    """A row for each measure of a family, and the example of its docstring with its output."""
    family = imported("families", key)
    lines = ["| name | definition | dimensions | units | source |", "|---|---|---|---|---|"]
    for name, q in family.QUANTITIES.items():
        cells = [f"`{name}`", sign(q.long_name), ", ".join(q.dims), sign(q.units), q.source]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') or '–' for cell in cells)} |")
    return "\n".join([*example(family), *lines])


def example(family: ModuleType) -> Iterator[str]:
    """The lines of the session in the docstring of `measure`, as a block."""
    told = getattr(family, "measure", family).__doc__ or ""
    if session := re.search(r"^ *>>> .*", told, re.DOTALL | re.MULTILINE):
        yield from ("```pycon", *map(str.strip, session[0].strip().splitlines()), "```", "")


def measures() -> str:
    """A table of all measures that can be searched and sorted."""
    rows = []
    for key in sorted(keys_of("families")):
        page = f'<a href="measures/{key}.html">{key}</a>' if key != "prediction" else key
        for name, q in imported("families", key).QUANTITIES.items():
            texts = (sign(q.long_name), sign(q.units), q.source)
            cells = [f"<code>{name}</code>", page, *map(html.escape, texts)]
            rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{n}</th>" for n in ("name", "family", "in words", "units", "source"))
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    table = f"<table class='sortable searchable'>{table}"
    return f"```{{raw}} html\n<div class='wide'>{table}</div>\n```"


def sign(text: str) -> str:
    """Formulas with the signs of mathematics."""
    for plain, pretty in SIGNS.items():
        text = text.replace(plain, pretty)
    return text


def commands() -> str:
    """The help of every command, by groups."""
    os.environ["COLUMNS"] = "80"
    _, parsers = _main.parser(None)
    parts = []
    for title, names in _main.GROUPS.items():
        parts += [f"## {title}"]
        parts += [f"### {n}\n\n```text\n{parsers[n].format_help()}```" for n in names]
    return "\n\n".join(parts)


def keys() -> str:
    """What `flatlab experiments --keys` prints, a table for each section of each kind."""
    lines = []
    for kind, sections in plan.keys_of_kinds().items():
        lines += [f"## {kind}"]
        for section, rows in sections.items():
            lines += [f"### {section}", "| key | type | meaning |\n|---|---|---|"] if rows else []
            cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
            lines += ["\n".join(f"| `{name}` | {kind} | {told} |" for name, kind, told in cells)]
    text = "\n\n".join(lines)
    return text.replace("|---|\n\n|", "|---|\n|")
