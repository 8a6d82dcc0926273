"""What this study is, and its figures."""

from flatlab.lab.figures import captions
from flatlab.lab.plan import CustomFigure, Pairs, Paper, Sweep

PAPER = Paper(title="Narrow", citation="my study", cited="Narrow")

FIGURES = {
    "fig1": Pairs(
        "narrow-grid",
        pairs=(("narrow_norm", "test_loss"),),
        title="norm and test loss",
        caption=captions.AT_THE_END,
    ),
    "fig2": CustomFigure("narrow-loop", title="norm and error", caption="A point is a network."),
    "fig3": Sweep(
        "narrow-grid",
        quantities=("narrow_norm",),
        along={"lr": "learning rate"},
        line="batch_size",
        title="norm by learning rate",
        caption="Mean over seeds.",
    ),
}
