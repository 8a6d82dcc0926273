"""The sections of a grid's file: every key with its type, range and meaning."""

import ast
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from flatlab.core.options import Architecture
from flatlab.core.registry import PACKAGE, assignments, joined, literal, measures_samples
from flatlab.core.schema import Key, Strict, closest, means

if TYPE_CHECKING:
    Corruption = str
else:
    _MADE = assignments(PACKAGE / "data/corruptions/corrupted.py")["MADE"].keys
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

    def fault(self, measured: list[str]) -> tuple[str, str] | None:
        """A key and what is wrong with it, or None.  measured: all families of the experiment."""
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

    FOLDERS: ClassVar[dict[str, str]] = {"families": "metrics"}

    families: Annotated[
        list[str], means("files of flatlab/metrics; those joined by + are measured by one job")
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
                    return key, f"{family!r} is none of the families after the first; {words}"
        if self.test_sets and "accuracy" not in joined(self.families):
            return "test_sets", "needs the family accuracy"
        for name, chosen in self.test_sets.items():
            if name == "test":
                return "test_sets.test", "is the name of the clean test set; choose another one"
            if chosen.source == "made" and "frost" in chosen.corruptions:
                sentence = "frost needs photographs; leave it out, or set source: published"
                return f"test_sets.{name}", sentence
        if again := self.transformations:
            return again.fault(joined(self.families))
        return None
