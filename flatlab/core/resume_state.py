"""What an interrupted job leaves for its next attempt.

It lies beside the outputs but is not one of them: Snakemake deletes the outputs of a failed job.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flatlab.core.store import StoreError, load_weights, save_weights

Content = tuple[dict[str, np.ndarray], dict[str, Any]]
"""Arrays by name, and their description."""


class ResumeState:
    """A folder of named arrays with descriptions; each file is written in one step.

    identity: everything that the job depends on, as JSON. Files that another identity has left, or
    that cannot be read, are ignored.
    """

    def __init__(self, folder: str | Path, identity: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        text = json.dumps(identity, sort_keys=True, default=str)
        self.identity = hashlib.sha256(text.encode()).hexdigest()

    def save(self, name: str, arrays: dict[str, np.ndarray], about: Mapping[str, Any]) -> None:
        save_weights(self._path(name), arrays, {"identity": self.identity, **about})

    def load(self, name: str) -> Content | None:
        """The arrays and the description saved under a name, or None."""
        try:
            arrays, about = load_weights(self._path(name))
        except StoreError:
            return None
        return (arrays, about) if about.pop("identity", None) == self.identity else None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"
