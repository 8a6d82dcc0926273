"""Result files: single files, deterministic, with a hash that is checked whenever they are read.

Tables of numbers are `.zarr.zip` (zarr version 3 in an uncompressed zip archive with sorted names
and fixed dates), weights are `.safetensors`. Equal content gives equal bytes. The hash of a
`.zarr.zip` is the archive's comment and covers every byte before it; the hash of weights is in the
file's metadata and covers names, types, shapes and values.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flatlab.core.paths import PUBLISHED, RESULTS
from flatlab.core.schema import SCALES, Refusal

if TYPE_CHECKING:  # a second to import, for commands that read no table
    import xarray as xr

STORE_VERSION = 1
"""To be increased when the layout of the files changes; older files are then refused."""

_MARK = b"sha256:"
_COMMENT = len(_MARK) + 64
_OTHER_HASH = "its content does not match its hash"


class StoreError(Refusal, RuntimeError):
    """A result file that cannot be used; the message names it and the remedy."""


def replace(path: str | Path, content: bytes) -> None:
    """Write a file in one step: readers see either the old or the new content, never a part."""
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with readable_os_errors(path, len(content)):
            temporary.write_bytes(content)
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and its parents."""
    with readable_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def readable_os_errors(path: Path, size: int = 0) -> Iterator[None]:
    """Raise a sentence with the remedy for known errors of the file system; pass on the others."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"the disk is full ({size:,} bytes do not fit); make room, or keep fewer "
            reason += "weights: checkpoints.dense of the grid"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason = "no permission to write; change the owner or the permissions of its folder"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            reason = "a file is where a folder should be, or the reverse"
        else:
            raise
        raise StoreError(f"{path}: {reason}") from None


def as_strings(values: list[str]) -> np.ndarray:
    """Text for a dataset, as objects: zarr 3 has no stable format for fixed-length text."""
    return np.array(values, dtype=object)


def check_ending(path: str | Path | None, what: str) -> None:
    """Raise `StoreError` for a file of another name than those of datasets."""
    if path and not str(path).endswith(".zarr.zip"):
        raise StoreError(f"{path}: {what} is a .zarr.zip file")


def save_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write a dataset as a deterministic `.zarr.zip`."""
    from zarr.storage import MemoryStore

    dataset = dataset.assign_attrs(store_version=STORE_VERSION)
    files: dict[str, Any] = {}
    dataset.to_zarr(MemoryStore(files), mode="w", zarr_format=3, consolidated=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files, key=lambda name: name.split("/")):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix, also when written elsewhere
            archive.writestr(entry, files[name].to_bytes())
        archive.comment = _MARK + b"0" * 64
    content = buffer.getvalue()[:-_COMMENT]
    replace(path, content + _MARK + hashlib.sha256(content).hexdigest().encode())


def load_dataset(path: str | Path) -> xr.Dataset:
    """Read a dataset into memory; raise `StoreError` if its content does not match its hash."""
    import xarray as xr
    from zarr.storage import ZipStore

    content = _bytes(path)
    body, mark = content[:-_COMMENT], content[-_COMMENT:]
    if mark != _MARK + hashlib.sha256(body).hexdigest().encode():
        foreign = not mark.startswith(_MARK)
        why = "it is incomplete, or flatlab did not write it" if foreign else _OTHER_HASH
        raise _damaged(path, why)
    with ZipStore(Path(path), mode="r") as store:
        dataset = xr.open_zarr(store, consolidated=False, chunks=None).load()
    _check_version(path, dataset.attrs.pop("store_version", None))
    names = sorted(map(str, dataset.data_vars))  # archives list them in no fixed order
    return dataset[names].assign_coords(dataset.coords)  # some are on axes of their own


def hash_of(path: str | Path) -> str:
    """The hash that a `.zarr.zip` or `.safetensors` carries, without checking it; "" if none."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError), open(path, "rb") as file:
        if Path(path).suffix == ".safetensors":
            length = min(int.from_bytes(file.read(8), "little"), os.stat(path).st_size)
            return str(_description(file.read(length))["sha256"])
        file.seek(-_COMMENT, os.SEEK_END)
        if (mark := file.read()).startswith(_MARK):
            return mark.removeprefix(_MARK).decode(errors="replace")
    return ""


def save_weights(
    path: str | Path, tensors: dict[str, np.ndarray], about: dict[str, Any] | None = None
) -> None:
    """Write arrays and a description of them (JSON) as `.safetensors`."""
    from safetensors.numpy import save

    tensors = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    description = {"about": about or {}, "store_version": STORE_VERSION, "sha256": _digest(tensors)}
    # A single key: the library writes several keys in an order that differs between processes.
    replace(path, save(tensors, {"flatlab": json.dumps(description, sort_keys=True)}))


def _description(header: bytes) -> dict[str, Any]:
    """What the header of a `.safetensors` says of its tensors together."""
    description: dict[str, Any] = json.loads(json.loads(header)["__metadata__"]["flatlab"])
    return description


def load_weights(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and their description; raise `StoreError` if they do not match their hash."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _bytes(path)
    try:
        tensors = load(content)
        description = _description(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except KeyError:
        raise StoreError(f"{path} holds weights that flatlab did not write") from None
    except (SafetensorError, ValueError) as error:
        raise _damaged(path, "not a weights file") from error
    if description.get("sha256") != _digest(tensors):
        raise _damaged(path, _OTHER_HASH)
    _check_version(path, description["store_version"])
    return dict(sorted(tensors.items())), description["about"]


class TrainedPack(NamedTuple):
    """The networks of one file of weights: those of each run at each step that was kept.

    arrays: tensors of the state dictionary by name, (runs, checkpoints, ...).
    about: description of the file: `runs`, their keys; `iterations`, the steps at which all runs
        were kept; and, where the file has it, `fitted`: for each run its own step, at which it
        first fitted the training set, or None. `fitted` is one checkpoint more, the last along the
        axis of checkpoints; the arrays of a run without such a step are NaN there.
    """

    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> TrainedPack:
        """Read a file of weights; `StoreError` if it is damaged or holds no trained networks."""
        arrays, about = load_weights(path)
        if "runs" not in about:
            where = "packs are in results/<scale>/models"
            raise StoreError(f"{path} holds no trained networks; {where}")
        return cls(arrays, about)

    @property
    def runs(self) -> list[str]:
        """The keys of the networks, in the order of the first axis."""
        return list(self.about["runs"])

    def steps(self, run: str) -> list[int]:
        """The steps at which a run was kept: those of all runs, then the one of its first fit."""
        return list(self._slots(run))

    def state(self, run: str, step: int | None = None) -> dict[str, np.ndarray]:
        """The state dictionary of a run.  step: one of `steps`; None: the last one of all runs."""
        slot = self._slots(run)[self.about["iterations"][-1] if step is None else step]
        row = self.runs.index(run)
        return {name: array[row, slot, ...] for name, array in self.arrays.items()}

    def first(self, count: int | None) -> TrainedPack:
        """The first `count` runs alone; None: all of them."""
        by_run = {k: v[:count] for k, v in self.about.items() if k in _DESCRIBES_RUNS}
        arrays = {name: array[:count] for name, array in self.arrays.items()}
        return TrainedPack(arrays, {**self.about, **by_run})

    def _slots(self, run: str) -> dict[int, int]:
        """Along the axis of checkpoints, by step; the first fit may be at a step of all runs."""
        slots = {step: slot for slot, step in enumerate(self.about["iterations"])}
        fitted = self.about["fitted"][self.runs.index(run)] if "fitted" in self.about else None
        return slots if fitted is None else {**slots, fitted: len(slots)}


_DESCRIBES_RUNS = ("runs", "steps", "ended", "lr", "fitted")
"""Entries of the description of a pack that have a value for each run."""


def save_json(path: str | Path, content: Any) -> None:
    """Write JSON with sorted keys; non-finite numbers become null."""
    text = json.dumps(_finite(content), indent=1, sort_keys=True, ensure_ascii=False)
    replace(path, f"{text}\n".encode())


def load_json(path: str | Path) -> Any:
    """Read JSON; raise `StoreError` if the file is not valid JSON."""
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise _damaged(path, "not JSON") from error


def _damaged(path: str | Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged ({why}); {_remedy(path, 'rebuild')}")


def _remedy(path: str | Path, verb: str) -> str:
    """How to get a file: from version control, by its rule, or, if it is no result, by its owner.

    verb: `build` if the file is missing, `rebuild` if it is there.
    """
    if PUBLISHED.as_posix() in f"{path}":
        return f"get it back with: git checkout -- {path}"
    if re.search(rf"\b{RESULTS}/(redrawn/)?({'|'.join(SCALES)})/", f"{path}"):
        force = "--force " if verb == "rebuild" else ""
        return f"{verb} it with: snakemake {force}{path}"
    return "no rule makes it: make it anew, or get it back from where it was copied"


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; {_remedy(path, 'build')}") from None


def _check_version(path: str | Path, version: Any) -> None:
    if version != STORE_VERSION:
        raise StoreError(
            f"{path} has format {version}, but this version of flatlab reads {STORE_VERSION}; "
            f"{_remedy(path, 'rebuild')}"
        )


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
