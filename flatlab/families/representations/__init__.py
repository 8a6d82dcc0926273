"""Compression of the representations in a network, and sharpness: chen2026 Sec. 3.5.

x^l is the input of the l-th linear or convolution layer, flattened; x^1 = x, and x^L are the
penultimate features. A^l = dx^l/dx through all paths, J^l = df/dx^l through all that reads x^l,
f = W_L x^L + b. Local compression: norms, dimension and volume of A^l. Bounds of ||A^l||_F by the
gradient in the first layer. Global geometry: neural collapse, by the classes of the samples. And
the linear share: how far A^l at the mean input of a class explains where its samples go.

Local compression is exact, or estimated from random directions with standard errors, as declared.
"""

from typing import Annotated, Literal

import torch
from msgspec import Meta
from torch import Tensor, nn

from flatlab.core.errors import MeasureError
from flatlab.core.schema import Strict, means
from flatlab.derivatives.checks.isolation import check_mode
from flatlab.derivatives.jacobians.feature_maps import FeatureMaps
from flatlab.derivatives.per_sample.probe import Findings, probe
from flatlab.families.representations.bounds import bounds_of, readout_of
from flatlab.families.representations.classes import Classes, collapse_within, linear_shares
from flatlab.families.representations.local import (
    Local,
    accuracy_of,
    estimated_compression,
    exact_compression,
)
from flatlab.measuring.quantity import Measured, Quantity, SampleSet, Settings, chen2026

SAMPLE, LAYER, BOTH = ("sample",), ("layer",), ("sample", "layer")
SLOPE, SQUARED, SECTION = "layer input/input", "(layer input/input)^2", "chen2026 Sec. 3.5"


def _error_of(name: str, units: str = "1", dims: tuple[str, ...] = LAYER) -> Quantity:
    what = f"standard error of {name} over random directions; 0 where it is exact"
    return Quantity(what, units, dims=dims)


QUANTITIES = {
    "feature_sensitivity": Quantity("mean ||A^l||_F^2", SQUARED, SECTION, LAYER),
    "feature_sensitivity_error": _error_of("feature_sensitivity", SQUARED),
    "feature_sensitivity_per_sample": Quantity("||A^l||_F^2", SQUARED, dims=BOTH),
    "feature_mls": chen2026(
        "mean ||A^l||_2; where it is estimated, a lower bound", SLOPE, "Def. 3.7 for x^l", LAYER
    ),
    "feature_mls_per_sample": Quantity("||A^l||_2", SLOPE, dims=BOTH),
    "feature_mls_residual": Quantity(
        "mean ||A^l v - sigma u|| / sigma of the singular vectors found; 0 where it is exact",
        dims=LAYER,
    ),
    "normalized_feature_mls": Quantity(
        "mean ||A^l||_2 ||x|| / ||x^l||, over samples with x^l other than zero", dims=LAYER
    ),
    "feature_dimension": Quantity(
        "mean participation ratio of A^l A^l^T", "1", "chen2026 Def. 3.11 for x^l", LAYER
    ),
    "feature_dimension_error": _error_of("feature_dimension"),
    "feature_log_volume": chen2026(
        "mean of the sum of ln sigma_j(A^l) over the k largest", "ln", "Eq. 7 for x^l", LAYER
    ),
    "feature_volume_rank": Quantity("k of feature_log_volume", dims=LAYER),
    "feature_samples_zero": Quantity(
        "samples left out of normalized_feature_mls: x^l = 0", dims=LAYER
    ),
    "feature_samples_zero_jacobian": Quantity(
        "samples left out of feature_dimension: A^l = 0", dims=LAYER
    ),
    "feature_samples_rank_deficient": Quantity(
        "samples left out of feature_log_volume: A^l has a rank below k", dims=LAYER
    ),
    "representation_bound": chen2026(
        "median over the samples of ||W_1||_2 ||df/dW_1||_F / (sigma_min(J^l) ||x||), a bound of "
        "||A^l||_F; NaN where x^l is no cut",
        SLOPE,
        'Eq. 22, 23, whose "=" is "<="',
        LAYER,
    ),
    "representation_bound_per_sample": chen2026(
        "||W_1||_2 ||df/dW_1||_F / (sigma_min(J^l) ||x||)", SLOPE, "Eq. 23, corrected", BOTH
    ),
    "representation_bound_infinite": Quantity(
        "samples where that bound is infinite: J^l has not full column rank, or x = 0", dims=LAYER
    ),
    "representation_violations": Quantity(
        "samples with ||A^l||_F above that bound; none where weights of layer 1 are not shared; "
        "where ||A^l||_F is estimated, above it by three standard errors",
        dims=LAYER,
    ),
    "penultimate_bound": chen2026(
        "mean of ||W_1||_2 ||df/dW_1||_F / (sigma_min(W_L) ||x||), a bound of mean ||A^L||_F; "
        "infinite where the last layer has more inputs than outputs",
        SLOPE,
        "Eq. 16, 21",
    ),
    "penultimate_bound_by_layer": chen2026(
        "||W_1||_2 / sigma_min(W_L) sqrt(mean ||x||^-2) sqrt(S(W_1)), above penultimate_bound",
        SLOPE,
        "Eq. 16",
    ),
    "penultimate_bound_by_sharpness": chen2026(
        "the same with S in place of S(W_1)", SLOPE, "Eq. 16"
    ),
    "head_bound": Quantity(
        "mean of ||W_1||_2 ||df/dW_1||_F / (sigma+ ||x||), a bound of head_frobenius; sigma+ the "
        "smallest singular value of W_L that is not zero",
        SLOPE,
        "from chen2026 Eq. 21",
    ),
    "head_bound_per_sample": Quantity(
        "||W_1||_2 ||df/dW_1||_F / (sigma+ ||x||)", SLOPE, dims=SAMPLE
    ),
    "head_frobenius": Quantity(
        "mean ||P A^L||_F, P the projection onto the row space of W_L", SLOPE
    ),
    "head_frobenius_per_sample": Quantity("||P A^L||_F", SLOPE, dims=SAMPLE),
    "head_share": Quantity(
        "mean ||P A^L||_F^2 / ||A^L||_F^2, what of the features' sensitivity the outputs see"
    ),
    "head_share_error": _error_of("head_share", dims=()),
    "head_violations": Quantity(
        "samples with ||P A^L||_F above their bound; none where weights of layer 1 are not shared"
    ),
    "collapse_within": Quantity(
        "Tr(Sigma_W Sigma_B^+) / K of K classes; NaN where their means are too few or alike",
        "1",
        "papyan2020 NC1",
        LAYER,
    ),
    "linear_share": Quantity(
        "1 - mean ||x^l(x) - x^l(nu) - A^l(nu) d||^2 / mean ||x^l(x) - x^l(nu)||^2, d = x - nu, nu "
        "the mean input of the class",
        "1",
        SECTION,
        LAYER,
    ),
    "linear_share_within": Quantity(
        "the same with the class mean of x^l in place of x^l(nu), of the spread alone",
        "1",
        SECTION,
        LAYER,
    ),
}

CHECKS = ("gradient", "inputs")

BYTES = 2**27
"""Of what a forward pass keeps at a time, unless a batch size is given."""
SHARE = ("head_share", "head_share_error")
NOT_DIRECT = "its first layer does not alone read the inputs, or not unchanged"


class Options(Strict, frozen=True):
    representations: Annotated[
        Literal["all"] | tuple[Literal["local", "bounds", "collapse", "linear-share"], ...],
        means("parts; all: those that can be had, and those that are named are refused if not"),
    ] = "all"
    representations_accuracy: Annotated[
        Literal["exact", "auto"] | Annotated[float, Meta(gt=0, lt=1)],
        means(
            "of local compression: exact, a relative standard error of random directions, or auto: "
            "exact where derivatives fit in memory"
        ),
    ] = "exact"
    collapse_samples: Annotated[
        Literal["all", "split"] | Annotated[int, Meta(ge=2)],
        means(
            "of the global geometry and linear shares: all of those given; the first that many of "
            "them; or split: in an experiment, the whole split that they are drawn from"
        ),
    ] = "all"


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    """All quantities on one sample set.

    Raises `MeasureError` where a part that is named cannot be had: bounds where the first layer
    does not alone read x, or x^l is no cut of the network; collapse and shares without classes.

    >>> import torch, flatlab
    >>> first, last = (torch.nn.Linear(2, 2, bias=False).double() for _ in range(2))
    >>> _ = first.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 2.0]])})
    >>> model = torch.nn.Sequential(first, last)
    >>> x, classes = torch.tensor([[3.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 0])
    >>> report = flatlab.measure(model, x, classes, families="representations")
    >>> report["feature_sensitivity"].values.tolist()  # of x itself, and of W_1 x
    [2.0, 5.0]
    >>> report["linear_share"].values.tolist()  # 0 / 0: each class has one sample
    [nan, nan]
    """
    if samples.kept is not None:
        raise MeasureError(
            "representations are those of all positions of a sample, and some do not count; "
            "measure them without targets and attention mask"
        )
    findings = settings.findings(model, samples.inputs)
    if not findings.layers:
        raise MeasureError(
            "representations are the inputs of linear and convolution layers, and the network has "
            "none that is called as such a layer"
        )
    measurement = _Measurement(model, samples, settings, findings)
    return Measured(measurement.values(), {"layer": findings.layers}, measurement.notes)


class _Measurement:
    """The parts that are wanted, of one network on one sample set."""

    def __init__(
        self, model: nn.Module, samples: SampleSet, settings: Settings, findings: Findings
    ) -> None:
        self.samples, self.settings, self.findings = samples, settings, findings
        self.options: Options = settings.options
        layers = {name: findings.modules[name] for name in findings.layers}
        self.left_out: list[str] = []
        self.notes: dict[str, object] = {
            "representations_accuracy": self.options.representations_accuracy,
            "representations_left_out": self.left_out,
        }
        self.readout = readout_of(FeatureMaps(model, layers), samples.inputs)
        self.maps = FeatureMaps(model, layers, self.readout.unchanged)

    def values(self) -> dict[str, Tensor]:
        """All quantities that are wanted and can be had, by name."""
        values: dict[str, Tensor] = {}
        if self._has("local") or self._has("bounds"):
            local = self._local()
            share = {name: local.values.pop(name) for name in SHARE if name in local.values}
            values |= local.values if self._has("local") else {}
            if self._has("bounds", "" if self.findings.direct else NOT_DIRECT):
                values |= self._bounds(local) | share
        return values | self._of_classes()

    def _has(self, part: str, reason: str = "") -> bool:
        """Whether a part is wanted and nothing is against it; refuses it if it is named."""
        every = self.options.representations == "all"
        if not (every or part in self.options.representations):
            return False
        if reason and not every:
            raise MeasureError(f"{part}: {reason}; leave it out of representations=")
        if reason:
            self.left_out.append(f"{part}: {reason}")
        return not reason

    def _local(self) -> Local:
        given = self.maps, self.samples.inputs, self.findings
        wanted = accuracy_of(*given, self.settings)
        self.notes["representations_accuracy"] = wanted or "exact"
        if wanted is None:
            return exact_compression(*given, self.settings)
        local = estimated_compression(*given, self.readout.head, wanted, self.settings)
        self.notes["representations_directions"] = local.directions
        self.left_out.append("feature_log_volume: it is exact alone")
        return local

    def _bounds(self, local: Local) -> dict[str, Tensor]:
        """NaN for layers whose input is no cut of the network."""
        readout, findings = self.readout, self.findings
        layers = zip(findings.layers, readout.cuts, strict=True)
        if around := ", ".join(name for name, cut in layers if not cut):
            self._has("bounds", f"some paths to the outputs go around the inputs of {around}")
        if readout.head is None:
            self._has("bounds", "the network does not end in a linear layer that sees one vector")
        how, given = self.settings, (self.maps, self.samples.inputs, findings, readout)
        return bounds_of(*given, local.squares, local.errors, how.norms, how.batch_size)

    def _classes(self) -> Classes:
        """The samples of the global geometry with their classes."""
        wanted, samples = self.options.collapse_samples, self.samples
        if wanted == "split":
            if self.settings.split is None:
                raise MeasureError(
                    "collapse_samples='split' is for experiments; pass the whole training set"
                )
            samples = self.settings.split
        inputs, labels = samples.inputs, samples.labels
        assert labels is not None
        if isinstance(wanted, int):
            if wanted > len(inputs):
                raise MeasureError(f"collapse_samples={wanted}: there are {len(inputs)} samples")
            inputs, labels = inputs[:wanted], labels[:wanted]
        present, numbers = labels.unique(return_inverse=True)
        return Classes(inputs, numbers, present)

    def _of_classes(self) -> dict[str, Tensor]:
        """Collapse and linear shares, of the samples that are wanted for it."""
        reason = "" if self.samples.labels is not None else "there are no classes"
        collapse_too = self._has("collapse", reason)
        shares_too = self._has("linear-share", reason)
        if not (collapse_too or shares_too):
            return {}
        classes = self._classes()
        inputs = classes.inputs
        numbers = self.findings.numbers * inputs.element_size()
        size = self.settings.batch_size or max(1, BYTES // numbers)
        values: dict[str, Tensor] = {}
        alone = "there is one class, and collapse compares the means of several"
        if collapse_too and self._has("collapse", alone if len(classes.labels) < 2 else ""):
            seen = self.settings.memory  # what is known of x itself
            values["collapse_within"] = collapse_within(self.maps, classes, size, seen)
        elif collapse_too:  # as other sample sets of the network have it
            values["collapse_within"] = torch.full([len(self.maps.modules)], torch.nan)
        return values | (linear_shares(self.maps, classes, size) if shares_too else {})
