"""The sections of a grid's file: every key with its type, range and meaning."""

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from flatlab.core.options import Architecture
from flatlab.core.registry import PACKAGE, assignments, joined, literal, measures_samples
from flatlab.core.schema import Key, Strict, closest, means

if TYPE_CHECKING:
    Corruption = str
else:
    _MADE = assignments(PACKAGE / "data/corruptions/images.py")["MADE"].keys
    Corruption = Literal[(*map(ast.literal_eval, _MADE), "frost")]
"""One of CIFAR-10-C's corruptions."""

Precision = Literal["float32", "float64"]
Step = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Scaling = Literal["unit", "standardized", "channels", "components", "none"]
Fraction = Annotated[float, Meta(gt=0, lt=1)]


class Data(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """The data set of a grid, and how it is turned into inputs and targets."""

    FOLDERS: ClassVar[dict[str, str]] = {"set": "data", "augmentation": "train/augmentations"}

    set: Annotated[Key, means("a file of flatlab/data")]
    classes: Annotated[
        Literal["all"] | Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=2)],
        means("labels to keep, renumbered in this order"),
    ]
    scaling: Annotated[
        Scaling,
        means(
            "unit: in [0, 1]; standardized: zero mean and unit variance over all numbers; "
            "channels, components: the same per channel of images, or per component; "
            "none: unchanged, for regressions"
        ),
    ]
    scale: Annotated[float, means("factor on the scaled inputs", gt=0)] = 1.0
    samples: Annotated[
        Literal["all"] | Count,
        means(
            "number of training samples: the first ones, in a fixed random order if "
            "the data are sorted by class; scaling uses the moments of all samples"
        ),
    ] = "all"
    targets: Annotated[
        Literal["one-hot", "given"],
        means("what the outputs are fitted to; given: the numbers of a regression"),
    ]
    augmentation: Annotated[
        str,
        means(
            "random changes of the inputs in training, files of flatlab/lab/train/augmentations, "
            "joined by +: none, crop-flip, rand-augment"
        ),
    ]
    pixels: Annotated[
        Literal["all"] | Count,
        means(
            "height and width of images; larger than the data: nearest pixel, "
            "smaller: mean over an area"
        ),
    ] = "all"
    options: dict[str, Any] = field(default_factory=dict)


class Network(Strict, frozen=True, kw_only=True):
    """The architecture of a grid; in a file its options stand beside the other keys."""

    FOLDERS: ClassVar[dict[str, str]] = {
        "name": "networks",
        "initialization": "train/initializations",
    }

    name: Annotated[Key, means("a file of flatlab/networks")]
    outputs: Annotated[
        Literal["classes"] | Count,
        means("number of outputs; those beyond the classes have target 0"),
    ]
    initialization: Annotated[
        Key,
        means(
            "a file of flatlab/lab/train/initializations: framework, he-normal, "
            "xavier-normal (biases start at 0), low-frequency, high-frequency, as-built, ..."
        ),
    ]
    initialization_steps: Annotated[
        int, means("of high-frequency: how long it is fitted", ge=1)
    ] = 10_000
    options: Architecture = Architecture()

    @property
    def label(self) -> str:
        """The name in captions, tables and forecasts: mlp (width 64)."""
        differences = self.options.differences
        return f"{self.name} ({differences})" if differences else self.name


class LogUniform(Strict, frozen=True):
    """A number that each run draws with its seed, uniform in the logarithm."""

    low: Annotated[float, means("at least", gt=0)]
    high: Annotated[float, means("at most", gt=0)]


class Stop(Strict, frozen=True):
    """When training stops early: at a `loss` or an `accuracy` on the training set.

    `epoch_loss` is compared at the end of each epoch, and evaluates nothing.
    """

    every: Annotated[Count | None, means("steps between evaluations; not with epoch_loss")] = None
    loss: Annotated[float | None, means("stop below this loss")] = None
    mean_of: Annotated[int, means("number of evaluations whose mean is compared with it", ge=1)] = 1
    accuracy: Annotated[float | None, means("stop at this accuracy (%)")] = None
    epoch_loss: Annotated[
        float | UnsetType, means("stop below this mean of the losses of an epoch's minibatches")
    ] = UNSET

    def contradiction(self) -> tuple[str, str] | None:
        at_ends = self.epoch_loss is not UNSET
        if (self.loss is not None) + (self.accuracy is not None) + at_ends != 1:
            return "", "give one of loss or accuracy, or epoch_loss"
        if (self.every is None) != at_ends:
            return "every", "loss and accuracy need it, epoch_loss is compared after each epoch"
        if self.mean_of > 1 and self.loss is None:
            return "mean_of", "is for loss; leave it out"
        return None


class Start(Strict, frozen=True, kw_only=True):
    """Fine-tuning: the trained networks of another grid, with whose final weights training starts.

    Statistics of batch norm come with the weights; the optimizer starts afresh.
    """

    grid: Annotated[Key, means("the grid that trains them, a file of experiments/")]
    setting: Annotated[str | None, means("which of its settings, if it has several")] = None
    seed: Annotated[
        Literal["same"] | Step, means("same: each run starts from that of its seed; or one for all")
    ] = "same"
    anew: Annotated[
        list[str], means("modules that are drawn by `initialization` instead, such as [fc]")
    ] = field(default_factory=list)


class Training(Strict, frozen=True, kw_only=True):
    """How each network is trained; options are those of loss, optimizer and regularizers."""

    FOLDERS: ClassVar[dict[str, str]] = {
        "loss": "losses",
        "optimizer": "train/optimizers",
        "regularizer": "train/regularizers",
    }

    lr: Annotated[
        Annotated[float, Meta(gt=0)] | LogUniform,
        means("learning rate; {low: a, high: b}: log-uniform, drawn by each run's seed"),
    ]
    batch_size: Annotated[
        int, means("samples per step; with minibatches: full, samples at a time", ge=1)
    ]
    loss: Annotated[Key, means("a file of flatlab/losses: half-mse, cross-entropy, ...")]
    optimizer: Annotated[Key, means("a file of flatlab/lab/train/optimizers: sgd, adam, rmsprop")]
    regularizer: Annotated[
        str, means("files of flatlab/lab/train/regularizers, joined by +: none, sam, mixup")
    ] = "none"
    schedule: Annotated[
        Literal["constant", "step", "warmup-linear", "cosine"],
        means("of the learning rate; warmup-linear and cosine end at zero"),
    ]
    milestones: Annotated[
        list[Fraction], means("for step: fractions of the training after which lr is reduced")
    ] = field(default_factory=list)
    decay: Annotated[float, means("for step: factor at each milestone", gt=0, le=1)] = 0.1
    warmup: Annotated[
        float, means("for warmup-linear: fraction of the training in which lr rises", ge=0, lt=1)
    ] = 0.0
    minibatches: Annotated[
        Literal["reshuffled", "replacement", "torch-replacement", "full"],
        means(
            "reshuffled: epochs without replacement or incomplete batches; "
            "replacement: independent draws with numpy's generator, or torch's; "
            "full: all samples in each step, batch_size at a time"
        ),
    ]
    iterations: Annotated[Count | None, means("steps of the optimizer; or give epochs")] = None
    epochs: Annotated[Count | None, means("passes over the data; or give iterations")] = None
    stop: Annotated[Stop | None, means("when training stops earlier")] = None
    start: Annotated[
        Start | UnsetType, means("trained networks of another grid, from whose weights it starts")
    ] = UNSET
    precision: Annotated[
        Literal["float32", "tf32", "float64"],
        means("of weights and arithmetic; tf32: float32 with faster products on GPUs"),
    ]
    mode: Annotated[
        Literal["default", "batched", "graphs", "loop"],
        means(
            "default: that of the architecture; batched: a pack as one stack; graphs: "
            "side by side on a GPU; loop: one after the other, the reference"
        ),
    ]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def length(self) -> str:
        """The length of the training, in words."""
        steps = f"{self.epochs:,} epochs" if self.epochs else f"{self.iterations:,} iterations"
        return f"at most {steps}" if self.stop else steps

    def contradiction(self) -> tuple[str, str] | None:
        if (self.iterations is None) == (self.epochs is None):
            return "iterations", "give either iterations or epochs, and null for the other"
        if self.schedule == "step" and not self.milestones:
            return "milestones", "schedule step needs them, for example [0.5, 0.75]"
        if self.milestones != sorted(self.milestones):
            return "milestones", "must be in order"
        for key, schedule in {"milestones": "step", "warmup": "warmup-linear"}.items():
            if getattr(self, key) and self.schedule != schedule:
                return key, f"is for schedule {schedule}, not {self.schedule}; leave it out"
        if isinstance(self.lr, LogUniform) and self.lr.low > self.lr.high:
            return "lr", "low must not be above high"
        if self.stop and (wrong := self.stop.contradiction()):
            return ".".join(filter(None, ("stop", wrong[0]))), wrong[1]
        return None


class Dense(Strict, frozen=True):
    """Steps at which weights are kept: every k-th, or n, evenly spaced in the logarithm."""

    every: Annotated[Count | None, means("steps between checkpoints; or give log_spaced")] = None
    log_spaced: Annotated[
        Annotated[int, Meta(ge=2)] | None, means("number of checkpoints at most, besides step 0")
    ] = None


class Checkpoints(Strict, frozen=True):
    """Which weights are kept besides the final ones, and when the training curves are recorded."""

    dense: Annotated[
        Literal["none"] | list[Step] | Dense,
        means("steps: a list, {every: k} or {log_spaced: n}; 0 is before the first step"),
    ]
    curves: Annotated[
        Literal["none"] | list[Step] | Dense,
        means(
            "steps at which loss and accuracy on the training set are recorded, "
            "besides the last step and those of dense"
        ),
    ] = Dense(log_spaced=25)
    seeds: Annotated[
        Literal["all"] | list[str | int], means("blocks of seeds with dense checkpoints")
    ] = "all"
    fitted: Annotated[
        Annotated[float, Meta(ge=0, lt=100)] | UnsetType,
        means("also the first epoch's end with a training error (%) of at most this"),
    ] = UNSET


class Samples(Strict, frozen=True):
    """A random subset of the data, on which networks are measured."""

    split: Annotated[Literal["train", "test"], means("the split that samples come from")]
    size: Annotated[int, means("number of samples; at most, with only: misclassified", ge=1)]
    seed: Annotated[int, means("seed of the draw", ge=0)]
    only: Annotated[
        Literal["all", "misclassified"],
        means("misclassified: samples that the network gets wrong at that checkpoint"),
    ] = "all"


class Corrupted(Strict, frozen=True, kw_only=True):
    """A further test set: corrupted images (Hendrycks & Dietterich 2019)."""

    corruptions: Annotated[
        Literal["all"] | Annotated[list[Corruption], Meta(min_length=1)],
        means("which; all: those that can be made, or all of the published ones"),
    ] = "all"
    severity: Annotated[int, means("how strong they are", ge=1, le=5)]
    size: Annotated[int, means("number of images, of all corruptions together", ge=1)]
    source: Annotated[
        Literal["made", "published"],
        means("made: from the test images; published: files of CIFAR-10-C in the data folder"),
    ] = "made"
    seed: Annotated[int, means("seed of the draws", ge=0)] = 0


def reads_of(test_sets: Iterable[Corrupted | None]) -> tuple[str, ...]:
    """What test sets read in the data folder."""
    published = any(each and each.source == "published" for each in test_sets)
    return ("CIFAR-10-C",) if published else ()


class Transformations(Strict, frozen=True, kw_only=True):
    """Changes of the final weights that leave the function of a network as it is."""

    kinds: Annotated[
        Annotated[list[Key], Meta(min_length=1)],
        means(
            "last-layer: times an integer in 5-25 that the layer before is divided by; others: "
            "random factors of layers, neurons or channels before batch norm, or random orders"
        ),
    ]
    families: Annotated[list[Key], means("which are measured again after each of them")]
    runs: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType,
        means("how many of each pack, the first; the others have no values after them"),
    ] = UNSET

    def contradiction(self, measured: Sequence[str] = ()) -> tuple[str, str] | None:
        """As of every section.  measured: all families of the experiment."""
        known = literal("networks", "_transformations", "KINDS")
        for kind in self.kinds:
            if kind not in known:
                return "transformations.kinds", f"unknown {kind!r}; {closest(kind, known)}"
        for family in self.families:
            if family not in measured:
                return "transformations.families", f"{family} is not among the families measured"
            if not measures_samples(family):
                sentence = f"{family} is of the outputs alone, which do not change; leave it out"
                return "transformations.families", sentence
        return None


class Measure(Strict, frozen=True, kw_only=True):
    """The measurements on each checkpoint of each run; the options of the families are keys too."""

    FOLDERS: ClassVar[dict[str, str]] = {"families": "families"}

    families: Annotated[
        list[str], means("files of flatlab/families; those joined by + are measured by one job")
    ]
    optional: Annotated[
        list[str],
        means("families that packs may lack with `packs: measured`: their weights are gone"),
    ] = field(default_factory=list)
    at_the_end: Annotated[
        list[str],
        means("families measured on the final weights alone; dense checkpoints are not read"),
    ] = field(default_factory=list)
    samples: Annotated[dict[Key, Samples], means("named sample sets", min_length=1)]
    test_sets: Annotated[
        dict[Key, Corrupted], means("further test sets by name, for the family accuracy")
    ] = field(default_factory=dict)
    transformations: Annotated[
        Transformations | None, means("of the final weights, after which is measured again")
    ] = None
    precision: Annotated[Precision, means("of the arithmetic")]
    untrained: Annotated[
        bool | UnsetType,
        means("false: step 0, where it is kept, only serves distances from the initial weights"),
    ] = UNSET
    diverged_below: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        means("flag runs with a lower final training accuracy (%), or a non-finite loss"),
    ]
    converged_only: Annotated[
        bool, means("flag runs that did not reach `stop` of the training, too")
    ] = False

    def contradiction(self) -> tuple[str, str] | None:
        others = self.families[1:]
        for key in ("optional", "at_the_end"):
            for family in getattr(self, key):
                if family not in others:
                    words = closest(family, others)
                    return key, f"{family!r} is not one of the families after the first; {words}"
        if self.test_sets and "accuracy" not in joined(self.families):
            return "test_sets", "needs the family accuracy"
        for name, chosen in self.test_sets.items():
            if name == "test":
                return "test_sets.test", "is the name of the clean test set; choose another one"
            if chosen.source == "made" and "frost" in chosen.corruptions:
                sentence = "frost needs photographs; leave it out, or set source: published"
                return f"test_sets.{name}", sentence
        if again := self.transformations:
            return again.contradiction(joined(self.families))
        return None
