"""The GPU of this machine; where there is none, the CPU with streams and graphs that are fakes."""

import pytest
import torch

from tests.gpu.fake import fake_gpu


@pytest.fixture
def gpu():
    if torch.cuda.is_available():
        yield torch.device("cuda")
    else:
        with fake_gpu():
            yield torch.device("cpu")


@pytest.fixture
def real(gpu):
    if gpu.type == "cpu":
        pytest.skip("needs a GPU: memory and processes of their own have no fake")
    return gpu
