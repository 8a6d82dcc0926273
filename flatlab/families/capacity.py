"""Measures of capacity: norms of weights, margins, Fisher-Rao norm, PAC-Bayes.

W_l, l = 1 ... L, are the weights of the linear and convolution layers in the order of their first
use, f the outputs, l the loss of a sample, means over the samples. Source: Jiang et al. (2019),
"Fantastic generalization measures and where to find them", arXiv 1912.02178, and petzka2021 Sec. 6.
Public code for these measures divides by the number of samples and takes roots; here they are as
defined in the text.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatlab.core.errors import MeasureError
from flatlab.core.progress import ProgressBar
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.isolation import is_finite
from flatlab.derivatives.jacobians.norms import Norms, known, spectral_norm
from flatlab.derivatives.per_sample.probe import run
from flatlab.derivatives.second_order.hessian_products import Batches
from flatlab.derivatives.second_order.second_pass import piecewise_linear
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings
from flatlab.networks._weights import fitted

LAYER = ("layer",)


def jiang(long_name: str, where: str, units: str = "mixed", *, label: str = "") -> Quantity:
    """A quantity of Jiang et al., "Fantastic generalization measures and where to find them"."""
    return Quantity(long_name, units, f"jiang2019 {where}", label=label)


def petzka(
    long_name: str, units: str = "1", dims: tuple[str, ...] = (), *, label: str = ""
) -> Quantity:
    return Quantity(long_name, units, "petzka2021 Sec. 6", dims, label=label)


NORMS = {
    "squared_norm": petzka("sum of the squares of all parameters but biases", "parameter^2"),
    "squared_norm_per_layer": petzka("||W_l||_F^2", "parameter^2", LAYER, label="squared norm"),
    "spectral_norm_per_layer": Quantity("||W_l||_2", "parameter", dims=LAYER),
    "log_spectral_product": jiang(
        "ln of the product of ||W_l||_2^2", "prod-of-spec", label="spectral product"
    ),
    "log_frobenius_product": jiang(
        "ln of the product of ||W_l||_F^2", "prod-of-fro", label="Frobenius product"
    ),
    "frobenius_over_spectral": jiang(
        "sum of ||W_l||_F^2 / ||W_l||_2^2", "fro-over-spec", "1", label="Frobenius / spectral"
    ),
}
DISTANCES = {
    "parameter_distance": Quantity(
        "||theta - theta^0||_2 of all parameters",
        "parameter",
        "jiang2019 l2-dist",
        label="distance from the start",
    )
}
PATHS = {
    "path_norm": jiang(
        "sum of the outputs for inputs of one, with all parameters squared", "path-norm"
    )
}
MARGINS = {
    "margin": Quantity(
        "10th percentile of the output of the right class minus the largest other output",
        "output",
        "jiang2019",
    ),
    "inverse_margin": jiang("1 / margin^2; NaN unless the margin is positive", "inverse-margin"),
    "log_spectral_product_over_margin": jiang(
        "ln of the product of ||W_l||_2^2 over margin^2",
        "prod-of-spec/margin",
        label="spectral / margin",
    ),
    "log_frobenius_product_over_margin": jiang(
        "ln of the product of ||W_l||_F^2 over margin^2",
        "prod-of-fro/margin",
        label="Frobenius / margin",
    ),
    "log_spectral_complexity": jiang(
        "ln of product of ||W_l||_2^2 times sum of ||W_l||_F^2 / ||W_l||_2^2 over margin^2",
        "spec-orig-main",
        label="spectral complexity",
    ),
}
FUNCTION = {
    "fisher_rao": petzka(
        "Fisher-Rao norm, L sqrt(mean <dl/df, f>^2)", "loss", label="Fisher-Rao norm"
    ),
    "output_norm": Quantity(
        "Frobenius norm of the outputs of all samples", "output", "macdonald2023 App. C.1"
    ),
}
PAC_BAYES = {
    "pac_bayes": petzka("squared_norm / (4 sigma^2) + ln(n / sigma) + 10", label="PAC-Bayes"),
    "pac_bayes_sigma": petzka(
        "deviation sigma of noise on all parameters that lowers the accuracy by 0.1", "parameter"
    ),
    "pac_bayes_flatness": Quantity(
        "1 / sigma^2", "1/parameter^2", "jiang2019 pacbayes-flatness", label="PAC-Bayes flatness"
    ),
    "pac_bayes_drop": Quantity("mean loss of accuracy at sigma, a fraction"),
    "pac_bayes_converged": Quantity("whether that is within 0.01 of 0.1"),
}
QUANTITIES = NORMS | DISTANCES | PATHS | MARGINS | FUNCTION | PAC_BAYES

BYTES = 2**26
"""Of what a forward pass keeps at a time, unless a batch size is given."""
PERCENTILE = 0.1


CHECKS = ("function",)


class Options(Strict, frozen=True):
    capacity: Annotated[
        tuple[Literal["path-norm", "margin", "fisher-rao", "pac-bayes", "distances"], ...],
        means("beside norms; distances: from initial weights, added wherever these are known"),
    ] = ("path-norm", "margin", "fisher-rao", "pac-bayes")


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All quantities on one sample set.

    Raises `MeasureError` where classes, targets or initial weights are needed but missing.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 2, bias=False).double()
    >>> _ = network.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(network, x, classes, families="capacity", capacity=["margin"])
    >>> report["squared_norm"].item(), report["spectral_norm_per_layer"].values.tolist()
    (5.0, [2.0])
    >>> report["margin"].item()  # the 10th percentile of 5 and 4
    4.1
    """
    wanted, inputs = settings.options.capacity, samples.inputs
    findings = settings.findings(model, inputs)
    if not findings.layers:
        raise MeasureError(
            "capacity needs linear or convolution layers, and this network calls none as a module"
        )
    size = settings.batch_size or max(1, BYTES // (findings.numbers * inputs.element_size()))
    outputs = torch.cat([run(model, chunk).detach().double() for chunk in inputs.split(size)])
    left_out = []
    values = {"output_norm": torch.linalg.vector_norm(outputs)}
    values |= weight_norms(model, findings.layers, settings.norms)
    if settings.initial is not None:
        values["parameter_distance"] = parameter_distance(model, settings.initial)
    elif "distances" in wanted:
        raise MeasureError(
            "distances need the weights before training: pass initial=, that network or its state "
            "dictionary; a grid keeps them where step 0 is among its dense checkpoints"
        )
    else:
        left_out.append("distances: there are no initial weights")
    if "path-norm" in wanted:
        if reason := _against_paths(model, inputs):
            left_out.append(f"path_norm: {reason}")
        else:
            values["path_norm"] = path_norm(model, tuple(inputs.shape[1:]))
    if "fisher-rao" in wanted:
        targets = samples.targets_for(findings.outputs, settings.loss).double()
        values["fisher_rao"] = len(findings.layers) * fisher_rao(outputs, targets, settings.loss)
    if "margin" in wanted:
        classes = _classes(samples, outputs, "margin")
        rows = outputs.unflatten(1, (*classes.shape[1:], -1))[classes >= 0]
        of_rows = margins(rows, classes[classes >= 0])
        values |= over_margin(values, float(of_rows.quantile(PERCENTILE)))
    finite = is_finite(outputs, *model.parameters())
    if "pac-bayes" in wanted:
        classes = _classes(samples, outputs, "pac-bayes")
        batches = list(zip(inputs.split(size), classes.split(size), strict=True))
        squared, nothing = float(values["squared_norm"]), dict.fromkeys(PAC_BAYES, math.nan)
        values |= _pac_bayes(model, batches, squared, settings) if finite else nothing
    notes = {"capacity_left_out": left_out}
    return Measured(values, {"layer": findings.layers}, notes, finite)


def weight_norms(model: nn.Module, layers: Sequence[str], norms: Norms) -> dict[str, Any]:
    """Of the weights of some layers, in float64.  norms: known already."""
    modules: dict[str, Any] = {name: model.get_submodule(name) for name in layers}
    weights = {name: layer.weight.detach().double() for name, layer in modules.items()}

    def norm(name: str) -> float:
        return known(norms, ("weight", name), lambda: spectral_norm(weights[name].flatten(1)))

    spectral = torch.tensor([*map(norm, weights)], dtype=torch.float64)
    frobenius2 = torch.stack([weight.square().sum() for weight in weights.values()]).cpu()
    return {
        "squared_norm": sum(
            p.detach().double().square().sum()
            for name, p in model.named_parameters()
            if p.requires_grad and name.rpartition(".")[2] != "bias"
        ),
        "squared_norm_per_layer": frobenius2,
        "spectral_norm_per_layer": spectral,
        "log_spectral_product": 2 * spectral.log().sum(),
        "log_frobenius_product": frobenius2.log().sum(),
        "frobenius_over_spectral": (frobenius2 / spectral.square()).sum(),
    }


def parameter_distance(model: nn.Module, initial: nn.Module | Mapping[str, Tensor]) -> Tensor:
    """From the initial weights; `MeasureError` where these are of another network."""
    initial = initial.state_dict() if isinstance(initial, nn.Module) else initial
    states, initial = model.state_dict(), fitted(model, initial)
    for name, tensor in states.items():
        if name not in initial or initial[name].shape != tensor.shape:
            actual = f"of shape {tuple(initial[name].shape)}" if name in initial else "missing"
            raise MeasureError(
                f"initial: {name} is {actual}; pass the same network before its training, or "
                "its state dictionary"
            )
    theta = [name for name, p in model.named_parameters() if p.requires_grad]
    steps = ((states[name].double() - initial[name].to(states[name]).double()) for name in theta)
    return torch.stack([step.square().sum() for step in steps]).sum().sqrt()


@torch.no_grad()
def path_norm(model: nn.Module, shape: tuple[int, ...]) -> float:
    """Sum of the outputs of a network for inputs of one, all its parameters being squared.

    shape: of one input. Batch norm in evaluation mode is an affine map, whose slope and offset are
    squared. For piecewise linear networks it is the sum over all paths from an input or a bias to
    an output of the product of the squared weights, if maxima are over one path each.
    """
    model = copy.deepcopy(model).double()
    tensors = {name: p.square() for name, p in model.named_parameters()}
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            tensors |= {
                f"{name}.{key}" if name else key: value for key, value in _squared(module).items()
            }
    ones = torch.ones(1, *shape, dtype=torch.float64, device=next(model.parameters()).device)
    return float(functional_call(model, tensors, (ones,)).sum())


def _squared(norm: Any) -> dict[str, Tensor]:
    """The tensors of a batch norm that maps x to (g / s)^2 x + (b - g m / s)^2, s^2 = v + eps."""
    mean, variance = norm.running_mean, norm.running_var + norm.eps
    changed = {"running_var": variance.square() - norm.eps}
    if not norm.affine:
        return {**changed, "running_mean": -mean.square()}
    offset = norm.bias - norm.weight * mean / variance.sqrt()
    return {**changed, "running_mean": torch.zeros_like(mean), "bias": offset.square()}


def over_margin(values: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """What divides norms by the squared margin; NaN unless that is positive.

    values: what `weight_norms` has found.
    """
    log = -2 * math.log(margin) if margin > 0 else math.nan
    product = values["log_spectral_product"] + log
    return {
        "margin": margin,
        "inverse_margin": math.exp(log),
        "log_spectral_product_over_margin": product,
        "log_frobenius_product_over_margin": values["log_frobenius_product"] + log,
        "log_spectral_complexity": product + values["frobenius_over_spectral"].log(),
    }


def fisher_rao(outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """sqrt(mean <dl/df, f>^2), without the factor in front.  outputs, targets: (samples, N)."""
    slopes = loss.gradient(outputs[:, None], targets[:, None])[:, 0]  # of each sample alone
    return (slopes * outputs).sum(1).square().mean().sqrt()


def margins(outputs: Tensor, classes: Tensor) -> Tensor:
    """The output of the right class minus the largest other output of each sample."""
    right = outputs.gather(1, classes[:, None])[:, 0]
    return right - outputs.scatter(1, classes[:, None], -torch.inf).amax(1)


def _classes(samples: SampleSet, outputs: Tensor, what: str) -> Tensor:
    """The classes of samples or positions; `MeasureError` where there are none, or do not fit."""
    if samples.position_labels is not None:
        return samples.position_labels
    if samples.labels is None or outputs.shape[1] < 2:
        lacking = "there are no classes" if samples.labels is None else "there is one output"
        raise MeasureError(
            f"{what} is for classifiers, but {lacking}; pass targets (samples,) of classes, or "
            f"leave {what} out of the option capacity"
        )
    samples.targets_for(outputs.shape[1])  # whether they fit
    return samples.labels


def _against_paths(model: nn.Module, inputs: Tensor) -> str:
    """Why a network has no path norm; "" if it has."""
    if any(map(nn.utils.parametrize.is_parametrized, model.modules())):
        return "weights are computed from other parameters"
    linear = piecewise_linear(run(model, inputs[:2]))
    return "" if linear else "the network is not piecewise linear, or uses a parameter twice"


def _pac_bayes(
    model: nn.Module, batches: Batches, squared_norm: float, settings: Settings
) -> dict[str, float]:
    sigma, drop = noise_tolerance(model, batches, settings.seed, settings.progress)
    count = sum(int((classes >= 0).sum()) for _, classes in batches)
    return {
        "pac_bayes": squared_norm / (4 * sigma**2) + math.log(count / sigma) + 10,
        "pac_bayes_sigma": sigma,
        "pac_bayes_flatness": sigma**-2,
        "pac_bayes_drop": drop,
        "pac_bayes_converged": float(abs(drop - DROP) < TOLERANCE),
    }


DROP, TOLERANCE, LARGEST, STEPS, DRAWS = 0.1, 0.01, 2.0, 15, 3
"""Of the accuracy, how far from it the search may end, where it begins, its most steps, and the
draws of the noise over which accuracies are averaged."""


@torch.no_grad()
def noise_tolerance(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    seed: int = 0,
    progress: bool = False,
) -> tuple[float, float]:
    """The deviation of normal noise on all trainable parameters that lowers the accuracy by 0.1.

    And by how much it does, which is another number where none within `LARGEST` is found.

    By bisection on [0, 2]. The network is never written to.

    batches: inputs, and classes (samples,), or (samples, positions) with -1 where there is none.
    seed: of the noise. Every step has the same draws, times its deviation, in every precision.
    """
    theta = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    device = next(iter(theta.values())).device

    def accuracy_with(deviation: float, draw: int = 0) -> float:
        generator = torch.Generator(device).manual_seed(1_000_003 * seed + draw)
        moved = {}
        for name, p in theta.items():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32, device=device)
            moved[name] = noise.to(p).mul_(deviation).add_(p)
        right = torch.zeros((), device=device)
        for x, y in batches:
            outputs = functional_call(model, moved, (x.clone(),))
            right += outputs.unflatten(1, (*y.shape[1:], -1)).argmax(-1).eq(y).sum()
            forecast.tick()
        return float(right / count)

    count = sum(int((classes >= 0).sum()) for _, classes in batches)
    low, high = 0.0, LARGEST
    with ProgressBar("noise tolerance", (1 + STEPS * DRAWS) * len(batches), progress) as forecast:
        without_noise = accuracy_with(0.0)
        for _ in range(STEPS):
            sigma = (low + high) / 2
            mean = sum(accuracy_with(sigma, draw) for draw in range(DRAWS)) / DRAWS
            drop = without_noise - mean
            if abs(drop - DROP) < TOLERANCE:
                break
            low, high = (low, sigma) if drop > DROP else (sigma, high)
    return sigma, drop
