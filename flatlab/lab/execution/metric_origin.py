"""Whether metric files belong to the table that they are joined into.

Files that were restored, or made on another machine, are taken as they are: their settings are not
compared by Snakemake, which knows only of jobs that it ran itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatlab.core import store
from flatlab.lab import plan


def check_data(paths: Iterable[str], about: Mapping[str, Any]) -> None:
    """Raise `StoreError` if a metric file of a grid was measured on other data than its table says.

    paths: metric files; one without a record beside it is not checked.  about: the attributes of
    the table.
    """
    if "network" not in about:  # of a zoo or a simulation
        return
    for path in paths:
        record = plan.record_of(path)
        if not record.is_file():
            continue
        key = store.load_json(record)["settings"]["data"]["set"]
        if key not in about["data"].split(" and "):
            raise store.StoreError(
                f"{path} was measured on {key}, this run is of {about['data']}; with "
                f"stand_ins: {{{about['data']}: {key}}} in config.yaml it is used, and named so; "
                "delete it to measure anew"
            )


def check_weights(paths: Iterable[str]) -> None:
    """Raise `StoreError` if two families of a pack were measured on different weights.

    Networks that are trained again on another machine differ from the first step on whose last bits
    differ: a row of such a table would be of two networks.

    paths: metric files; one whose record does not name its weights is not checked.
    """
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for path in map(Path, paths):
        record = plan.record_of(path)
        inputs = store.load_json(record)["inputs"] if record.is_file() else {}
        for weights, digest in inputs.items():
            if not (digest and weights.endswith(".safetensors")):
                continue
            other, known = first.setdefault((path.name, Path(weights).name), (str(path), digest))
            if known != digest:
                raise store.StoreError(
                    f"{other} and {path} were measured on different weights of this pack, which "
                    "was trained twice; delete the older one to measure it anew"
                )
