"""The paper andriushchenko2023 and its figures."""

from flatlab.papers.andriushchenko2023 import _released
from flatlab.plan import Own, Paper
from flatlab.plan.templates import Declaration

PAPER = Paper(
    title="A Modern Look at the Relationship between Sharpness and Generalization",
    citation="Andriushchenko, Croce, Müller, Hein and Flammarion, ICML 2023",
    targets=(*(f"fig{n}" for n in range(1, 16)), "table1", "table2", "table3", "table4"),
    needs={**dict.fromkeys(("fig5", "table3", "table4"), "CIFAR-10-C for its second half")},
)

FIGURES: dict[str, Declaration] = {
    "fig1": Own(
        "linear-grid",
        title="adaptive sharpness and the scale of a linear classifier",
        caption=(
            "Sharpness is the worst growth of the logistic loss of a single sample as the weights "
            "w change by δ, in closed form, averaged over the training samples. First three "
            "panels: sharpness of the trained weights times a factor, which is 1 at the vertical "
            "mark, in the neighbourhood of the authors' notebook and in two elementwise-adaptive "
            "ones; with normalized logits (Eq. 5) it does not depend on the factor. Last panel: "
            "sharpness along gradient descent, in the neighbourhood of the first panel. Lines are "
            "means over networks from different starts; bands from the smallest to the largest "
            "value are thinner than the lines."
        ),
        size_inches=(11.0, 6.8),
    ),
    "fig7": Own(
        "dln-grid",
        title="sharpness and generalization of diagonal linear networks",
        caption=(
            "One point per network f(x) = <x, u * v> that fits a sparse regression to a training "
            "loss of 1e-5; learning rate and scale of the initialization are drawn at random, and "
            "the colour shows the latter. H is the Hessian of |X(u * v) - y|²/2; rescaled it is "
            "H_ij c_i c_j with c = sqrt(|u|/|v|) on u and its inverse on v; the paper prints the "
            "two interchanged (last panel). tau is Kendall's tau-a with its 95 % interval "
            "(jackknife over networks, on Fisher's z). The line in the first panel marks equality."
        ),
        size_inches=(11.0, 7.2),
    ),
    **_released.FIGURES,
}
