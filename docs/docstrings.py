"""A Sphinx extension: descriptions of arguments in docstrings, `name: text`, become a list.

Each starts a line, or follows two spaces, and ends where the next one or another paragraph starts.
"""

import inspect
import re
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", lambda *found: listed(found[3], found[5]))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def listed(documented: Any, lines: list[str]) -> None:
    """Change the lines of the docstring of a function or class in place."""
    if not callable(documented):
        return
    try:
        names = list(inspect.signature(documented).parameters)
    except ValueError:  # of classes written in C
        return
    paragraphs, fields = [], []
    start = rf"(?:^|\n|  )({'|'.join(names) or '$.'}): "
    for paragraph in "\n".join(lines).split("\n\n"):
        before, *described = re.split(start, paragraph)
        paragraphs += [before] if before.strip() else []
        for name, text in zip(described[::2], described[1::2], strict=True):
            text, *after = text.split(".  ", 1)  # what follows two spaces is of no argument
            fields.append(f":param {name}: {' '.join(text.split())}")
            paragraphs += after
    lines[:] = "\n\n".join([*paragraphs, "\n".join(fields)]).split("\n")
