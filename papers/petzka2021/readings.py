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
    )
}
