"""Norms of macdonald2023: of the input-output Jacobian, of the outputs, and of the features.

J is the derivative of a sample's outputs f (the logits) with respect to its input. With
p = softmax(f) and P = diag(p) - p p^T = dp/df, the network with softmax has the Jacobian P J. Both
are exact. Of several positions, each has its softmax; of tokens, J is in their embeddings. Inputs
are those that the network sees: scaled if the grid scales its inputs.

The pair bound: a network that fits two samples with different targets has a slope between them,
|F(x1) - F(x2)| >= |y1 - y2| - e1 - e2, where F are the outputs, or their softmax for cross-entropy,
and e = sqrt((l - inf l)/c) >= |F(x) - y| follows from the loss of a sample. Somewhere on the
segment between x1 and x2 the Jacobian norm of F is at least that over |x1 - x2|: not necessarily at
the samples. Source: macdonald2023, Eq. 11, with the two losses in place of the larger one.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.isolation import is_finite
from flatlab.derivatives.jacobians.feature_maps import inputs_of_layers
from flatlab.derivatives.jacobians.golub_kahan import samples_at_a_time
from flatlab.derivatives.jacobians.norms import norms_of_layers, spectral_norm
from flatlab.derivatives.per_sample.engine import derivatives
from flatlab.derivatives.per_sample.forward_pass import EVERYTHING, Wanted
from flatlab.derivatives.per_sample.memory import RESIDUAL, accuracy_of
from flatlab.derivatives.per_sample.probe import Findings, run
from flatlab.derivatives.per_sample.singular_values import singular_values
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

BATCH = 1000
"""Samples at a time, for the features."""
LARGE = 1000
"""Outputs beyond which J J^T is there for one sample at a time, and nothing but J is computed."""
ONLY_J = Wanted(parameters=False, layers=False)

SAMPLE, LAYER, SECTION = ("sample",), ("layer",), "macdonald2023 Sec. 4"
QUANTITIES = {
    "jacobian_norm": Quantity(
        "Jacobian norm, max over the samples of ||J||_2",
        "output/input",
        SECTION,
        label="Jacobian norm",
    ),
    "softmax_jacobian_norm": Quantity(
        "Jacobian norm of the softmaxed network, max over the samples of ||P J||_2",
        "1/input",
        SECTION,
        label="softmax Jacobian norm",
    ),
    "softmax_jacobian_norm_per_sample": Quantity("||P J||_2", "1/input", SECTION, SAMPLE),
    "output_norm": Quantity(
        "Frobenius norm of the outputs of all samples", "output", "macdonald2023 App. C.1"
    ),
    "feature_norm": Quantity(
        "||X^l||_2, X^l the inputs of layer l, a row for each sample",
        "layer input",
        "macdonald2023 App. C.2",
        LAYER,
    ),
    "pair_bound": Quantity(
        "lower bound of the Lipschitz norm, max over pairs of (|y1 - y2| - e1 - e2) / |x1 - x2|",
        "target/input",
        "macdonald2023 Eq. 11",
    ),
    "pairs_below": Quantity("pairs with |F(x1) - F(x2)| < |y1 - y2| - e1 - e2"),
    "segment_norm": Quantity(
        "max of the Jacobian norm of F on the segment of the pair with the largest bound",
        "target/input",
        "macdonald2023 Sec. 5",
    ),
    "segments_below": Quantity("segments on which it stays below the pair's bound"),
}
ERRORS = {
    "norm_residual": Quantity(
        "largest relative residual |J v - sigma u| / sigma of an iteration for ||J||_2"
    )
}
"""What is beside the quantities where no J is formed."""


CHECKS = ("gradient",)
TOKENS = "embedded"


class Options(Strict, frozen=True):
    pairs: Annotated[
        int,
        means("pairs with the largest bound whose segments are examined; 0: no pair bound", ge=0),
    ] = 0
    points: Annotated[int, means("equally spaced on each segment, ends included", ge=2)] = 33
    accuracy: Annotated[
        Literal["exact", "auto"] | Annotated[float, Meta(gt=0, lt=1)],
        means("exact; a number: norms by an iteration, to a residual of 0.01; auto: that if large"),
    ] = "exact"


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All norms on one sample set.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, families="jacobian")
    >>> report["jacobian_norm"].item(), round(report["output_norm"].item() ** 2, 6)
    (2.0, 89.0)
    """
    real = samples.inputs.is_floating_point() and not samples.masks
    several = settings.loss.classes or not real
    if settings.options.pairs and several:
        raise MeasureError(
            "the pair bound is of single predictions and of distances between inputs, and these "
            "samples have several positions, or tokens; set pairs=0"
        )
    norms = _norms(model, samples.inputs, settings, settings.batch_size)
    names = norms.findings.layers
    values = {
        "jacobian_norm": norms.plain.max(),
        "softmax_jacobian_norm": norms.softmaxed.max(),
        "softmax_jacobian_norm_per_sample": norms.softmaxed,
        "output_norm": torch.linalg.vector_norm(norms.outputs.double()),
    }
    notes = {}
    if samples.padded:
        notes["jacobian_left_out"] = "feature_norm: inputs of layers are those of padding, too"
    else:
        features, _ = inputs_of_layers(model, samples.inputs, names, BATCH)
        largest = [spectral_norm(features[name]) for name in names]
        values["feature_norm"] = torch.tensor(largest, dtype=torch.float64)
    if norms.residual is not None:
        values["norm_residual"] = norms.residual
    if settings.options.pairs:
        values |= _pair_bound(model, samples, settings, norms.outputs)
    if norms.findings.embedding:
        notes["derivatives_with_respect_to"] = (
            f"the output of the embedding {norms.findings.embedding!r}; a sample is a sequence"
        )
    return Measured(values, {"layer": names}, notes, is_finite(norms.outputs))


@dataclass(frozen=True)
class JacobianNorms:
    """Norms of some samples, (samples,).

    outputs: (samples, N).
    plain: ||J||_2.
    softmaxed: ||P J||_2.
    findings: what rules cover.
    residual: the largest of an iteration; None: the norms are those of J itself.
    """

    outputs: Tensor
    plain: Tensor
    softmaxed: Tensor
    findings: Findings
    residual: Tensor | None


def _norms(
    model: nn.Module, inputs: Tensor, settings: Settings, size: int | None = None
) -> JacobianNorms:
    """Exact, or by an iteration.  inputs: (samples, ...).  size: samples at a time."""
    budget, findings = settings.budget, settings.findings(model, inputs)
    if accuracy_of(settings.options.accuracy, findings, inputs, budget) is None:
        return _exact_norms(model, inputs, settings, size)
    by_position = nn.Unflatten(1, (-1, settings.loss.classes or findings.outputs))
    with_softmax = nn.Sequential(model, by_position, nn.Softmax(2), nn.Flatten())
    both = []
    for network in (model, with_softmax):  # d softmax(f)/dx = P J
        fitting = size or samples_at_a_time(network, inputs, budget)
        how: dict[str, Any] = {"layers": [], "residual": RESIDUAL, "size": fitting}
        steps = 20 * -(-len(inputs) // fitting)
        with ProgressBar("Jacobian norms", steps, settings.progress) as bar:
            how |= {"seed": settings.seed, "tick": bar.tick}
            both.append(norms_of_layers(network, inputs, findings, **how))
    with torch.no_grad():
        outputs = torch.cat([run(model, batch) for batch in inputs.split(fitting)])
    residual = torch.stack([norms.residuals.max() for norms in both]).max()
    plain, softmaxed = (norms.values[:, 0] for norms in both)
    return JacobianNorms(outputs, plain, softmaxed, findings, residual)


def _exact_norms(
    model: nn.Module, inputs: Tensor, settings: Settings, size: int | None
) -> JacobianNorms:
    """From J itself; sample by sample where J J^T is large."""
    with torch.no_grad():
        large = run(model, inputs[:1]).shape[1] > LARGE
    how: dict[str, Any] = {"batch_size": size, "budget": settings.budget, "adaptive": False}
    how |= {"wanted": ONLY_J if large else EVERYTHING, "progress": settings.progress}
    how["findings"] = None if large else settings.findings(model, inputs, checked=True)
    parts = []
    for batch in inputs.split(1) if large else [inputs]:
        exact = derivatives(model, batch, **how)
        with torch.no_grad():
            softmaxed = softmax_norms(exact.outputs, exact.gram, settings.loss.classes)
        parts.append((exact.outputs, exact.singular[:, 0], softmaxed))
    outputs, plain, softmaxed = map(torch.cat, zip(*parts, strict=True))
    return JacobianNorms(outputs, plain, softmaxed, exact.findings, None)


def _pair_bound(
    model: nn.Module, samples: SampleSet, settings: Settings, outputs: Tensor
) -> dict[str, Tensor]:
    """Over all pairs of samples with different targets; zero pairs have a bound of -inf."""
    options: Options = settings.options
    outputs = outputs.double()
    targets = samples.targets_for(outputs.shape[1]).double()
    try:
        predicted, wanted, allowed = settings.loss.within(outputs, targets)
    except NotImplementedError:
        name = type(settings.loss).__module__.rpartition(".")[2].replace("_", "-")
        raise MeasureError(f"the pair bound has no form for the loss {name}; set pairs=0") from None
    x = samples.numbers.double()
    first, second = torch.triu_indices(len(x), len(x), 1, device=x.device)
    apart = torch.pdist(wanted) > 0
    first, second = first[apart], second[apart]
    least = torch.pdist(wanted)[apart] - allowed[first] - allowed[second]
    slack = 1e-9 * torch.pdist(wanted)[apart]  # for rounding
    below = torch.pdist(predicted)[apart] < least - slack
    bounds = least / torch.pdist(x)[apart]
    chosen = bounds.argsort(descending=True)[: options.pairs]
    softmaxed = predicted is not outputs
    ends = torch.stack([first, second], 1)[chosen]
    norms = [_norm_on_segment(model, samples.inputs[pair], settings, softmaxed) for pair in ends]
    largest = torch.stack(norms) if norms else bounds.new_full((1,), torch.nan)
    return {
        "pair_bound": bounds.max() if len(bounds) else bounds.new_tensor(-torch.inf),
        "pairs_below": below.sum(),
        "segment_norm": largest[0],
        "segments_below": (largest < bounds[chosen]).sum() if norms else bounds.new_zeros(()),
    }


def _norm_on_segment(model: nn.Module, ends: Tensor, settings: Settings, softmaxed: bool) -> Tensor:
    """The largest Jacobian norm at some points between two samples, (2, ...)."""
    points = settings.options.points
    shares = torch.linspace(0, 1, points).to(ends).view(-1, *[1] * (ends.ndim - 1))
    norms = _norms(model, torch.lerp(ends[:1], ends[1:], shares), settings)
    return (norms.softmaxed if softmaxed else norms.plain).max()


def softmax_norms(outputs: Tensor, gram: Tensor, classes: int = 0) -> Tensor:
    """||P J||_2 of each sample, from P (J J^T) P.

    outputs: (samples, N).  gram: J J^T.  classes: of a position; 0: there is one position.
    """
    p = outputs.double().unflatten(1, (-1, classes or outputs.shape[1])).softmax(2)
    of_positions = p.diag_embed() - p[..., :, None] * p[..., None, :]
    slope = torch.stack([torch.block_diag(*blocks) for blocks in of_positions])
    return singular_values(slope @ gram @ slope)[:, 0]
