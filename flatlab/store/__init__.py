"""The one place that reads and writes result files, and what every job does around them."""

from flatlab.store.files import (
    STORE_VERSION,
    StoreError,
    as_strings,
    load_dataset,
    load_json,
    load_weights,
    rebuild,
    save_dataset,
    save_json,
    save_weights,
)
from flatlab.store.guard import Guard
from flatlab.store.job import job, task
from flatlab.store.unfinished import Unfinished

__all__ = [
    "STORE_VERSION",
    "Guard",
    "StoreError",
    "Unfinished",
    "as_strings",
    "job",
    "load_dataset",
    "load_json",
    "load_weights",
    "rebuild",
    "save_dataset",
    "save_json",
    "save_weights",
    "task",
]
