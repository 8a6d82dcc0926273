"""What the quantities of the family `capacity` are."""

from flatlab.measuring.quantity import Quantity

LAYER = ("layer",)


def jiang(long_name: str, where: str, units: str = "mixed", *, label: str = "") -> Quantity:
    """A quantity of Jiang et al., "Fantastic generalization measures and where to find them"."""
    return Quantity(long_name, units, f"jiang2019 {where}", label=label)


def petzka(
    long_name: str, units: str = "1", dims: tuple[str, ...] = (), *, label: str = ""
) -> Quantity:
    return Quantity(long_name, units, "petzka2021 Sec. 6", dims, label=label)


NORMS = {
    "weight_layers": Quantity("L, number of linear and convolution layers", "1", ""),
    "squared_norm": petzka("sum of the squares of all parameters but biases", "parameter^2"),
    "squared_norm_with_biases": Quantity("sum of the squares of all parameters", "parameter^2", ""),
    "squared_norm_per_layer": petzka("||W_l||_F^2", "parameter^2", LAYER, label="squared norm"),
    "spectral_norm_per_layer": Quantity("||W_l||_2", "parameter", "", LAYER),
    "log_spectral_product": jiang(
        "ln of the product of ||W_l||_2^2", "prod-of-spec", label="spectral product"
    ),
    "log_frobenius_product": jiang(
        "ln of the product of ||W_l||_F^2", "prod-of-fro", label="Frobenius product"
    ),
    "spectral_sum": jiang("L (product of ||W_l||_2^2)^(1/L)", "sum-of-spec"),
    "frobenius_sum": jiang("L (product of ||W_l||_F^2)^(1/L)", "sum-of-fro"),
    "frobenius_over_spectral": jiang(
        "sum of ||W_l||_F^2 / ||W_l||_2^2", "fro-over-spec", "1", label="Frobenius / spectral"
    ),
    "layers_frobenius": jiang("sum over the layers of ||W_l||_F^2", "param-norm", "parameter^2"),
}
DISTANCES = {
    "frobenius_distance": jiang("sum of ||W_l - W_l^0||_F^2", "fro-dist", "parameter^2"),
    "spectral_distance": jiang("sum of ||W_l - W_l^0||_2^2", "dist-spec-init", "parameter^2"),
    "parameter_distance": Quantity(
        "||theta - theta^0||_2 of all parameters",
        "parameter",
        "jiang2019 l2-dist",
        label="distance from the start",
    ),
}
PATHS = {
    "path_norm": jiang(
        "sum of the outputs for inputs of one, with all parameters squared", "path-norm"
    )
}
MARGINS = {
    "margin": Quantity(
        "10th percentile of the output of the right class minus the largest other output",
        "output",
        "jiang2019",
    ),
    "inverse_margin": jiang("1 / margin^2; NaN unless the margin is positive", "inverse-margin"),
    "log_spectral_product_over_margin": jiang(
        "ln of the product of ||W_l||_2^2 over margin^2",
        "prod-of-spec/margin",
        label="spectral / margin",
    ),
    "log_frobenius_product_over_margin": jiang(
        "ln of the product of ||W_l||_F^2 over margin^2",
        "prod-of-fro/margin",
        label="Frobenius / margin",
    ),
    "spectral_sum_over_margin": jiang(
        "L (product of ||W_l||_2^2 over margin^2)^(1/L)", "sum-of-spec/margin"
    ),
    "frobenius_sum_over_margin": jiang(
        "L (product of ||W_l||_F^2 over margin^2)^(1/L)", "sum-of-fro/margin"
    ),
    "log_spectral_complexity": jiang(
        "ln of product of ||W_l||_2^2 times sum of ||W_l||_F^2 / ||W_l||_2^2 over margin^2",
        "spec-orig-main",
        label="spectral complexity",
    ),
    "log_spectral_complexity_from_initial": jiang(
        "the same with ||W_l - W_l^0||_F^2 in the sum", "spec-init-main"
    ),
    "path_norm_over_margin": jiang("path_norm / margin^2", "path-norm/margin"),
}
FUNCTION = {
    "fisher_rao": petzka(
        "Fisher-Rao norm, L sqrt(mean <dl/df, f>^2)", "loss", label="Fisher-Rao norm"
    ),
    "output_norm": Quantity(
        "Frobenius norm of the outputs of all samples", "output", "macdonald2023 App. C.1"
    ),
    "feature_frobenius": Quantity(
        "Frobenius norm of a layer's inputs of all samples", "layer input", "", LAYER
    ),
}
PAC_BAYES = {
    "pac_bayes": petzka("squared_norm / (4 sigma^2) + ln(n / sigma) + 10", label="PAC-Bayes"),
    "pac_bayes_sigma": petzka(
        "deviation sigma of noise on all parameters that lowers the accuracy by 0.1", "parameter"
    ),
    "pac_bayes_flatness": Quantity(
        "1 / sigma^2", "1/parameter^2", "jiang2019 pacbayes-flatness", label="PAC-Bayes flatness"
    ),
    "pac_bayes_drop": Quantity("mean loss of accuracy at sigma, a fraction", "1", ""),
    "pac_bayes_converged": Quantity("whether that is within 0.01 of 0.1", "1", ""),
}
QUANTITIES = NORMS | DISTANCES | PATHS | MARGINS | FUNCTION | PAC_BAYES
