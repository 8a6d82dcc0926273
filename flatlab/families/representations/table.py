"""The quantities of the family `representations`, in the order of its reports."""

from flatlab.measuring.quantity import Quantity, chen2026

SAMPLE, LAYER, BOTH = ("sample",), ("layer",), ("sample", "layer")
SENSITIVITY = "layer input/input"
PAPYAN = "papyan2020"
NO_ERROR = "0 where it is exact"
COVARIANCES = ("all", "within", "means")

LOCAL = {
    "feature_sensitivity": Quantity(
        "mean ||A^l||_F^2", f"({SENSITIVITY})^2", "chen2026 Sec. 3.5", LAYER
    ),
    "feature_sensitivity_error": Quantity(
        f"standard error of feature_sensitivity over random directions; {NO_ERROR}",
        f"({SENSITIVITY})^2",
        "",
        LAYER,
    ),
    "feature_sensitivity_per_sample": Quantity("||A^l||_F^2", f"({SENSITIVITY})^2", "", BOTH),
    "feature_mls": Quantity(
        "mean ||A^l||_2; where it is estimated, a lower bound",
        SENSITIVITY,
        "chen2026 Def. 3.7 for x^l",
        LAYER,
    ),
    "feature_mls_per_sample": Quantity("||A^l||_2", SENSITIVITY, "", BOTH),
    "feature_mls_residual": Quantity(
        f"mean ||A^l v - sigma u|| / sigma of the singular vectors found; {NO_ERROR}",
        "1",
        "",
        LAYER,
    ),
    "normalized_feature_mls": Quantity(
        "mean ||A^l||_2 ||x|| / ||x^l||, over samples with x^l other than zero", "1", "", LAYER
    ),
    "feature_dimension": Quantity(
        "mean participation ratio of A^l A^l^T", "1", "chen2026 Def. 3.11 for x^l", LAYER
    ),
    "feature_dimension_error": Quantity(
        f"standard error of feature_dimension over random directions; {NO_ERROR}", "1", "", LAYER
    ),
    "feature_log_volume": Quantity(
        "mean of the sum of ln sigma_j(A^l) over the k largest",
        "ln",
        "chen2026 Eq. 7 for x^l",
        LAYER,
    ),
    "feature_volume_rank": Quantity("k of feature_log_volume", "1", "", LAYER),
    "feature_samples_zero": Quantity(
        "samples left out of normalized_feature_mls: x^l = 0", "1", "", LAYER
    ),
    "feature_samples_zero_jacobian": Quantity(
        "samples left out of feature_dimension: A^l = 0", "1", "", LAYER
    ),
    "feature_samples_rank_deficient": Quantity(
        "samples left out of feature_log_volume: A^l has a rank below k", "1", "", LAYER
    ),
}
BOUNDS = {
    "representation_bound": chen2026(
        "median over the samples of ||W_1||_2 ||df/dW_1||_F / (sigma_min(J^l) ||x||), a bound of "
        "||A^l||_F; NaN where x^l is no cut",
        SENSITIVITY,
        'Eq. 22, 23, whose "=" is "<="',
        LAYER,
    ),
    "representation_bound_per_sample": chen2026(
        "||W_1||_2 ||df/dW_1||_F / (sigma_min(J^l) ||x||)", SENSITIVITY, "Eq. 23, corrected", BOTH
    ),
    "representation_bound_infinite": Quantity(
        "samples where that bound is infinite: J^l has not full column rank, or x = 0",
        "1",
        "",
        LAYER,
    ),
    "representation_violations": Quantity(
        "samples with ||A^l||_F above that bound; none where weights of layer 1 are not shared; "
        "where ||A^l||_F is estimated, above it by three standard errors",
        "1",
        "",
        LAYER,
    ),
    "penultimate_bound": chen2026(
        "mean of ||W_1||_2 ||df/dW_1||_F / (sigma_min(W_L) ||x||), a bound of mean ||A^L||_F; "
        "infinite where the last layer has more inputs than outputs",
        SENSITIVITY,
        "Eq. 16, 21",
    ),
    "penultimate_bound_by_layer": chen2026(
        "||W_1||_2 / sigma_min(W_L) sqrt(mean ||x||^-2) sqrt(S(W_1)), above penultimate_bound",
        SENSITIVITY,
        "Eq. 16",
    ),
    "penultimate_bound_by_sharpness": chen2026(
        "the same with S in place of S(W_1)", SENSITIVITY, "Eq. 16"
    ),
    "head_bound": Quantity(
        "mean of ||W_1||_2 ||df/dW_1||_F / (sigma+ ||x||), a bound of head_frobenius; sigma+ the "
        "smallest singular value of W_L that is not zero",
        SENSITIVITY,
        "from chen2026 Eq. 21",
    ),
    "head_bound_per_sample": Quantity(
        "||W_1||_2 ||df/dW_1||_F / (sigma+ ||x||)", SENSITIVITY, "", SAMPLE
    ),
    "head_frobenius": Quantity(
        "mean ||P A^L||_F, P the projection onto the row space of W_L", SENSITIVITY, ""
    ),
    "head_frobenius_per_sample": Quantity("||P A^L||_F", SENSITIVITY, "", SAMPLE),
    "head_share": Quantity(
        "mean ||P A^L||_F^2 / ||A^L||_F^2, what of the features' sensitivity the outputs see",
        "1",
        "",
    ),
    "head_share_error": Quantity(
        f"standard error of head_share over random directions; {NO_ERROR}", "1", ""
    ),
    "head_violations": Quantity(
        "samples with ||P A^L||_F above their bound; none where weights of layer 1 are not shared",
        "1",
        "",
    ),
}
OF_CLASSES = {
    "collapse_within": Quantity(
        "Tr(Sigma_W Sigma_B^+) / K of K classes; NaN where their means are too few or alike",
        "1",
        f"{PAPYAN} NC1",
        LAYER,
    ),
    "collapse_norms": Quantity(
        "deviation over mean of the norms of the centred class means", "1", f"{PAPYAN} NC2", LAYER
    ),
    "collapse_angles": Quantity(
        "mean |cos + 1/(K-1)| over pairs of centred class means", "1", f"{PAPYAN} NC2", LAYER
    ),
    "collapse_nearest": Quantity(
        "share of samples where the nearest class mean and the network disagree",
        "1",
        f"{PAPYAN} NC4",
        LAYER,
    ),
    "collapse_duality": Quantity(
        "||W_L^T/||W_L||_F - M/||M||_F||_F, M the centred class means as columns; NaN unless the "
        "outputs are the classes present",
        "1",
        f"{PAPYAN} NC3",
    ),
    "representation_dimension": Quantity(
        "participation ratio of the covariance of x^l: of all samples, within classes, of the "
        "class means",
        "1",
        "",
        ("layer", "covariance"),
    ),
}


def _half(name: str) -> Quantity:
    """A quantity of the first half of the samples of each class."""
    long_name = f"{name} of the first half of the samples of each class"
    return Quantity(long_name, "1", "", OF_CLASSES[name].dims)


HALVES = {
    "collapse_within_half": _half("collapse_within"),
    "collapse_norms_half": _half("collapse_norms"),
    "collapse_angles_half": _half("collapse_angles"),
    "collapse_nearest_half": _half("collapse_nearest"),
    "collapse_duality_half": _half("collapse_duality"),
    "representation_dimension_half": _half("representation_dimension"),
}
COUNTS = {
    "collapse_samples_measured": Quantity("samples of the global geometry", "1", ""),
    "collapse_means_rank": Quantity("rank of Sigma_B", "1", "", LAYER),
    "collapse_deficient": Quantity(
        "whether collapse_within is NaN: the rank of Sigma_B is below min(K - 1, M_l)",
        "1",
        "",
        LAYER,
    ),
}
COLLAPSE = {**OF_CLASSES, **HALVES, **COUNTS}
LINEAR_SHARE = {
    "linear_share": Quantity(
        "1 - mean ||x^l(x) - x^l(nu) - A^l(nu) d||^2 / mean ||x^l(x) - x^l(nu)||^2, d = x - nu, nu "
        "the mean input of the class",
        "1",
        "chen2026 Sec. 3.5",
        LAYER,
    ),
    "linear_share_within": Quantity(
        "the same with the class mean of x^l in place of x^l(nu), of the spread alone",
        "1",
        "chen2026 Sec. 3.5",
        LAYER,
    ),
}
QUANTITIES = {**LOCAL, **BOUNDS, **COLLAPSE, **LINEAR_SHARE}
