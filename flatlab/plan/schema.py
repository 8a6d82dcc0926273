"""What a configuration and a grid may say: every key with its type, range and meaning.

The classes are the schema. `convert` turns a mapping read from YAML into one of them, or raises a
`PlanError` of one sentence that names the file and the key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Scale = Literal["demo", "short", "paper"]
SCALES: tuple[str, ...] = get_args(Scale)
Precision = Literal["float32", "float64"]
Loss = Literal["half-mse", "mean-mse"]
Step = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]
Key = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*$", description="lower case, digits, hyphens")]


class PlanError(ValueError):
    """A configuration that cannot be built; the message names the culprit and the remedy."""


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An immutable record that refuses keys it does not know."""


class Config(Strict, frozen=True):
    """What to build; `config.yaml`."""

    scale: Annotated[Scale, Meta(description="how large the experiments are")] = "demo"
    papers: Annotated[
        Literal["all"] | Annotated[list[str], Meta(min_length=1)],
        Meta(description="whose figures to build"),
    ] = "all"
    device: Annotated[Literal["cpu", "cuda"], Meta(description="where to train and measure")] = (
        "cpu"
    )
    save_every_s: Annotated[
        float, Meta(gt=0, description="seconds of training that a killed job loses at most")
    ] = 60.0
    packs: Annotated[
        Literal["all", "measured"],
        Meta(description="measured: those whose metric files are there, and nothing is trained"),
    ] = "all"
    stand_ins: Annotated[
        dict[str, str], Meta(description="data sets that take the place of others, by their keys")
    ] = {}
    data_folder: Annotated[str | None, Meta(description="where data sets lie, or are put")] = None


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
    """The architecture of a grid."""

    name: Annotated[Key, Meta(description="a file of flatlab/networks")]
    outputs: Annotated[
        Literal["classes"] | Annotated[int, Meta(ge=1)],
        Meta(
            description="how many; more than classes: the rest has target 0; regression: a number"
        ),
    ]
    activation: Annotated[
        Literal["relu", "tanh", "gaussian"] | None,
        Meta(description="after each hidden layer; null where the architecture takes none"),
    ] = None
    initialization: Annotated[
        Key,
        Meta(
            description="a file of flatlab/train/initializations: framework, he-normal, "
            "xavier-normal (biases start at 0), low-frequency, high-frequency, as-built, ..."
        ),
    ]
    options: Annotated[
        dict[str, Any], Meta(description="what the architecture is built with; its OPTIONS")
    ] = {}
    initialization_steps: Annotated[
        int, Meta(ge=1, description="of high-frequency: how long it is fitted")
    ] = 10_000


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
    ] = []
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


class Adaptive(Strict, frozen=True):
    """How the family `adaptive` estimates sharpness and sensitivity; defaults as in chen2026."""

    outputs: Annotated[
        Literal["sigmoid", "network"],
        Meta(description="sigmoid: appended to the network's outputs"),
    ] = "sigmoid"
    targets: Annotated[
        Literal["labels", "own"],
        Meta(description="of the loss; own: the outputs themselves, as of a network that fits"),
    ] = "labels"
    rho: Annotated[float, Meta(gt=0, description="relative size of the changes of weights")] = 0.1
    draws: Annotated[int, Meta(ge=2, description="changes of weights, each with its negative")] = 50
    trace: Annotated[
        Literal["exact", "random", "none"],
        Meta(description="limit of small rho: a pass per sample and output, random signs, or not"),
    ] = "random"
    probes: Annotated[int, Meta(ge=2, description="of trace random: draws of signs")] = 10
    tolerance: Annotated[float, Meta(gt=0, lt=1, description="relative, of the norm of J")] = 1e-3
    iterations: Annotated[int, Meta(ge=1, description="towards the norm of J at most")] = 30
    ascent_steps: Annotated[int, Meta(ge=0, description="of the ascent of secants; 0: none")] = 30
    ascent_start: Annotated[float, Meta(gt=0, description="standard deviation of its start")] = 0.1
    ascent_lr: Annotated[float, Meta(gt=0, description="of Adam in the ascent")] = 0.1
    drop_above: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="a network is flagged where a standard error exceeds this share"),
    ] = 0.15


def closest(name: str, known: Iterable[str]) -> str:
    """The remedy for a misspelt name: the closest known one, then all of them."""
    known = sorted(known)
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {match[0]!r}? " if match else ""
    return f"{hint}Known: {', '.join(known)}"


def refuse_unknown(mapping: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    """Raise where `mapping` has a key that is not among `known`."""
    known = list(known)
    for key in mapping:
        if key not in known:
            raise PlanError(f"{where}: unknown key {key!r}; {closest(str(key), known)}")


def convert(mapping: object, kind: type[Strict], where: str | Callable[[str], str]) -> Any:
    """Check `mapping` against `kind` and return an instance of it.

    where: what precedes a key in messages, "grids/mlp-grid.yaml: training.", or a function of the
    key where its keys come from several places.
    """
    place = where if callable(where) else lambda key: f"{where}{key}"
    if not isinstance(mapping, Mapping):
        whole = place("").rstrip(": .")
        raise PlanError(f"{whole}: expected keys and values, found {mapping!r}")
    refuse_unknown(mapping, kind.__struct_fields__, place("").rstrip(": ."))
    try:
        return msgspec.convert(mapping, kind)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at `")
        if missing := re.search(r"missing required field `(\w+)`", sentence):
            inside = path.lstrip("$.").rstrip("`")
            raise PlanError(
                f"{place('.'.join([*inside.split(), missing[1]]))} is missing"
            ) from None
        if path.startswith("key"):
            sentence, path = "a name here is lower case, digits and hyphens", path.partition("$")[2]
        path = path.lstrip("$.").rstrip("`")
        key = re.split(r"[.\[]", path)[0]
        rest = path.removeprefix(key).replace("[...]", " (an entry)")
        allowed = {name: values for name, values, _ in describe(kind)}[key]
        if match := re.match("Invalid enum value '(.*)'", sentence):
            hint = closest(match[1], allowed.split(" | "))
            raise PlanError(f"{place(key)}{rest}: unknown value {match[1]!r}; {hint}") from None
        sentence = f"{sentence[0].lower()}{sentence[1:]}, found {mapping[key]!r}"
        raise PlanError(f"{place(key)}{rest}: {sentence}; allowed: {allowed}") from None


def describe(kind: type[Strict]) -> list[tuple[str, str, str]]:
    """Each key of `kind` with its allowed values and its meaning, for `flatlab experiments`."""
    schema = msgspec.json.schema(kind)["$defs"]

    def allowed(node: dict[str, Any]) -> str:
        if "$ref" in node:
            return f"keys {', '.join(schema[node['$ref'].rpartition('/')[2]]['properties'])}"
        if "anyOf" in node:
            return " or ".join(allowed(option) for option in node["anyOf"])
        if "enum" in node:
            return " | ".join(map(str, node["enum"]))
        if "prefixItems" in node:
            return "list of " + " and ".join(allowed(item) for item in node["prefixItems"])
        if node.get("type") == "array":
            return "list of " + allowed(node["items"])
        signs = {
            "minimum": ">=",
            "exclusiveMinimum": ">",
            "maximum": "<=",
            "exclusiveMaximum": "<",
        }
        limits = [f"{sign} {node[key]:g}" for key, sign in signs.items() if key in node]
        return " ".join([node.get("type", "object"), *limits])

    fields = schema[kind.__name__]["properties"]
    return [(key, allowed(node), node.get("description", "")) for key, node in fields.items()]
