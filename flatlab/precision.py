"""The precision of float32 products, whichever of torch's two sets of flags a program uses."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch


@contextmanager
def float32_products(tf32: bool = False) -> Iterator[None]:
    """Full precision for float32 matrix products and convolutions, or TF32 for those of a GPU.

    torch has an old and a new set of flags and raises an error where the old ones are read after
    the new ones were used. The old ones are set if they can be read, so that they can be read
    inside, then the new ones where they still differ. All are as before afterwards.
    """
    backends: Any = torch.backends
    on_gpu = backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn
    on_cpu = backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn
    full, reduced = ("ieee", "none"), ("tf32",)
    with ExitStack() as undo:
        for kind in (*on_gpu, *on_cpu):  # undone last, because the old flags set these too
            undo.callback(_set, kind, (kind.fp32_precision,))
        with suppress(RuntimeError):
            matmul = torch.get_float32_matmul_precision()
            if matmul != "highest":  # setting it again would count as a use of the old flags
                undo.callback(torch.set_float32_matmul_precision, matmul)
                torch.set_float32_matmul_precision("highest")
        for holder in (backends.cudnn, backends.cuda.matmul):
            with suppress(RuntimeError):
                if (before := holder.allow_tf32) != tf32:
                    undo.callback(setattr, holder, "allow_tf32", before)
                    holder.allow_tf32 = tf32
        for kind in on_gpu:
            _set(kind, reduced if tf32 else full)
        for kind in on_cpu:
            _set(kind, full)
        yield


def _set(kind: Any, allowed: tuple[str, ...]) -> None:
    """Set a flag to the first value unless it has one of them: "none" follows later settings."""
    if kind.fp32_precision not in allowed:
        kind.fp32_precision = allowed[0]
