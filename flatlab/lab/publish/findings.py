"""FINDINGS.md, rendered from `report/findings.md`: a text in which every number is looked up."""

import math
import traceback
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from flatlab.core import store
from flatlab.lab.publish import look_ups, networks
from flatlab.stats.correlation import KINDS
from flatlab.stats.verdict import LEVEL

TEMPLATE = Path("report/findings.md")
PAGE = Path("FINDINGS.md")
MINUS = "\N{MINUS SIGN}"
LOOK_UPS = (
    *("table", "verdict", "claims", "evidence", "cell", "cells", "estimate", "sides", "over"),
    *("median", "published"),
)


def render() -> str:
    """The text of FINDINGS.md. Raises `StoreError` with the line where a look-up finds nothing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader("."),
        undefined=jinja2.StrictUndefined,
        finalize=as_text,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["decimals"] = as_text
    environment.globals.update({name: getattr(look_ups, name) for name in LOOK_UPS})
    environment.globals.update(kinds=KINDS, level=LEVEL)
    try:
        return environment.get_template(TEMPLATE.as_posix()).render()
    except jinja2.TemplateNotFound:
        remedy = "run flatlab in the project's folder"
        raise store.StoreError(f"{TEMPLATE} does not exist; {remedy}") from None
    except jinja2.TemplateSyntaxError as error:
        raise store.StoreError(f"{TEMPLATE}:{error.lineno}: {error.message}") from None
    except (store.StoreError, jinja2.UndefinedError) as error:
        raise store.StoreError(f"{TEMPLATE}:{_line(error)}: {error}") from None


def as_text(value: Any, decimals: int = 2) -> Any:
    """A number as it is printed: 0.89, −0.43 [−0.72, −0.04], 60,000; text is left as it is."""
    if isinstance(value, networks.Interval):
        number, low, high = (as_text(part, decimals) for part in value)
        ends = f"[{low}, {high}]" if math.isfinite(value.low + value.high) else "(no interval)"
        return f"{number} {ends}" if math.isfinite(value.value) else number
    if isinstance(value, int | np.integer):
        text = f"{value:,}"
    elif not isinstance(value, float):
        return value
    elif not math.isfinite(value):
        return "undefined"
    else:
        text = f"{value:,.{decimals}f}"
        text = text if text.strip("-0.,") else text.lstrip("-")
    return text.replace("-", MINUS)


def _line(error: Exception) -> int:
    """The line of the template that asked for what raised an error."""
    frames = traceback.walk_tb(error.__traceback__)
    return next(line for frame, line in frames if frame.f_code.co_filename.endswith(TEMPLATE.name))
