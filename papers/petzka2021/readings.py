"""petzka2021: what its sentences leave open, and what its text says for one way to take them."""

from flatlab.lab.claims import Reading

READINGS = {
    "features": Reading(
        "plain",
        ("standardized", "code"),
        "what is compared in the experiments is the measure of Definition 3; standardized features "
        "are an option of Theorem 4, and the authors' script has the squared norm times Tr(H)",
        "our relative measure from Definition 3 already outperforms the competing measures of "
        "flatness in our empirical validation",
        "Sec. 7",
    ),
    "weights": Reading(
        "layer",
        ("network",),
        "the trace and the norm with which relative flatness is compared are of the parameters of "
        "the model that its definition speaks of: the weights of one layer",
        "For a model f(x, w) = ψ(w, φ(x)) = g(wφ(x)) with parameters w ∈ R^{d×m}",
        "Sec. 4",
    ),
}
