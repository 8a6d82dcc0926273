"""What chen2026 is, and its figures."""

from flatlab.papers.chen2026._declared import BOUNDS, misclassified, trends
from flatlab.plan import Own, Pairs, Paper, Scatter
from flatlab.plotting import captions

PAPER = Paper(
    title="A simple connection from loss flatness to compressed neural representations",
    citation="Chen, Recanatesi and Shea-Brown, 2026",
    targets=(
        *("fig2", "fig3", "fig4", "fig5"),
        *("figH6", "figH7", "figH8", "figH9", "figI10", "figI11", "figJ12"),
    ),
)

TRENDS = ("test_accuracy", "nmls", "root_sharpness", "log_volume", "mls", "local_dimension")
CORRELATED = (
    *("local_dimension", "root_sharpness", "log_volume", "mls", "nmls"),
    *("generalization_gap", "bound_d", "nmls_bound", "relative_flatness"),
)


def pairs(grid: str, networks: str) -> Pairs:
    """The pair plot of one kind of network."""
    return Pairs(
        grid,
        quantities=CORRELATED,
        title=f"sharpness, compression and generalization of {networks}",
        caption=(
            *(captions.AT_THE_END, captions.CORRELATION),
            *(captions.WITH_BOUNDS, captions.GAP),
        ),
    )


FIGURES = {
    "fig2": trends("vgg-grid", "learning rates", "VGG", TRENDS),
    "fig3": trends("vgg-grid", "batch sizes", "VGG", TRENDS),
    "fig4": Scatter(
        ("vgg-grid", "mlp-grid", "lenet-grid"),
        pairs=(("mls", "bound_d"), ("nmls", "nmls_bound")),
        title="local sensitivity against its bounds",
        caption=(
            captions.AT_THE_END,
            captions.CORRELATION,
            "Bounds use the largest singular value of a kernel's matrix; they are theorems for "
            "perceptrons and proxies where convolutions share weights.",
        ),
    ),
    "fig5": Own(
        "vision-zoo",
        title="adaptive sharpness against normalized MLS",
        caption=(
            "One point per network; bars are standard errors over samples and draws; a sigmoid is "
            "appended to each network. Left: elementwise-adaptive sharpness, logarithmic, against "
            "mean |x|² |J|² with the norm of the Jacobian by a Krylov iteration. Right: the same "
            "pair without normalization, S against MLS. Correlations with the logarithm of the "
            "ordinate, with 95 % intervals in brackets (BCa bootstrap over networks; between "
            "families, over families): over all networks (Pearson's and of ranks), within "
            "families, and over the families' means."
        ),
        size_inches=(11.0, 5.6),
    ),
    "figH6": BOUNDS,
    "figH7": pairs("vgg-grid", "VGG networks"),
    "figH8": pairs("mlp-grid", "multilayer perceptrons"),
    "figH9": pairs("lenet-grid", "LeNet networks"),
    "figI10": trends("mlp-grid", "batch sizes", "multilayer perceptrons", TRENDS),
    "figI11": trends("mlp-grid", "learning rates", "multilayer perceptrons", TRENDS),
    "figJ12": misclassified("test_loss", "root_sharpness", "log_volume", "mls", "local_dimension"),
}
