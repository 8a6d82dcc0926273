"""Eigenvalues at both ends of the spectra of second derivatives, and spectral densities.

Of four matrices of the mean loss (the sum, for a loss that is one) in the trainable parameters: its
Hessian H; the Gauss-Newton matrix G = mean J^T (d^2 loss/df^2) J; the Fisher matrix, which is G if
the loss is a negative log-likelihood, and is refused for other losses; and the empirical Fisher
matrix, mean g g^T of the gradients g of single samples. They are measured in all trainable
parameters together, or in blocks of these, with what is outside a block held fixed.

Eigenvalues come with their residuals, each as often as it occurs. The density is that of stochastic
Lanczos quadrature: the mean over random starts, with its standard error.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import field
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.isolation import batch_norm
from flatlab.derivatives.second_order.hessian_products import Product, trainable
from flatlab.derivatives.second_order.lanczos import Eigenpairs, density, quadrature, random_start
from flatlab.derivatives.second_order.matrices import Matrix, matrix_of
from flatlab.families.hessian import TYPICAL, UNITS, batches_of, counted
from flatlab.inputs.loss_forms import OfPositions
from flatlab.inputs.prepare import only
from flatlab.losses import cross_entropy, half_mse, logistic
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

TOKENS = True
CHECKS = ("gradient", "hessian", "gauss-newton")
NETWORK = "network"
"""The name of the block of all trainable parameters."""
LIKELIHOODS = (cross_entropy.Loss, half_mse.Loss, logistic.Loss)
"""Losses that are negative log-likelihoods of outputs, but for a constant."""

WHERE = ("block", "matrix")
LARGEST, SMALLEST, DENSITY = (*WHERE, "rank"), (*WHERE, "rank_from_below"), (*WHERE, "point")
SLQ = "Ubaru, Chen and Saad (2017)"
QUANTITIES = {
    "largest_eigenvalue": Quantity("largest eigenvalues, descending", UNITS, dims=LARGEST),
    "largest_residual": Quantity("|A v - lambda v| of these, |v| = 1", UNITS, dims=LARGEST),
    "largest_converged": Quantity("whether these residuals are small enough", dims=LARGEST),
    "largest_eigenvector": Quantity("v of these", dims=(*LARGEST, "parameter")),
    "smallest_eigenvalue": Quantity("smallest eigenvalues, ascending", UNITS, dims=SMALLEST),
    "smallest_residual": Quantity("|A v - lambda v| of these, |v| = 1", UNITS, dims=SMALLEST),
    "smallest_converged": Quantity("whether these residuals are small enough", dims=SMALLEST),
    "smallest_eigenvector": Quantity("v of these", dims=(*SMALLEST, "parameter")),
    "eigenvalue_products": Quantity("products for the eigenvalues", dims=WHERE),
    "density_at": Quantity("eigenvalues where the density is taken", UNITS, dims=DENSITY),
    "spectral_density": Quantity(
        "density of the eigenvalues, smoothed by a Gaussian", f"1/({UNITS})", SLQ, DENSITY
    ),
    "spectral_density_error": Quantity(
        "standard error of it over the random starts", f"1/({UNITS})", dims=DENSITY
    ),
    "density_width": Quantity("standard deviation of this Gaussian", UNITS, dims=WHERE),
    "spectral_trace": Quantity("trace, from the same starts", UNITS, dims=WHERE),
    "spectral_trace_error": Quantity("standard error of it over the starts", UNITS, dims=WHERE),
}


class Options(Strict, frozen=True):
    matrices: Annotated[
        list[Literal["hessian", "gauss-newton", "fisher", "empirical-fisher"]],
        means("whose spectra are taken", min_length=1),
    ] = field(default_factory=lambda: ["hessian"])
    largest: Annotated[int, means("how many of the largest eigenvalues", ge=0)] = 10
    smallest: Annotated[int, means("how many of the smallest eigenvalues", ge=0)] = 0
    blocks: Annotated[
        Literal["network", "layers"] | list[str],
        means("all trainable parameters; each module's own; or names or patterns of parameters"),
    ] = "network"
    eigenvectors: Annotated[bool, means("whether to return the eigenvectors")] = False
    residual: Annotated[
        float, means("where the search stops, relative to an eigenvalue", gt=0, lt=1)
    ] = 1e-4
    most_products: Annotated[int, means("for the eigenvalues of a matrix, at most", ge=1)] = 1000
    repeated: Annotated[
        bool, means("search on, so that an eigenvalue comes as often as it occurs")
    ] = True
    density_probes: Annotated[int, means("random starts for the density; 0: none", ge=0)] = 0
    density_steps: Annotated[int, means("products from each of these starts", ge=2)] = 60
    density_points: Annotated[int, means("where the density is taken", ge=2)] = 500
    density_width: Annotated[
        float, means("of its Gaussian, relative to the range of the eigenvalues", gt=0, lt=1)
    ] = 0.01
    batch_norm: Annotated[
        Literal["train", "eval"], means("statistics of all the samples at once, or running ones")
    ] = "eval"
    warm_start: Annotated[
        bool, means("start from the eigenvectors of the checkpoint before, half of it random")
    ] = False


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """The spectra on one sample set.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> x, y = torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.zeros(2, 1)
    >>> report = flatlab.measure(network, x, y, families="spectrum", largest=2)  # of mean x x^T
    >>> report["largest_eigenvalue"].sel(block="network", matrix="hessian").values.round(9).tolist()
    [4.5, 0.5]
    """
    options: Options = settings.options
    if not (options.largest or options.smallest or options.density_probes):
        raise MeasureError("spectrum: largest, smallest and density_probes are all 0")
    loss = settings.loss.base if isinstance(settings.loss, OfPositions) else settings.loss
    if "fisher" in options.matrices and not isinstance(loss, LIKELIHOODS):
        raise MeasureError(
            "the loss is not a negative log-likelihood, so it has no Fisher matrix; measure "
            "gauss-newton, or empirical-fisher"
        )
    blocks = _blocks(model, options)
    results: dict[str, list[np.ndarray]] = {}
    sizes = [parameter.numel() for parameter in trainable(model)]
    parts = torch.arange(sum(sizes)).split(sizes)
    places = dict(zip(map(id, trainable(model)), parts, strict=True))
    how = settings.loss, settings.difference_step, options.batch_norm == "eval"
    # Fused attention has no second derivative.
    with batch_norm(model, options.batch_norm), sdpa_kernel(SDPBackend.MATH):
        batches = batches_of(model, samples, settings)
        for block, patterns in blocks.items():
            with only(model, patterns):
                theta = trainable(model)
                inside = torch.cat([places[id(parameter)] for parameter in theta]).numpy()
                for matrix in options.matrices:
                    place = f"spectrum {block} {matrix}"
                    chosen = matrix_of(matrix, model, batches, *how)
                    for name, value in _of_matrix(chosen, theta, settings, place).items():
                        if name.endswith("eigenvector"):  # 0 outside the block
                            part, value = value, np.zeros((len(value), sum(sizes)))
                            value[:, inside] = part
                        results.setdefault(name, []).append(value)
    shape = len(blocks), len(options.matrices)
    values = {
        name: np.array(rows).reshape(*shape, *rows[0].shape) for name, rows in results.items()
    }
    coordinates = {"block": [*blocks], "matrix": [*map(str, options.matrices)]}
    for dim, count in (("rank", options.largest), ("rank_from_below", options.smallest)):
        coordinates[dim] = [str(n + 1) for n in range(count)]
    return Measured(values, coordinates)


def _blocks(model: nn.Module, options: Options) -> dict[str, str | list[str] | None]:
    """What `only` takes for each block, by the block's name."""
    if options.blocks == "network":
        return {NETWORK: None}
    if options.blocks == "layers":
        names: dict[str, list[str]] = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                names.setdefault(name.rpartition(".")[0] or name, []).append(name)
        return dict(names)
    return {name: (None if name == NETWORK else name) for name in options.blocks}


def _of_matrix(
    matrix: Matrix, theta: list[nn.Parameter], settings: Settings, place: str
) -> dict[str, np.ndarray]:
    """The values of one matrix, by quantity.

    theta: the parameters of its block.
    place: the name of block and matrix, under which eigenvectors are kept as a start for the next
        checkpoint.
    """
    options: Options = settings.options
    generator = torch.Generator().manual_seed(settings.seed)
    count = sum(parameter.numel() for parameter in theta)
    like = theta[0].detach().new_empty(1).expand(count)
    start = random_start(like, generator)
    before = settings.memory.get(place) if options.warm_start else None
    if before is not None:  # half of it stays random, so that nothing new is missed
        start = start / torch.linalg.vector_norm(start)
        start += before / torch.linalg.vector_norm(before)
    values: dict[str, np.ndarray] = {}
    wanted = options.largest + options.smallest
    if wanted:
        largest, what = min(options.largest, count), f"{wanted} eigenvalues ({place})"
        smallest = min(options.smallest, count - largest)
        how: dict[str, Any] = {"residual": options.residual, "most": options.most_products}
        how |= {"seed": settings.seed + 1, "repeated": options.repeated}
        with ProgressBar(what, TYPICAL + 2 * wanted, settings.progress) as forecast:
            ticking = replace(matrix, product=counted(matrix.product, forecast.tick))
            pairs = ticking.eigenvalues(start, largest, smallest, **how)
        if pairs.vectors.isfinite().all():
            settings.memory[place] = pairs.vectors.sum(0)
        values |= _of_pairs(pairs, largest, options)
    if options.density_probes:
        steps = options.density_probes * min(options.density_steps, count)
        with ProgressBar(f"density ({place})", steps, settings.progress) as forecast:
            values |= _of_density(counted(matrix.product, forecast.tick), like, settings)
    return values


def _of_pairs(pairs: Eigenpairs, largest: int, options: Options) -> dict[str, np.ndarray]:
    """Those of a block that has fewer parameters than were asked for are NaN."""
    values = {"eigenvalue_products": np.array(float(pairs.products))}
    parts = {"eigenvalue": pairs.values, "residual": pairs.residuals, "converged": pairs.converged}
    if options.eigenvectors:
        parts["eigenvector"] = pairs.vectors.double().cpu().numpy()
    ends = {"largest": (slice(largest), options.largest)}
    ends["smallest"] = (slice(largest, None), options.smallest)
    for end, (part, wanted) in ends.items():
        for name, array in parts.items():
            if wanted:
                whole = np.full((wanted, *array.shape[1:]), np.nan)
                whole[: len(array[part])] = array[part]
                values[f"{end}_{name}"] = whole
    return values


def _of_density(product: Product, like: Tensor, settings: Settings) -> dict[str, np.ndarray]:
    options: Options = settings.options
    probes = options.density_probes
    nodes, weights = quadrature(product, like, probes, options.density_steps, settings.seed)
    low, high = nodes.min(), nodes.max()
    width = options.density_width * (high - low or abs(high) or 1.0)
    at = np.linspace(low - 5 * width, high + 5 * width, options.density_points)
    mean, error = density(nodes, weights, at, width)
    traces = like.numel() * (nodes * weights).sum(1)
    trace_error = traces.std(ddof=1) / probes**0.5 if probes > 1 else np.nan
    return {
        "density_at": at,
        "spectral_density": mean,
        "spectral_density_error": error,
        "density_width": np.array(width),
        "spectral_trace": np.array(traces.mean()),
        "spectral_trace_error": np.array(trace_error),
    }
