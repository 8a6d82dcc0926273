"""The section `training` of a grid's file."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from flatlab.core.schema import Key, Strict, means
from flatlab.lab.kinds.grids.sections import Count, Fraction, Step


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
