"""Feature robustness over all feature matrices, and labels near the samples: petzka2021 App. D, E.

For a layer z = w phi + b of d rows and a feature matrix A with |A|_2 <= 1,

    E_F(delta A) = E_emp(w + delta w A) - E_emp(w) <= delta^2 d/2 kappa + O(delta^3)    Thm. 14

at a local minimum in w, with kappa = sum_s |w_s|^2 lambda_max(H_ss) (Def. 13); Thm. 15 adds that
to the representativeness. The largest E_F is searched from A = 1, A = -1 and random orthogonal
matrices: to first order its maximum over A is at the polar factor of w^T G, G the gradient in w,
from which G is taken anew. What is found is at least as large as for any matrix tried, and at most
the maximum. At weights that are no minimum there is a slope: delta times the sum of the singular
values of w^T G, which the bound leaves out.

Labels of order three (Def. 9) are those for which, whatever the changes |Delta_i| <= delta |phi_i|,

    mean_i |loss(psi(phi_i + Delta_i), y[phi_i + Delta_i]) - loss(psi(phi_i + Delta_i), y_i)|

is at most C delta^3. The labels are known where there are data: the largest of these over the
samples of the same split whose features are so near is a lower bound of it.

The constants of Thm. 11 are of the density of the features, which those of a trained network do not
have where units of ReLU are 0; they belong to made-up distributions.
"""

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.progress import ticked
from flatlab.core.schema import Key, Strict, means
from flatlab.derivatives.jacobians.feature_maps import inputs_read
from flatlab.derivatives.per_sample.probe import run
from flatlab.families import flatness
from flatlab.families._perturbed_losses import deltas_of, eligible_layers
from flatlab.losses._base import Loss
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings

CHECKS = ("gradient", "hessian")
DIMS = ("layer", "delta_index")
UNITS = "loss"
QUANTITIES = {
    "largest_feature_robustness": Quantity(
        "largest change of the mean loss at w + delta w A that was found, |A|_2 <= 1",
        UNITS,
        "petzka2021 Thm. 14",
        DIMS,
        label="feature robustness, largest",
    ),
    "feature_robustness_bound": Quantity(
        "delta^2 d/2 kappa, its bound at a minimum", UNITS, "petzka2021 Thm. 14", DIMS
    ),
    "feature_robustness_slope": Quantity(
        "delta times the sum of the singular values of w^T G, G the gradient in w; 0 at a minimum",
        UNITS,
        "",
        DIMS,
    ),
    "label_change": Quantity(
        "mean over the samples of the largest |loss with its label - loss with that of the sample| "
        "of data whose features are within delta |phi|",
        UNITS,
        "petzka2021 Def. 9",
        DIMS,
    ),
    "neighbours": Quantity(
        "mean number of other data whose features are within delta |phi|",
        "1",
        "petzka2021 Def. 9",
        DIMS,
    ),
    "uniform_robustness_delta": Quantity("delta", "1", "petzka2021 Def. 1", DIMS),
}
BATCH = 1000
"""Data at a time."""


class Options(Strict, frozen=True):
    FOLDERS: ClassVar[dict[str, str]] = {"relative_flatness_loss": "losses"}

    robustness_deltas: Annotated[
        tuple[Literal["paper"] | Annotated[float, Meta(gt=0)], ...],
        means("delta; paper: n^(-1/(4+m)) of n samples and m features, as in its App. D.4"),
    ] = ("paper", 0.01, 0.03, 0.1, 0.3)
    uniform_starts: Annotated[
        int, means("random orthogonal matrices that the search starts from, beside 1 and -1", ge=0)
    ] = 1
    uniform_steps: Annotated[int, means("from each of them", ge=1)] = 10
    relative_flatness_loss: Annotated[
        Key | None, means("whose Hessian it uses; null: the loss of training")
    ] = None


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """Every layer that `geometry` has; NaN for one that is no linear layer of one position.

    Raises `MeasureError` without targets, and where no layer is eligible.

    >>> import torch, flatlab
    >>> network = torch.nn.Linear(2, 1, bias=False).double()
    >>> network.load_state_dict({"weight": torch.tensor([[3.0, 4.0]])})
    <All keys matched successfully>
    >>> x = torch.tensor([[0.0, 2.0]])
    >>> how = {"families": "uniform-robustness", "loss": "half-mse", "robustness_deltas": [0.1]}
    >>> report = flatlab.measure(network, x, torch.tensor([[8.0]]), **how)
    >>> report["largest_feature_robustness"].values.round(6).tolist()  # (0.1 |w| |x|)^2 / 2
    [[0.5]]
    >>> report["feature_robustness_bound"].values.round(6).tolist()
    [[0.5]]
    """
    options: Options = settings.options
    loss = settings.loss_named(options.relative_flatness_loss)
    findings = settings.findings(model, samples.inputs)
    places, left_out = eligible_layers(model, samples.inputs, findings, "feature robustness")
    targets = samples.targets_for(findings.outputs, loss).double()
    how = flatness.Options(
        flatness=("maximal",), relative_flatness_loss=options.relative_flatness_loss
    )
    exact = flatness.measure(model, samples, replace(settings, options=how)).values["kappa_max"]
    nearby = _Nearby(model, samples, settings.split or samples, findings.outputs, loss)
    names = [name for _, name in places]
    features = nearby.features({name: findings.modules[name] for name in names})
    shape = len(findings.layers), len(options.robustness_deltas)
    values = {name: np.full(shape, np.nan) for name in QUANTITIES}
    for place, name in ticked(places, "layers", settings.progress):
        layer: Any = findings.modules[name]
        deltas = deltas_of(options.robustness_deltas, len(targets), layer.in_features)
        search = _Search(model, samples.inputs, targets, loss, layer, settings.batch_size or BATCH)
        changes, neighbours = nearby.changes(*features[name], deltas)
        values["largest_feature_robustness"][place] = [
            search.largest(delta, options, (settings.seed, place)) for delta in deltas
        ]
        values["feature_robustness_bound"][place] = (
            deltas**2 * layer.out_features / 2 * exact[place]
        )
        values["feature_robustness_slope"][place] = deltas * search.slope()
        values["label_change"][place], values["neighbours"][place] = changes, neighbours
        values["uniform_robustness_delta"][place] = deltas
    if not findings.finite:
        values = {name: np.full(shape, np.nan) for name in values}
    coordinates = {
        "layer": findings.layers,
        "delta_index": [str(index) for index in range(shape[1])],
    }
    return Measured(values, coordinates, {"uniform_robustness_left_out": left_out})


class _Search:
    """For the largest change of the loss by what is added to one layer's weights."""

    def __init__(
        self, model: nn.Module, inputs: Tensor, targets: Tensor, loss: Loss, layer: Any, size: int
    ) -> None:
        self.model, self.inputs, self.targets = model, inputs, targets
        self.loss, self.layer, self.size = loss, layer, size
        self.weight = layer.weight.detach().double()
        self.frame, self.triangle = torch.linalg.qr(self.weight.T)  # w = triangle^T frame^T

    def at(self, change: Tensor) -> tuple[float, Tensor]:
        """The loss where a change (d, m) is added to the weights, and its gradient in them."""
        change = change.to(self.inputs).requires_grad_()

        def add(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return output + given[0] @ change.T

        handle = self.layer.register_forward_hook(add)
        value, gradient = 0.0, torch.zeros_like(self.weight)
        try:
            for x, y in zip(
                self.inputs.split(self.size), self.targets.split(self.size), strict=True
            ):
                with torch.enable_grad():
                    part = self.loss.values(run(self.model, x).double(), y).sum()
                    part = part * self.loss.share(1, len(self.inputs))
                gradient += torch.autograd.grad(part, change)[0].double()
                value += float(part.detach())
        finally:
            handle.remove()
        return value, gradient

    def slope(self) -> float:
        """The sum of the singular values of w^T G at the weights as they are."""
        _, gradient = self.at(torch.zeros_like(self.weight))
        if not gradient.isfinite().all():
            return np.nan
        return float(torch.linalg.svdvals(self.triangle @ gradient).sum())

    def largest(self, delta: float, options: Options, seed: tuple[int, int]) -> float:
        """The largest change of the loss that is found."""
        before, _ = self.at(torch.zeros_like(self.weight))
        starts = [self.weight, -self.weight]
        starts += [self._turned((*seed, draw)) for draw in range(options.uniform_starts)]
        best = -np.inf
        for turned in starts:
            for _ in range(options.uniform_steps):
                value, gradient = self.at(delta * turned)
                best = max(best, value - before)
                if not gradient.isfinite().all():
                    break
                left, _, right = torch.linalg.svd(self.triangle @ gradient, full_matrices=False)
                turned = self.triangle.T @ left @ right
            best = max(best, self.at(delta * turned)[0] - before)
        return best

    def _turned(self, seed: tuple[int, ...]) -> Tensor:
        """w O for an orthogonal O."""
        features, seen = self.weight.shape[1], len(self.triangle)
        normal = np.random.default_rng(seed).standard_normal((features, seen))
        frame, _ = np.linalg.qr(normal)
        return self.triangle.T @ torch.from_numpy(frame).to(self.weight).T


class _Nearby:
    """Data of the same split whose features are near those of the samples."""

    def __init__(
        self, model: nn.Module, samples: SampleSet, split: SampleSet, outputs: int, loss: Loss
    ) -> None:
        self.model, self.samples, self.split, self.loss = model, samples, split, loss
        self.targets, self.others = (
            each.targets_for(outputs, loss).double() for each in (samples, split)
        )
        self.outputs = torch.empty(0)

    @torch.no_grad()
    def features(self, modules: dict[str, nn.Module]) -> dict[str, tuple[Tensor, Tensor]]:
        """Of each layer: those of the samples and those of the split; keeps the outputs."""
        with inputs_read(modules) as ours:
            for chunk in self.samples.inputs.split(BATCH):
                run(self.model, chunk)
        with inputs_read(modules) as theirs:
            outputs = [run(self.model, chunk).double() for chunk in self.split.inputs.split(BATCH)]
        self.outputs = torch.cat(outputs)
        return {name: (torch.cat(ours[name]), torch.cat(theirs[name])) for name in modules}

    @torch.no_grad()
    def changes(
        self, here: Tensor, there: Tensor, deltas: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean largest change of the loss by labels, and of neighbours: (deltas,) each."""
        own = self.loss.values(self.outputs, self.others)
        norms = torch.linalg.vector_norm(here, dim=1)
        largest, counts = [], []
        for phi, target, norm in zip(here, self.targets, norms, strict=True):
            # by differences: from inner products, small distances are rounding
            distance = torch.cat([(part - phi).norm(dim=1) for part in there.split(BATCH)])
            other = self.loss.values(self.outputs, target.expand_as(self.others))
            change = (own - other).abs()
            inside = [distance <= delta * norm for delta in deltas]
            largest.append([float(change[near].amax()) if near.any() else 0.0 for near in inside])
            counts.append([int((near & (distance > 0)).sum()) for near in inside])
        return np.mean(largest, axis=0), np.mean(counts, axis=0)
