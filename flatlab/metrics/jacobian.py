"""Norms of macdonald2023: of the input-output Jacobian, of the outputs, and of the features.

J is the derivative of a sample's outputs f (the logits) with respect to its input. With
p = softmax(f) and P = diag(p) - p p^T = dp/df, the network with softmax has the Jacobian P J. Both
are exact. Inputs are those that the network sees: scaled if the grid scales its inputs.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from flatlab.derivatives import derivatives
from flatlab.derivatives.norms import spectral_norm
from flatlab.derivatives.probe import run
from flatlab.derivatives.record import recorded
from flatlab.derivatives.spectra import singular_values
from flatlab.metrics import Measured, Quantity, Samples, Settings

BATCH = 1000
"""Samples at a time, for the features."""

SAMPLE, LAYER = ("sample",), ("layer",)
QUANTITIES = {
    "jacobian_norm": Quantity(
        "Jacobian norm, max over the samples of ||J||_2", "output/input", "macdonald2023 Sec. 4"
    ),
    "softmax_jacobian_norm": Quantity(
        "Jacobian norm of the softmaxed network, max over the samples of ||P J||_2",
        "1/input",
        "macdonald2023 Sec. 4",
    ),
    "softmax_jacobian_norm_per_sample": Quantity(
        "||P J||_2", "1/input", "macdonald2023 Sec. 4", SAMPLE
    ),
    "output_norm": Quantity(
        "Frobenius norm of the outputs of all samples", "output", "macdonald2023 App. C.1"
    ),
    "feature_norm": Quantity(
        "||X^l||_2, X^l the inputs of layer l, a row for each sample",
        "layer input",
        "macdonald2023 App. C.2",
        LAYER,
    ),
}


def measure(model: nn.Module, samples: Samples, settings: Settings) -> Measured:
    """All norms on one sample set."""
    found = derivatives(model, samples.inputs, adaptive=False, batch_size=settings.batch_size)
    names = [layer.name for layer in found.layers]
    with torch.no_grad():
        softmaxed = softmax_norms(found.outputs, found.gram)
    features = _features(model, samples.inputs, found.findings.modules)
    largest = [spectral_norm(features[name]) for name in names]
    values = {
        "jacobian_norm": found.singular[:, 0].max(),
        "softmax_jacobian_norm": softmaxed.max(),
        "softmax_jacobian_norm_per_sample": softmaxed,
        "output_norm": torch.linalg.vector_norm(found.outputs.double()),
        "feature_norm": torch.tensor(largest, dtype=torch.float64),
    }
    return Measured(values, {"layer": names})


def softmax_norms(outputs: Tensor, gram: Tensor) -> Tensor:
    """||P J||_2 of each sample, from P (J J^T) P.  outputs: (samples, N).  gram: J J^T."""
    p = outputs.double().softmax(1)
    slope = p.diag_embed() - p[:, :, None] * p[:, None, :]
    return singular_values(slope @ gram @ slope)[:, 0]


def _features(
    model: nn.Module, inputs: Tensor, modules: Mapping[str, nn.Module]
) -> dict[str, Tensor]:
    """The input of each layer, (samples, numbers); inputs of several uses are concatenated."""
    parts: dict[str, list[Tensor]] = {}
    for chunk in inputs.split(BATCH):
        with recorded(modules) as uses:
            run(model, chunk)
        for name in {use.name for use in uses}:
            inputs_of_uses = [use.x.reshape(len(chunk), -1) for use in uses if use.name == name]
            parts.setdefault(name, []).append(torch.cat(inputs_of_uses, 1))
    return {name: torch.cat(rows) for name, rows in parts.items()}
