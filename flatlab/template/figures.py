"""What this study is, and its figures: declarations of what flatlab's templates draw."""

from flatlab.lab.figures import captions
from flatlab.lab.plan import Pairs, Paper, Sweep

PAPER = Paper(title="NAME", citation="my study", cited="NAME")

FIGURES = {
    "fig1": Pairs(
        "KEY-grid",
        pairs=(("root_sharpness", "mls"), ("root_sharpness", "test_accuracy")),
        title="sharpness, sensitivity and test accuracy",
        caption=(
            captions.AT_THE_END,
            "Sharpness and sensitivity (MLS) are means over 50 training samples. "
            "Correlations: over all networks with 95 % interval; same setting; "
            "adjusted for the training loss.",
        ),
    ),
    "fig2": Sweep(
        "KEY-grid",
        quantities=("root_sharpness", "test_accuracy"),
        along={"lr": "learning rate"},
        line="batch_size",
        title="sharpness and test accuracy by learning rate",
        caption="Mean over seeds, with its 95 % interval.",
    ),
}
