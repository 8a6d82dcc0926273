"""What this study is, and its figures."""

from flatlab.plan import Lines, Own, Paper, Points
from flatlab.plotting import captions

PAPER = Paper(title="Narrow", citation="my study", cited="Narrow")

FIGURES = {
    "fig1": Points(
        "narrow-grid",
        pairs=(("narrow_norm", "test_loss"),),
        title="norm and test loss",
        caption=captions.AT_THE_END,
    ),
    "fig2": Own("narrow-loop", title="norm and error", caption="A point is a network."),
    "fig3": Lines(
        "narrow-grid",
        quantities=("narrow_norm",),
        along={"lr": ("learning rate", "logarithmic")},
        line="batch_size",
        title="norm by learning rate",
        caption="Mean over seeds.",
    ),
}
