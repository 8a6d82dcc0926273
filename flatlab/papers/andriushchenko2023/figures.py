"""The paper andriushchenko2023 and its figures."""

from flatlab.plan import Own, Paper

ELSEWHERE = "ImageNet or MNLI with their shifted test sets, and the released networks"

PAPER = Paper(
    title="A Modern Look at the Relationship between Sharpness and Generalization",
    citation="Andriushchenko, Croce, Müller, Hein and Flammarion, ICML 2023",
    cited="Andriushchenko et al. (2023)",
    targets=(*(f"fig{n}" for n in range(1, 16)), "table1", "table2", "table3", "table4"),
    needs={
        **{f"fig{n}": ELSEWHERE for n in (2, 3, 4, *range(8, 16))},
        **dict.fromkeys(("table1", "table2"), ELSEWHERE),
        **dict.fromkeys(("fig5", "table3", "table4"), "CIFAR-10-C for its second half"),
    },
)

FIGURES = {
    "fig1": Own(
        "linear-grid",
        title="adaptive sharpness and the scale of a linear classifier",
        caption=(
            "(a-c) Worst-case sharpness of the trained weights times a factor, which is 1 at the "
            "vertical mark, in three neighbourhoods; with normalized logits it does not depend on "
            "the factor. (d) Along gradient descent, in the neighbourhood of (a)."
        ),
        details=(
            "Sharpness is the worst growth of the logistic loss of a single sample as the weights "
            "w change by δ, in closed form, averaged over the training samples; (a) is the "
            "neighbourhood of the authors' notebook, (b) and (c) are elementwise adaptive; logits "
            "are normalized as in Eq. 5. Lines are means over networks from different starts; "
            "bands from the smallest to the largest value are thinner than the lines."
        ),
        size_inches=(7.1, 4.8),
    ),
    "fig7": Own(
        "dln-grid",
        title="sharpness and generalization of diagonal linear networks",
        caption=(
            "A point is a network that fits a sparse regression to a training loss of 1e-5, "
            r"coloured by its initialization; $\tau$ is Kendall's, with its 95 % interval. In (c) "
            r"the paper has a $\tau$ of about 0.8; (f) is its printed rescaling. The line in (a) "
            "marks equality."
        ),
        details=(
            r"Networks $f(x) = \langle x, u \odot v\rangle$; learning rate and scale of the "
            r"initialization are drawn at random. $H$ is the Hessian of $|X(u \odot v) - y|^2/2$; "
            r"rescaled it is $H_{ij} c_i c_j$ with $c = \sqrt{|u|/|v|}$ on $u$ and its inverse on "
            r"$v$, which the paper prints interchanged. Intervals: jackknife over networks, on "
            "Fisher's z."
        ),
        size_inches=(7.1, 5.2),
    ),
}
