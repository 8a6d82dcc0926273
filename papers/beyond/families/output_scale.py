"""The scale of the outputs, and what sharpness and sensitivity are without it.

f / sd f, with the standard deviation over the outputs of a sample, has no scale, and that of
softmax f is bounded: S and MLS of these maps of the same weights and inputs.
"""

import torch
from torch import Tensor, nn

from flatlab.core.schema import Strict
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

CHECKS = ("gradient",)
DIMS = ("map",)
QUANTITIES = {
    "log_output_deviation": Quantity(
        "mean over samples of the log of the standard deviation over the outputs",
        "ln",
        "",
        label="log sd $f$",
    ),
    "mapped_root_sharpness": Quantity(
        "sqrt(S) of f / sd f and of softmax f", "1/parameter", "chen2026 Eq. 3", DIMS
    ),
    "mapped_mls": Quantity("MLS of the same", "1/input", "chen2026 Def. 3.7", DIMS),
}


class Normalized(nn.Module):
    """f / sd f; not finite where all outputs are the same."""

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs / outputs.std(-1, correction=0, keepdim=True)


MAPS: dict[str, nn.Module] = {"normalized": Normalized(), "softmax": nn.Softmax(-1)}


class Options(Strict, frozen=True):
    pass


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All three.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(1, 2, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[2.0], [-2.0]])})
    <All keys matched successfully>
    >>> report = flatlab.measure(network, torch.tensor([[1.0]]), families="output-scale")
    >>> round(report["log_output_deviation"].item(), 6)  # ln 2, of 2 and -2
    0.693147
    >>> report["mapped_mls"].values.round(3).tolist()  # whatever x is; of softmax
    [0.0, 0.1]
    """
    findings = settings.findings(model, samples.inputs)
    pairs = []
    for output_map in MAPS.values():
        exact = derivatives(
            nn.Sequential(model, output_map),
            samples.inputs,
            adaptive=False,
            batch_size=settings.batch_size,
            budget=settings.budget,
        )
        pairs.append([exact.sharpness.double().mean().sqrt(), exact.singular[:, 0].mean()])
    with torch.no_grad():
        deviation = model(samples.inputs).double().std(-1, correction=0)
    found = torch.tensor(pairs, dtype=torch.float64)
    values = {"log_output_deviation": deviation.log().mean()}
    values |= dict(zip(("mapped_root_sharpness", "mapped_mls"), found.T, strict=True))
    if not findings.finite:
        values = {name: torch.full_like(value, torch.nan) for name, value in values.items()}
    return Measured(values, {"map": [*MAPS]})
