"""What figures call a quantity: the `label` of its definition.

It is read from the syntax of the families' files, which planning does not import, and enters the
settings of the figures that show the quantity. So it holds for tables of any age.
"""

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from flatlab.core.registry import PACKAGE, assignments
from flatlab.core.studies import places, studies


def labels_of(columns: Iterable[str]) -> dict[str, str]:
    """The labels of columns, without those that are no quantity, or part of one, with a label."""
    known = _labels(*studies().values())
    labels = {column: known.get(column.partition("[")[0]) for column in columns}
    return {column: label for column, label in labels.items() if label}


@functools.cache
def _labels(*_of_studies: Path) -> dict[str, str]:
    """All labels by quantity: the keywords `label` in the families' dictionaries of quantities."""
    labels = {}
    folders = (PACKAGE / "metrics", *places("metrics"))
    for path in [path for folder in folders for path in sorted(folder.rglob("*.py"))]:
        for table in assignments(path).values():
            entries = (
                zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
            )
            for key, call in entries:
                for each in getattr(call, "keywords", ()):
                    if each.arg == "label" and isinstance(key, ast.Constant):
                        labels[str(key.value)] = ast.literal_eval(each.value)
    return labels
