"""The refusal of a measurement, and what errors of torch mean."""

import torch

MIXES = (
    "the outputs of one sample depend on another sample of the batch; nothing per sample is "
    "defined. If a layer uses statistics of the batch, call model.eval()"
)


class MeasureError(RuntimeError):
    """The network cannot be measured exactly; the message says why and what to do."""


def first_line(error: Exception) -> str:
    """What an error of torch says, without its hints."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory does not suffice."""
    return any(
        sign in str(error) for sign in ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")
    )


def is_device_failure(error: Exception) -> bool:
    """Whether a GPU has failed, and not for lack of memory: nothing works in this process then."""
    signs = "CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS"
    failed = isinstance(error, torch.AcceleratorError) or any(s in str(error) for s in signs)
    return failed and not is_out_of_memory(error)
