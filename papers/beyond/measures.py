"""The measures that the joint grids compare, and what papers say of them; imports nothing."""

PAPERS = {
    "chen": "chen2024, chen2026",
    "macdonald": "macdonald2023",
    "petzka": "petzka2021",
    "andriushchenko": "andriushchenko2023",
    "jiang": "Jiang et al. (2020)",
}
MEASURES = {
    "chen": (
        "root_sharpness",
        "elementwise_adaptive_trace",
        "matrix_normalized_sharpness",
        "mls",
        "nmls",
        "normalized_mls",
        "g",
        "log_mean_volume",
        "network_log_volume",
        "local_dimension",
        "bound_d",
        "nmls_bound",
    ),
    "macdonald": (
        "hessian_lambda_max",
        "gauss_newton_lambda_max",
        "jacobian_norm",
        "softmax_jacobian_norm",
        "output_norm",
    ),
    "petzka": (
        "kappa_trace",
        "normalized_kappa_trace",
        "normalized_kappa_max",
        "hessian_trace",
        "fisher_rao",
        "pac_bayes",
        "squared_norm",
    ),
    "jiang": (
        "log_spectral_product",
        "log_frobenius_product",
        "frobenius_over_spectral",
        "parameter_distance",
        "path_norm",
        "inverse_margin",
        "log_spectral_product_over_margin",
        "log_frobenius_product_over_margin",
        "log_spectral_complexity",
        "pac_bayes_flatness",
    ),
}
"""Quantities, by the paper that they are of. Volumes are those of Defs. 3.3 and 3.5, into which a
sample enters as zero where its Jacobian has not full rank: a mean of logarithms leaves it out, and
so leaves out what is most compressed."""

DEFINITIONS = tuple(
    f"{case}-{scale}-{norm}"
    for case in ("average", "worst")
    for scale in ("standard", "adaptive", "normalized")
    for norm in ("l2", "linf")
)
"""Of sharpness at a radius, in andriushchenko2023."""

NORMS = {"l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
LABELS = {
    name: f"{case} {scale} {NORMS[norm]}"
    for name in DEFINITIONS
    for case, scale, norm in [name.split("-")]
} | {"corrupted": "error on corrupted images"}
"""What has no label of its own: definitions of sharpness, and a part of an error."""

LAYERS, NEURONS = ("layers",), ("layers", "neurons")
INVARIANT: dict[str, tuple[str, ...]] = {
    # chen2026 Sec. 3: "the compression metrics themselves (LVR, MLS, NMLS) depend only on the
    # network function f"; App. F: the measures "unchanged under layer rescaling"
    **dict.fromkeys(("log_mean_volume", "mls", "nmls"), NEURONS),
    "matrix_normalized_sharpness": LAYERS,
    "elementwise_adaptive_trace": NEURONS,
    # chen2024 Sec. 1: "explicit formulas for these bounds that are reparametrization-invariant"
    "bound_d": LAYERS,
    # petzka2021 Thm. 4 and Fig. 7
    "kappa_trace": LAYERS,
    **dict.fromkeys(("normalized_kappa_trace", "normalized_kappa_max", "fisher_rao"), NEURONS),
    # andriushchenko2023 Sec. 3.2: elementwise adaptive sharpness, with or without normalized logits
    **{
        f"{case}-{scale}-{norm}": NEURONS
        for case in ("average", "worst")
        for scale in ("adaptive", "normalized")
        for norm in ("l2", "linf")
    },
}
"""By measure: the transformations that keep the function, under which its paper says that it stays.
The last layer and the one before it are two layers."""
