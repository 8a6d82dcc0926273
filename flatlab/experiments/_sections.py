"""The sections of a grid's file: every key with its type, range and meaning."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from flatlab.plan.options import Architecture
from flatlab.plan.schema import Key, Strict

Precision = Literal["float32", "float64"]
Loss = Literal["half-mse", "mean-mse"]
Step = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]


class Data(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """The data set of a grid and how it becomes inputs and targets."""

    set: Annotated[Key, Meta(description="a file of flatlab/data")]
    classes: Annotated[
        Literal["all"] | Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=2)],
        Meta(description="labels to keep, renumbered in this order"),
    ]
    scaling: Annotated[
        Literal["unit", "standardized", "components", "none"],
        Meta(
            description="unit: in [0, 1]; standardized: then zero mean, unit variance overall; "
            "components: of each number of an input by itself; none: as they are, of a regression"
        ),
    ]
    scale: Annotated[float, Meta(gt=0, description="factor on the inputs, after scaling")] = 1.0
    samples: Annotated[
        Literal["all"] | Annotated[int, Meta(ge=1)],
        Meta(
            description="the first so many training samples (of data that lie class by class, in "
            "a fixed random order); the moments of scaling are those of all"
        ),
    ] = "all"
    targets: Annotated[
        Literal["one-hot", "given"],
        Meta(description="what the outputs are fitted to; given: numbers, those of a regression"),
    ]
    augmentation: Annotated[Literal["none"], Meta(description="random changes of the inputs")]
    pixels: Annotated[
        Literal["all"] | Annotated[int, Meta(ge=1)],
        Meta(
            description="height and width of images; where there are fewer each is the nearest of "
            "them, where there are more the mean of an area"
        ),
    ] = "all"


class Network(Strict, frozen=True, kw_only=True):
    """The architecture of a grid; in a file its options stand beside the other keys."""

    name: Annotated[Key, Meta(description="a file of flatlab/networks")]
    outputs: Annotated[
        Literal["classes"] | Annotated[int, Meta(ge=1)],
        Meta(description="number of outputs; those beyond the classes have target 0"),
    ]
    initialization: Annotated[
        Key,
        Meta(
            description="a file of flatlab/train/initializations: framework, he-normal, "
            "xavier-normal (biases start at 0), low-frequency, high-frequency, as-built, ..."
        ),
    ]
    initialization_steps: Annotated[
        int, Meta(ge=1, description="of high-frequency: how long it is fitted")
    ] = 10_000
    options: Architecture = Architecture()

    @property
    def label(self) -> str:
        """What captions, tables and forecasts call it: mlp (width 64)."""
        differences = self.options.differences
        return f"{self.name} ({differences})" if differences else self.name


class LogUniform(Strict, frozen=True):
    """A number of each run's own: drawn by its seed, uniform in its logarithm."""

    low: Annotated[float, Meta(gt=0, description="at least")]
    high: Annotated[float, Meta(gt=0, description="at most")]


class Stop(Strict, frozen=True):
    """When a network has trained enough: one of `loss` and `accuracy`, on the training set."""

    every: Annotated[int, Meta(ge=1, description="steps from one look to the next")]
    loss: Annotated[float | None, Meta(description="stop below this loss")] = None
    mean_of: Annotated[int, Meta(ge=1, description="looks whose mean is compared with it")] = 1
    accuracy: Annotated[float | None, Meta(description="stop at this accuracy (%)")] = None


class Training(Strict, frozen=True, kw_only=True):
    """How each network of a grid is trained."""

    lr: Annotated[
        Annotated[float, Meta(gt=0)] | LogUniform,
        Meta(description="learning rate; {low: a, high: b}: of each run, log-uniform by its seed"),
    ]
    batch_size: Annotated[
        int, Meta(ge=1, description="samples per step; of a full step, at a time")
    ]
    loss: Annotated[
        Literal["half-mse", "mean-mse", "cross-entropy", "logistic", "sum-of-squares"],
        Meta(
            description="half-mse: |f-y|^2/2; mean-mse: |f-y|^2/outputs; logistic: of targets +-1; "
            "means over the batch; sum-of-squares: |f-y|^2, added up"
        ),
    ]
    label_smoothing: Annotated[
        float, Meta(ge=0, lt=1, description="of cross-entropy: share of the uniform distribution")
    ] = 0.0
    optimizer: Annotated[Key, Meta(description="a file of flatlab/train/optimizers: sgd, adam")]
    momentum: Annotated[float, Meta(ge=0, lt=1, description="of sgd: heavy-ball momentum")] = 0.0
    weight_decay: Annotated[float, Meta(ge=0, description="L2 penalty, added to the gradient")] = (
        0.0
    )
    schedule: Annotated[
        Literal["constant", "step", "warmup-linear", "cosine"],
        Meta(description="of the learning rate; warmup-linear and cosine end at zero"),
    ]
    milestones: Annotated[
        list[Fraction], Meta(description="of step: fractions of the training behind which lr falls")
    ] = field(default_factory=list)
    decay: Annotated[float, Meta(gt=0, le=1, description="of step: factor at each milestone")] = 0.1
    warmup: Annotated[
        float, Meta(ge=0, lt=1, description="of warmup-linear: fraction in which lr rises")
    ] = 0.0
    minibatches: Annotated[
        Literal["reshuffled", "replacement", "torch-replacement", "full"],
        Meta(
            description="reshuffled: epochs without replacement, an incomplete last batch dropped; "
            "replacement: independent draws, by numpy's generator or torch's; "
            "full: all samples in each step, batch_size at a time"
        ),
    ]
    iterations: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="steps of the optimizer, or")
    ] = None
    epochs: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="how often the data are seen")
    ] = None
    stop: Annotated[Stop | None, Meta(description="when a network stops before that")] = None
    precision: Annotated[
        Literal["float32", "tf32", "float64"],
        Meta(description="of weights and arithmetic; tf32: float32 with faster products on a GPU"),
    ]
    mode: Annotated[
        Literal["default", "batched", "graphs", "loop"],
        Meta(
            description="default: that of the network; batched: a pack as one stack; graphs: side "
            "by side on a GPU; loop: one by one, the reference"
        ),
    ]

    @property
    def length(self) -> str:
        """How long a network is trained, in words."""
        steps = f"{self.epochs:,} epochs" if self.epochs else f"{self.iterations:,} iterations"
        return f"at most {steps}" if self.stop else steps

    def contradiction(self) -> tuple[str, str] | None:
        """A key and what is wrong with it beside the others, or None."""
        if (self.iterations is None) == (self.epochs is None):
            return "iterations", "give either iterations or epochs, and null for the other"
        if self.label_smoothing and self.loss != "cross-entropy":
            return "label_smoothing", "belongs to loss cross-entropy"
        if self.schedule == "step" and not self.milestones:
            return "milestones", "schedule step needs them, for example [0.5, 0.75]"
        if self.milestones != sorted(self.milestones):
            return "milestones", "must be in order"
        if isinstance(self.lr, LogUniform) and self.lr.low > self.lr.high:
            return "lr", "low must not be above high"
        if self.stop and (self.stop.loss is None) == (self.stop.accuracy is None):
            return "stop", "give either loss or accuracy"
        return None


class Dense(Strict, frozen=True):
    """Steps at which weights are kept: every k-th, or so many, evenly spaced in their logarithm."""

    every: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="steps from one to the next, or")
    ] = None
    log_spaced: Annotated[
        Annotated[int, Meta(ge=2)] | None, Meta(description="how many at most, and step 0")
    ] = None


class Checkpoints(Strict, frozen=True):
    """Which weights are kept beside those of the end of training, and when the training is seen."""

    dense: Annotated[
        Literal["none"] | list[Step] | Dense,
        Meta(description="steps: a list, {every: k} or {log_spaced: n}; 0 is before the first"),
    ]
    curves: Annotated[
        Literal["none"] | list[Step] | Dense,
        Meta(
            description="steps at which the training curves show loss and accuracy on the training "
            "set, beside the end and those of dense"
        ),
    ] = Dense(log_spaced=25)
    seeds: Annotated[
        Literal["all"] | list[str | int], Meta(description="blocks of seeds that are kept densely")
    ] = "all"


class Samples(Strict, frozen=True):
    """A random subset of the data on which geometry is measured."""

    split: Annotated[Literal["train", "test"], Meta(description="where the samples come from")]
    size: Annotated[int, Meta(ge=1, description="how many; of misclassified ones at most")]
    seed: Annotated[int, Meta(ge=0, description="of the draw")]
    only: Annotated[
        Literal["all", "misclassified"],
        Meta(description="misclassified: those that the network gets wrong at that checkpoint"),
    ] = "all"


class Measure(Strict, frozen=True, kw_only=True):
    """What is measured on each checkpoint of each run.

    The options of a family are stated by grids that measure it, and by no others.
    """

    families: Annotated[
        Literal["all"] | list[str],
        Meta(description="files of flatlab/metrics, or all; one job measures those joined by +"),
    ]
    samples: Annotated[dict[Key, Samples], Meta(min_length=1, description="named sample sets")]
    singular_values: (
        Annotated[
            Literal["all"] | Annotated[int, Meta(ge=1)],
            Meta(description="the k largest that enter the log volume"),
        ]
        | UnsetType
    ) = UNSET
    relative_flatness_loss: (
        Annotated[Loss, Meta(description="whose Hessian it uses")] | UnsetType
    ) = UNSET
    conventions: (
        Annotated[
            Literal["flatlab", "chen-code"], Meta(description="of geometry; see docs/measures.md")
        ]
        | UnsetType
    ) = UNSET
    costly: (
        Annotated[
            list[Literal["elementwise-adaptive-trace", "operator-norm", "corrected-bound"]],
            Meta(description="quantities that cost as much as all others together"),
        ]
        | UnsetType
    ) = UNSET
    curvature: Annotated[
        Literal["all"] | list[Literal["hessian", "gauss-newton"]],
        Meta(description="matrices whose largest eigenvalues are taken; of the training's loss"),
    ] = "all"
    batch_norm: Annotated[
        Literal["train", "eval"],
        Meta(description="of hessian: statistics of the sample set, all at once, or running ones"),
    ] = "eval"
    generalization_gap: (
        Annotated[
            Literal["accuracy", "loss"],
            Meta(description="accuracy: train - test, in points; loss: test - train"),
        ]
        | UnsetType
    ) = UNSET
    precision: Annotated[Precision, Meta(description="of the arithmetic")]
    diverged_below: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        Meta(description="final training accuracy (%) that flags a run, beside a loss not finite"),
    ]
