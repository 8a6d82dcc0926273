"""The bound of Ma and Ying (2021) on sensitivity by sharpness, which chen2026 improves.

With the weights W of the first layer and the smallest norm of an input, for any k > 0,

    mean |df/dx|_2^k <= mean |df/dx|_F^k <= |W|_2^k / min |x|^k mean |df/dW|_F^k
                     <= |W|_2^k / min |x|^k mean |df/dtheta|_F^k    chen2026 Eq. 6, chen2024 Eq. 7

chen2024 has |W|_F in its Eq. 6, and bounds the volume by it (Eq. 12). All of these are given with
the k-th root, so that they are in the units of sensitivity; for k = 2 the last mean is sharpness.
chen2026 replaces the minimum by a mean over the samples (bound D of `geometry`). They are theorems
where the first layer is linear and sees each input once; of a convolution |W|_2 is that of its
matrix, and they are proxies.
"""

import math

import torch
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.derivatives.jacobians.norms import known, spectral_norm
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, chen2026

CHECKS = ("gradient",)
POWERS = (1.0, 2.0)
DIMS = ("power",)
UNITS = "output/input"
QUANTITIES = {
    "smallest_input_norm": chen2026("min |x| over the samples", "input", "Eq. 6"),
    "sensitivity_by_power": chen2026("(mean |df/dx|_2^k)^(1/k)", UNITS, "Eq. 6", DIMS),
    "frobenius_by_power": chen2026("(mean |df/dx|_F^k)^(1/k)", UNITS, "Eq. 6", DIMS),
    "ma_ying_first_layer": chen2026(
        "|W|_2 / min |x| (mean |df/dW|_F^k)^(1/k), W of the first layer", UNITS, "Eq. 6", DIMS
    ),
    "ma_ying_bound": chen2026(
        "|W|_2 / min |x| (mean |df/dtheta|_F^k)^(1/k)",
        UNITS,
        "Eq. 6",
        DIMS,
        label="Ma and Ying's bound",
    ),
    "ma_ying_bound_frobenius": Quantity(
        "|W|_F / min |x| (mean |df/dtheta|_F^k)^(1/k)", UNITS, "chen2024 Eq. 6", DIMS
    ),
    "ma_ying_log_volume_bound": Quantity(
        "log of n^max(N/2 - 1, 0) (|W|_F / min |x|)^N (S/N)^(N/2), bound of the mean volume",
        "1",
        "chen2024 Eq. 12",
    ),
}


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All quantities on one sample set; infinite bounds if an input is zero.

    Raises `MeasureError` for a network without a linear or convolution layer.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    <All keys matched successfully>
    >>> x = torch.tensor([[3.0, 4.0], [4.0, 0.0]])
    >>> report = flatlab.measure(network, x, families="ma-ying")
    >>> bound = report["ma_ying_bound"].sel(power="2").item()
    >>> round(bound**2, 6)  # (2 / 4)^2 times sharpness, 41
    10.25
    """
    exact = derivatives(
        model,
        samples.inputs,
        adaptive=False,
        loss=settings.loss,
        batch_size=settings.batch_size,
        budget=settings.budget,
        progress=settings.progress,
        findings=settings.findings(model, samples.inputs),
    )
    if not exact.layers:
        raise MeasureError(
            "Ma and Ying's bound needs a first layer, and this network calls none as a module"
        )
    first = exact.layers[0]
    largest = known(settings.norms, first.name, lambda: spectral_norm(first.weight))
    smallest = float(exact.x2.double().amin().sqrt())
    factor, wide = (
        norm / smallest if smallest else math.inf
        for norm in (largest, float(torch.linalg.matrix_norm(first.weight.double())))
    )
    frobenius = torch.linalg.vector_norm(exact.singular, dim=1)
    sharp, of_first = (each.double().sqrt() for each in (exact.sharpness, first.weight2))
    count, outputs = exact.outputs.shape
    values = {
        "sensitivity_by_power": _roots(exact.singular[:, 0]),
        "frobenius_by_power": _roots(frobenius),
        "ma_ying_first_layer": factor * _roots(of_first),
        "ma_ying_bound": factor * _roots(sharp),
        "ma_ying_bound_frobenius": wide * _roots(sharp),
    }
    volume = outputs / 2 * (sharp.square().mean() / outputs).log() + outputs * math.log(wide)
    volume = volume + max(outputs / 2 - 1, 0) * math.log(count)
    finite = exact.findings.finite and bool(sharp.isfinite().all() & frobenius.isfinite().all())
    values |= {"smallest_input_norm": torch.tensor(smallest), "ma_ying_log_volume_bound": volume}
    if not finite:
        values = {name: torch.full_like(value, torch.nan) for name, value in values.items()}
    return Measured(values, {"power": [f"{power:g}" for power in POWERS]})


def _roots(norms: Tensor) -> Tensor:
    """(mean of the k-th powers)^(1/k) over the samples, for each k."""
    return torch.stack([norms.double().pow(k).mean().pow(1 / k) for k in POWERS])
